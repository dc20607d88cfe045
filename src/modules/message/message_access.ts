// Authorized access to single messages: for readers, and for writers under a lock of the room's stream. And that to send one.
import type { Actor } from "@/core/actor.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { hiddenUpTo, type RoomAccess, type RoomGrant } from "@/modules/room/mod.ts";
import type { AnyDatabase, AnyTransaction, Store, Transaction } from "@/ports/store.ts";
import { type MessageRow, MessageStore, type MessageTables } from "./store.ts";

type MessageGrant = { row: MessageRow; grant: RoomGrant };

/** In which an actor sends a message that no call of `message.send` is for. */
export function sendContext(actor: Actor, requestId: string, agentHops = 0): Context {
  const access = { scope: "message.write", room: "member" } as const;
  return { actor, requestId, access, operation: "message.send", isReadOnly: false, agentHops };
}

export class MessageAccess {
  readonly #deps: { store: Store<MessageTables>; roomAccess: RoomAccess };

  constructor(deps: { store: Store<MessageTables>; roomAccess: RoomAccess }) {
    this.#deps = deps;
  }

  /** A message visible to the caller, in a room where the caller has the role that the operation requires. */
  async require(context: Context, id: string, tx?: AnyTransaction): Promise<MessageGrant> {
    const { store, roomAccess } = this.#deps;
    const { db } = tx ?? store;
    const row = await new MessageStore(db).find(context.actor.tenantId, id);
    if (row === undefined) throw notVisible("message");
    const resource = { noun: "message", isVisible: (grant: RoomGrant) => row.seq > hiddenUpTo(grant) };
    return { row, grant: await roomAccess.require(context, row.room_id, { tx, resource }) };
  }

  /** The texts of the messages that are not deleted and visible to the actor, by id. */
  async readTexts(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const visible = await this.findVisible(actor, ids);
    return new Map([...visible.values()].flatMap(({ id, text }) => text === null ? [] : [[id, text]]));
  }

  /** Those of the messages that are not deleted and visible to the actor, by id. */
  async findVisible(
    actor: Actor,
    ids: readonly string[],
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<ReadonlyMap<string, MessageRow>> {
    if (ids.length === 0) return new Map();
    const rows = await new MessageStore(db).findMany(actor.tenantId, ids);
    const rooms = await this.#deps.roomAccess.findMany(actor, rows.map((row) => row.room_id), db);
    return new Map(rows.flatMap((row) => {
      const visible = rooms.get(row.room_id);
      const isVisible = visible !== undefined && row.seq > hiddenUpTo(visible);
      return row.deleted_at === null && isVisible ? [[row.id, row]] : [];
    }));
  }

  /** Like `require`, checked and read again under the lock of the room's stream, so that the result is valid until the commit. */
  async requireForUpdate(tx: Transaction<MessageTables>, context: Context, id: string): Promise<MessageGrant> {
    const { row } = await this.require(context, id, tx);
    await tx.lock(context.actor.tenantId, roomStream(row.room_id));
    return await this.require(context, id, tx);
  }

  /** Like `requireForUpdate`; throws `not_found` for a deleted message. */
  async requireActiveForUpdate(tx: Transaction<MessageTables>, context: Context, id: string): Promise<MessageGrant> {
    const found = await this.requireForUpdate(tx, context, id);
    assertNotDeleted(found.row);
    return found;
  }
}

export function assertNotDeleted({ deleted_at }: Pick<MessageRow, "deleted_at">): void {
  if (deleted_at !== null) throw new Fault("not_found", "The message is deleted");
}
