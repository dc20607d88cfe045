// Pins: selected messages of a room.
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { hiddenUpTo, type Person, type RoomAccess, type RoomPeople } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { MessageAccess } from "./message_access.ts";
import { messageEvent, presentMessages } from "./presenter.ts";
import type { Message } from "./schema.ts";
import { MessageStore, type MessageTables, PINS_MAX } from "./store.ts";

type Deps = { store: Store<MessageTables>; clock: Clock; roomAccess: RoomAccess; people: RoomPeople };

export class PinService {
  readonly #deps: Deps;
  readonly #access: MessageAccess;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#access = new MessageAccess(deps);
  }

  /** Pins or unpins a message; idempotent. */
  async set(context: Context, id: string, isPinned: boolean): Promise<void> {
    const { actor } = context;
    const { tenantId } = actor;
    await this.#deps.store.write(async (tx) => {
      const { row } = await this.#access.requireActiveForUpdate(tx, context, id);
      if ((row.pinned_at !== null) === isPinned) return;
      const messages = new MessageStore(tx.db);
      if (isPinned && (await messages.pinned(tenantId, row.room_id, 0, PINS_MAX)).length >= PINS_MAX) {
        throw new Fault("limit_reached", `A room has at most ${PINS_MAX} pins`);
      }
      await messages.update(tenantId, id, { pinned_at: isPinned ? iso(this.#deps.clock.now()) : null });
      const data = { roomId: row.room_id, messageId: id };
      await tx.emit(messageEvent(actor, row, isPinned ? "message.pinned" : "message.unpinned", data));
    });
  }

  /** The pinned messages of a room, most recently pinned first. */
  async list(
    context: Context,
    roomId: string,
    include: readonly "senders"[],
  ): Promise<{ items: Message[]; senders?: Person[] }> {
    const { actor } = context;
    const { tenantId, principalId } = actor;
    const grant = await this.#deps.roomAccess.require(context, roomId);
    const messages = new MessageStore(this.#deps.store.db);
    const rows = await messages.pinned(tenantId, roomId, hiddenUpTo(grant), PINS_MAX);
    const items = await presentMessages(messages, tenantId, principalId, rows);
    return include.includes("senders")
      ? { items, senders: await this.#deps.people.sendersOf(actor, items) }
      : { items };
  }
}
