// The keys and places that tasks get when they come in: their own where those are free, else new ones.
import { between } from "../board.ts";
import { tryPrefix } from "../key.ts";
import type { TaskStore } from "../store.ts";
import type { TaskRoomRow } from "../tables.ts";
import type { TaskCarryStore } from "./store.ts";

/** Of a key or a place. */
type Given = { value: string; isOwn: boolean };
type Room = { tenantId: string; roomId: string };

/** Whether this is a place on a board: the digits and lengths are those that boards are made with. */
export function isPosition(text: string): boolean {
  if (!/^[a-r]\d{1,39}$/.test(text)) return false;
  try {
    between(text, null);
    return true;
  } catch {
    return false;
  }
}

/** Gives a room its prefix, the wanted one if no other room has it; a room that has one keeps it. */
export async function openBoard(
  tasks: TaskStore,
  carry: TaskCarryStore,
  { tenantId, roomId }: Room,
  prefix: string,
): Promise<TaskRoomRow> {
  while (true) {
    const board = await carry.board(tenantId, roomId);
    if (board !== undefined) return board;
    await tryPrefix(tasks, tenantId, roomId, prefix);
  }
}

/** Keys of many tasks of a room that is held. */
export class Keys {
  readonly #tasks: TaskStore;
  readonly #carry: TaskCarryStore;
  readonly #room: Room;
  readonly #prefix: string;
  #taken = new Set<string>();
  #last: number;

  constructor(tasks: TaskStore, carry: TaskCarryStore, room: Room, board: TaskRoomRow) {
    this.#tasks = tasks;
    this.#carry = carry;
    this.#room = room;
    this.#prefix = board.prefix ?? "";
    this.#last = Number(board.last_number);
  }

  /** Looks at once which of these keys, with the prefix of the room, are taken. */
  async look(keys: readonly string[]): Promise<void> {
    this.#taken = await this.#carry.keys(this.#room.tenantId, keys.map((key) => this.#here(key)));
  }

  /** The key of a task that had this one. */
  async give(key: string): Promise<Given> {
    const here = this.#here(key);
    if (this.#taken.has(here)) {
      const { tenantId, roomId } = this.#room;
      for (;;) {
        this.#last = Number((await this.#tasks.takeNumber(tenantId, roomId))?.last_number);
        const fresh = `${this.#prefix}-${this.#last}`;
        if (this.#taken.has(fresh)) continue;
        this.#taken.add(fresh);
        return { value: fresh, isOwn: false };
      }
    }
    this.#taken.add(here);
    if (numberOf(here) > this.#last) {
      this.#last = numberOf(here);
      await this.#carry.raise(this.#room.tenantId, this.#room.roomId, this.#last);
    }
    return { value: here, isOwn: here === key };
  }

  #here(key: string): string {
    return `${this.#prefix}-${numberOf(key)}`;
  }
}

/** Places of many tasks on the board of a room that is held. */
export class Positions {
  readonly #tasks: TaskStore;
  readonly #carry: TaskCarryStore;
  readonly #room: Room;
  #taken = new Set<string>();
  #last: string | null | undefined;

  constructor(tasks: TaskStore, carry: TaskCarryStore, room: Room) {
    this.#tasks = tasks;
    this.#carry = carry;
    this.#room = room;
  }

  async look(positions: readonly string[]): Promise<void> {
    this.#taken = await this.#carry.positions(this.#room.tenantId, this.#room.roomId, positions);
    this.#last = await this.#tasks.lastPosition(this.#room.tenantId, this.#room.roomId);
  }

  /** The place of a task that had this one: its own, or behind all others. */
  give(position: string): Given {
    const isOwn = !this.#taken.has(position);
    const value = isOwn ? position : between(this.#last ?? null, null);
    this.#taken.add(value);
    if (this.#last === null || this.#last === undefined || value > this.#last) this.#last = value;
    return { value, isOwn };
  }
}

function numberOf(key: string): number {
  return Number(key.slice(key.lastIndexOf("-") + 1));
}
