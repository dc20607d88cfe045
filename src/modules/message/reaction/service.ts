// Reactions: one per principal and key. Adding twice and removing what is not there change nothing.
import { type Clock, iso } from "@/core/clock.ts";
import type { EventDraft } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { MessageFinder } from "../finder.ts";
import { changed, shared } from "../presenter.ts";
import type { Reaction } from "../schema.ts";
import { type MessageRow, MessageStore, type MessageTables } from "../store.ts";
import { REACTION_KINDS_MAX, type ReactionRef } from "./schema.ts";

type Deps = { store: Store<MessageTables>; clock: Clock; gate: RoomGate };

export class ReactionService {
  readonly #deps: Deps;
  readonly #finder: MessageFinder;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#finder = new MessageFinder(deps);
  }

  /** Adds the caller's reaction; resolves to all of the message. */
  add(context: Context, { id, key }: ReactionRef): Promise<Reaction[]> {
    const { tenantId, principalId } = context.actor;
    return this.#deps.store.write(async (tx) => {
      const { row } = await this.#finder.findLiving(tx, context, id);
      const messages = new MessageStore(tx.db);
      const before = await this.#of(messages, context, id);
      if (before.length >= REACTION_KINDS_MAX && !before.some((reaction) => reaction.key === key)) {
        throw new Fault("too_many_kinds", `A message has at most ${REACTION_KINDS_MAX} kinds of reaction`);
      }
      const isNew = await messages.addReaction({
        tenant_id: tenantId,
        message_id: id,
        key,
        principal_id: principalId,
        created_at: iso(this.#deps.clock.now()),
      });
      if (!isNew) return before;
      const after = await this.#of(messages, context, id);
      await tx.emit(told(context, row, "reaction.added", key, after));
      return after;
    });
  }

  /** Removes the caller's reaction, if there is one. */
  async remove(context: Context, { id, key }: ReactionRef): Promise<void> {
    const { tenantId, principalId } = context.actor;
    await this.#deps.store.write(async (tx) => {
      const { row } = await this.#finder.findLiving(tx, context, id);
      const messages = new MessageStore(tx.db);
      if (!await messages.removeReactions(tenantId, id, { key, principal_id: principalId })) return;
      await tx.emit(told(context, row, "reaction.removed", key, await this.#of(messages, context, id)));
    });
  }

  async #of(messages: MessageStore, { actor }: Context, id: string): Promise<Reaction[]> {
    return (await messages.reactions(actor.tenantId, actor.principalId, [id])).get(id) ?? [];
  }
}

function told(
  { actor }: Context,
  row: MessageRow,
  type: string,
  key: string,
  reactions: readonly Reaction[],
): EventDraft {
  return changed(actor, row, type, {
    roomId: row.room_id,
    messageId: row.id,
    key,
    principalId: actor.principalId,
    reactions: shared(reactions),
  });
}
