// Messages by id, for those who see them; and for those who change them, with the room's line to themselves.
import type { Actor } from "@/core/actor.ts";
import { roomStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { type Entry, hiddenUpTo, type RoomGate } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

export type Found = { row: MessageRow; entry: Entry };

export class MessageFinder {
  readonly #deps: { store: Store<MessageTables>; gate: RoomGate };

  constructor(deps: { store: Store<MessageTables>; gate: RoomGate }) {
    this.#deps = deps;
  }

  /** A message the caller sees, in a room where it has the role that the running operation declares. */
  async find(context: Context, id: string): Promise<Found> {
    const row = await new MessageStore(this.#deps.store.db).find(context.actor.tenantId, id);
    const absent = new Fault("not_found", "No such message, or not visible to the caller");
    if (row === undefined) throw absent;
    // Whether it is there for the caller comes before what the caller's role allows, which would tell.
    const seen = await this.#deps.gate.look(context.actor, row.room_id);
    if (seen === undefined || row.seq <= hiddenUpTo(seen)) throw absent;
    return { row, entry: await this.#deps.gate.enter(context, row.room_id) };
  }

  /** The texts of those that are still there and that the actor sees, by id. */
  async texts(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const rows = await new MessageStore(this.#deps.store.db).byIds(actor.tenantId, ids);
    const rooms = await this.#deps.gate.lookAll(actor, rows.map((row) => row.room_id));
    return new Map(rows.flatMap((row) => {
      const seen = rooms.get(row.room_id);
      return row.text === null || seen === undefined || row.seq <= hiddenUpTo(seen) ? [] : [[row.id, row.text]];
    }));
  }

  /** One as `find` finds it, read again once no other writer can be at work in the room: what is read then stays until the commit. */
  async findToChange(tx: Transaction<MessageTables>, context: Context, id: string): Promise<Found> {
    const { row } = await this.find(context, id);
    await tx.reserve(context.actor.tenantId, roomStream(row.room_id), 0);
    return await this.find(context, id);
  }

  /** The same for what only a message that is still there can get. */
  async findLiving(tx: Transaction<MessageTables>, context: Context, id: string): Promise<Found> {
    const found = await this.findToChange(tx, context, id);
    if (found.row.deleted_at !== null) throw new Fault("not_found", "The message is deleted");
    return found;
  }
}
