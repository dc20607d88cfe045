// Reading: one position per room and principal on the room's own line, the same on all devices, never backwards.
import type { Actor } from "@/core/actor.ts";
import { principalStream } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import {
  notFound,
  NOTHING_UNREAD,
  readIn,
  type ReadRoom,
  type RoomGate,
  seer,
  type UnreadCounts,
} from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import type { MessageTables } from "../store.ts";
import type { UnreadCounter } from "./counts.ts";
import type { ReadPut, Unread } from "./schema.ts";
import { ReadingStore } from "./store.ts";

type Deps = {
  store: Store<MessageTables>;
  gate: RoomGate;
  notifications: NotificationService;
  unreads: UnreadCounter;
};

export class ReadingService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Moves the caller's position; notifications about what is read now are read as well. */
  put(context: Context, { id: roomId, seq }: ReadPut): Promise<Unread> {
    const { actor } = context;
    const { tenantId, principalId } = actor;
    const { store, gate, notifications } = this.#deps;
    return store.write(async (tx) => {
      const { room } = await gate.enter(context, roomId);
      const head = room.head ?? 0;
      if (seq > head) {
        throw Fault.at("/seq", "beyond_last", `The room's last position is ${head}`);
      }
      const readings = new ReadingStore(tx.db, store.dialect);
      const hasMoved = await readings.advance(tenantId, roomId, principalId, seq);
      const [unread] = await this.list(actor, [roomId]);
      if (unread === undefined) throw notFound();
      if (!hasMoved) return unread;
      await notifications.readUpTo(actor, { roomId, upToSeq: seq });
      await tx.emit({ tenantId, stream: principalStream(principalId), type: "read.updated", actor, data: unread });
      return unread;
    });
  }

  /** What is left to read in the caller's rooms; rooms it is no member of are left out. */
  async list(actor: Actor, roomIds?: readonly string[]): Promise<Unread[]> {
    if (roomIds?.length === 0) return [];
    const who = { ...seer(actor), isOwned: actor.ownerId !== null };
    const { db, dialect } = this.#deps.store;
    const rooms = await new ReadingStore(db, dialect).rooms(who, roomIds);
    const counts = await this.#deps.unreads.count(actor.tenantId, actor.principalId, rooms.flatMap(readIn));
    return rooms.map((room) => presentUnread(room, counts));
  }
}

/** What is left to read in a room. */
export function presentUnread(room: ReadRoom, counts: UnreadCounts): Unread {
  return {
    roomId: room.id,
    lastReadSeq: room.my_last_read_seq ?? 0,
    ...counts.get(room.id) ?? NOTHING_UNREAD,
    lastSeq: room.head ?? 0,
  };
}
