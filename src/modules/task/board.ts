// Board order: each task has a position, a text of digits, and there is always room for another between two of them.
import { generateKeyBetween, generateNKeysBetween } from "fractional-indexing";
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";

// Digits, and before them one letter for the length: the same order in every collation and for every client.
const DIGITS = "0123456789";
const LENGTHS = "abcdefghijklmnopqr";
/** A position longer than this has its neighbourhood spread out anew. */
const POSITION_MAX = 40;
const SPREAD_FIRST = 64;

/** Where a task goes, and the tasks that must move a little to make room. */
export type Place = { position: string; shifted: readonly { row: TaskRow; position: string }[] };

/** A position behind all tasks of the room. */
export async function lastPlace(tasks: TaskStore, tenantId: string, roomId: string): Promise<string> {
  return between(await tasks.lastPosition(tenantId, roomId), null);
}

/** The place right after or before `anchor` for the task `movedId`; the caller holds the room's lock. */
export async function placeBeside(
  tasks: TaskStore,
  anchor: TaskRow,
  side: "after" | "before",
  movedId: string,
): Promise<Place> {
  const near = (direction: "<" | ">", position: string, limit: number): Promise<TaskRow[]> =>
    tasks.neighbours(anchor.tenant_id, anchor.room_id, direction, position, movedId, limit);
  const [beyond] = await near(side === "after" ? ">" : "<", anchor.position, 1);
  const edge = beyond?.position ?? null;
  const position = side === "after" ? between(anchor.position, edge) : between(edge, anchor.position);
  if (position.length <= POSITION_MAX) return { position, shifted: [] };

  for (let size = SPREAD_FIRST;; size *= 4) {
    const below = (await near("<", position, size + 1)).reverse();
    const above = await near(">", position, size + 1);
    const low = below.length > size ? below.shift()?.position ?? null : null;
    const high = above.length > size ? above.pop()?.position ?? null : null;
    const keys = generateNKeysBetween(low, high, below.length + 1 + above.length, DIGITS, LENGTHS);
    const isWhole = low === null && high === null;
    if (!isWhole && keys.some((key) => key.length > POSITION_MAX / 2)) continue;
    const shifted = [...below.entries(), ...above.map((row, index) => [below.length + 1 + index, row] as const)]
      .map(([index, row]) => ({ row, position: keys[index] ?? row.position }));
    return { position: keys[below.length] ?? position, shifted };
  }
}

/** A position between two others, or (null) before or behind all; throws for what is no position. */
export function between(low: string | null, high: string | null): string {
  return generateKeyBetween(low, high, DIGITS, LENGTHS);
}
