// Keys and board positions of imported tasks: their own if those are free, else new ones.
import { positionBetween } from "../board.ts";
import type { TaskStore } from "../store.ts";
import type { TaskRoomRow } from "../tables.ts";
import type { TaskArchiveStore } from "./store.ts";

/** A key or a position, and whether it is that of the archive. */
type Allocation = { value: string; isOriginal: boolean };
type Room = { tenantId: string; roomId: string };

/** Whether this is a position on a board: the digits and lengths are those that boards are made with. */
export function isPosition(text: string): boolean {
  if (!/^[a-r]\d{1,39}$/.test(text)) return false;
  try {
    positionBetween(text, null);
    return true;
  } catch {
    return false;
  }
}

/** Sets the prefix of a locked room, unless it has one. */
export async function ensureBoard(
  tasks: TaskStore,
  archive: TaskArchiveStore,
  { tenantId, roomId }: Room,
  prefix: string,
): Promise<TaskRoomRow> {
  const board = await archive.board(tenantId, roomId);
  if (board !== undefined) return board;
  const row = { tenant_id: tenantId, room_id: roomId, prefix, last_number: 0 };
  await tasks.addRoom(row);
  return row;
}

/** Allocates keys for many tasks of a locked room. */
export class KeyAllocator {
  readonly #tasks: TaskStore;
  readonly #archive: TaskArchiveStore;
  readonly #room: Room;
  readonly #prefix: string;
  #taken = new Set<string>();
  #last: number;

  constructor(tasks: TaskStore, archive: TaskArchiveStore, room: Room, board: TaskRoomRow) {
    this.#tasks = tasks;
    this.#archive = archive;
    this.#room = room;
    this.#prefix = board.prefix ?? "";
    this.#last = Number(board.last_number);
  }

  /** Looks at once which of these keys, with the prefix of the room, are taken. */
  async load(keys: readonly string[]): Promise<void> {
    this.#taken = await this.#archive.existingKeys(
      this.#room.tenantId,
      this.#room.roomId,
      keys.map((key) => this.#localKey(key)),
    );
  }

  /** The key of a task that had this one. */
  async allocate(key: string): Promise<Allocation> {
    const local = this.#localKey(key);
    if (this.#taken.has(local)) {
      const { tenantId, roomId } = this.#room;
      for (;;) {
        this.#last = Number((await this.#tasks.takeNumber(tenantId, roomId))?.last_number);
        const fresh = `${this.#prefix}-${this.#last}`;
        if (this.#taken.has(fresh)) continue;
        this.#taken.add(fresh);
        return { value: fresh, isOriginal: false };
      }
    }
    this.#taken.add(local);
    if (numberOf(local) > this.#last) {
      this.#last = numberOf(local);
      await this.#archive.raiseLastNumber(this.#room.tenantId, this.#room.roomId, this.#last);
    }
    return { value: local, isOriginal: local === key };
  }

  #localKey(key: string): string {
    return `${this.#prefix}-${numberOf(key)}`;
  }
}

/** Allocates board positions for many tasks of a locked room. */
export class PositionAllocator {
  readonly #tasks: TaskStore;
  readonly #archive: TaskArchiveStore;
  readonly #room: Room;
  #taken = new Set<string>();
  #last: string | null | undefined;

  constructor(tasks: TaskStore, archive: TaskArchiveStore, room: Room) {
    this.#tasks = tasks;
    this.#archive = archive;
    this.#room = room;
  }

  async load(positions: readonly string[]): Promise<void> {
    this.#taken = await this.#archive.occupiedPositions(this.#room.tenantId, this.#room.roomId, positions);
    this.#last = await this.#tasks.lastPosition(this.#room.tenantId, this.#room.roomId);
  }

  /** The position of a task that had this one: its own, or after all others. */
  allocate(position: string): Allocation {
    const isOriginal = !this.#taken.has(position);
    const value = isOriginal ? position : positionBetween(this.#last ?? null, null);
    this.#taken.add(value);
    if (this.#last === null || this.#last === undefined || value > this.#last) this.#last = value;
    return { value, isOriginal };
  }
}

function numberOf(key: string): number {
  return Number(key.slice(key.lastIndexOf("-") + 1));
}
