// Reactions: one per principal and key. Adding and removing are idempotent.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { EventDraft } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { RoomAccess, RoomPeople } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { MessageAccess } from "./message_access.ts";
import { messageEvent, sharedReactions } from "./presenter.ts";
import { type Reaction, REACTION_KINDS_MAX, type ReactionList, type ReactionRef, type Reactor } from "./schema.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

type Deps = { store: Store<MessageTables>; clock: Clock; cursors: Cursors; roomAccess: RoomAccess; people: RoomPeople };

export class ReactionService {
  readonly #deps: Deps;
  readonly #access: MessageAccess;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#access = new MessageAccess(deps);
  }

  /** Adds the caller's reaction; resolves to all reactions to the message. */
  add(context: Context, { id, key }: ReactionRef): Promise<Reaction[]> {
    const { tenantId, principalId } = context.actor;
    return this.#deps.store.write(async (tx) => {
      const { row } = await this.#access.requireActiveForUpdate(tx, context, id);
      const messages = new MessageStore(tx.db);
      const before = await this.#reactionsTo(messages, context, id);
      if (before.length >= REACTION_KINDS_MAX && !before.some((reaction) => reaction.key === key)) {
        throw new Fault("reaction_limit", `A message has at most ${REACTION_KINDS_MAX} different reactions`);
      }
      const isNew = await messages.addReaction({
        tenant_id: tenantId,
        message_id: id,
        key,
        principal_id: principalId,
        created_at: iso(this.#deps.clock.now()),
      });
      if (!isNew) return before;
      const after = await this.#reactionsTo(messages, context, id);
      await tx.emit(reactionEvent(context, row, "reaction.added", key, after));
      return after;
    });
  }

  /** Removes the caller's reaction, if there is one. */
  async remove(context: Context, { id, key }: ReactionRef): Promise<void> {
    const { tenantId, principalId } = context.actor;
    await this.#deps.store.write(async (tx) => {
      const { row } = await this.#access.requireActiveForUpdate(tx, context, id);
      const messages = new MessageStore(tx.db);
      if (!await messages.removeReaction(tenantId, id, { key, principal_id: principalId })) return;
      await tx.emit(
        reactionEvent(context, row, "reaction.removed", key, await this.#reactionsTo(messages, context, id)),
      );
    });
  }

  /** Who reacted to a message, in the order of the reactions. */
  async list(context: Context, { id, key, limit, cursor }: ReactionList): Promise<Page<Reactor>> {
    const { store, cursors, people } = this.#deps;
    const { actor } = context;
    const { row } = await this.#access.require(context, id);
    const bind = ["reaction.list", actor.tenantId, actor.principalId, id, key ?? null];
    const after = cursors.decode(cursor, bind);
    const rows = await new MessageStore(store.db).reactors(actor.tenantId, id, { key, after }, limit + 1);
    const reactors = await people.sendersOf(
      actor,
      rows.map(({ principal_id }) => ({ senderId: principal_id, roomId: row.room_id })),
    );
    const byId = new Map(reactors.map((person) => [person.id, person]));
    return cursors.page(
      rows,
      limit,
      bind,
      (one) => [one.created_at, one.key, one.principal_id],
      ({ key, principal_id, created_at }): Reactor => {
        const principal = byId.get(principal_id);
        if (principal === undefined) throw new Error("Expected the principal of a reaction, received none");
        return { key, principal, createdAt: created_at };
      },
    );
  }

  async #reactionsTo(messages: MessageStore, { actor }: Context, id: string): Promise<Reaction[]> {
    return (await messages.reactions(actor.tenantId, actor.principalId, [id])).get(id) ?? [];
  }
}

function reactionEvent(
  { actor }: Context,
  row: MessageRow,
  type: string,
  key: string,
  reactions: readonly Reaction[],
): EventDraft {
  return messageEvent(actor, row, type, {
    roomId: row.room_id,
    messageId: row.id,
    key,
    principalId: actor.principalId,
    reactions: sharedReactions(reactions),
  });
}
