// Pins: the messages of a room that stay in view.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { hiddenUpTo, type RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { MessageFinder } from "../finder.ts";
import { changed, presentMessages } from "../presenter.ts";
import type { Message } from "../schema.ts";
import { MessageStore, type MessageTables } from "../store.ts";

/** How many a room has at most. */
const PINS_MAX = 100;

type Deps = { store: Store<MessageTables>; clock: Clock; gate: RoomGate };

export class PinService {
  readonly #deps: Deps;
  readonly #finder: MessageFinder;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#finder = new MessageFinder(deps);
  }

  /** Pins or unpins a message; what is so already stays so. */
  async set(context: Context, id: string, isPinned: boolean): Promise<void> {
    const { actor } = context;
    const { tenantId } = actor;
    await this.#deps.store.write(async (tx) => {
      const { row } = await this.#finder.findLiving(tx, context, id);
      if ((row.pinned_at !== null) === isPinned) return;
      const messages = new MessageStore(tx.db);
      if (isPinned && (await messages.pinned(tenantId, row.room_id, 0, PINS_MAX)).length >= PINS_MAX) {
        throw new Fault("pin_limit", `A room has at most ${PINS_MAX} pins`);
      }
      await messages.update(tenantId, id, { pinned_at: isPinned ? iso(this.#deps.clock.now()) : null });
      const data = { roomId: row.room_id, messageId: id };
      await tx.emit(changed(actor, row, isPinned ? "message.pinned" : "message.unpinned", data));
    });
  }

  /** The pinned messages of a room, those pinned last first. */
  async list(context: Context, roomId: string): Promise<Message[]> {
    const { tenantId, principalId } = context.actor;
    const entry = await this.#deps.gate.enter(context, roomId);
    const messages = new MessageStore(this.#deps.store.db);
    const rows = await messages.pinned(tenantId, roomId, hiddenUpTo(entry), PINS_MAX);
    return await presentMessages(messages, tenantId, principalId, rows);
  }
}
