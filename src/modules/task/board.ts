// Board order by fractional indexing: between any two positions there is another one.
import { generateKeyBetween, generateNKeysBetween } from "fractional-indexing";
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";

// Digits after one letter for the length sort the same in every collation and every client.
const DIGITS = "0123456789";
const LENGTHS = "abcdefghijklmnopqr";
/** Beyond this length, the positions around it are rebalanced. */
const POSITION_MAX = 40;
const REBALANCE_MIN = 64;

/** A new position, and the neighbors whose positions must change for it. */
type Placement = { position: string; shifted: readonly { row: TaskRow; position: string }[] };

/** The position after all tasks of the room. */
export async function nextPosition(tasks: TaskStore, tenantId: string, roomId: string): Promise<string> {
  return positionBetween(await tasks.lastPosition(tenantId, roomId), null);
}

/** The position right after or before `anchor` for the task `movedId`. The caller has locked the room. */
export async function positionBeside(
  tasks: TaskStore,
  anchor: TaskRow,
  side: "after" | "before",
  movedId: string,
): Promise<Placement> {
  const near = (direction: "<" | ">", position: string, limit: number): Promise<TaskRow[]> =>
    tasks.neighbours(anchor.tenant_id, anchor.room_id, direction, position, movedId, limit);
  const [beyond] = await near(side === "after" ? ">" : "<", anchor.position, 1);
  const edge = beyond?.position ?? null;
  const position = side === "after" ? positionBetween(anchor.position, edge) : positionBetween(edge, anchor.position);
  if (position.length <= POSITION_MAX) return { position, shifted: [] };

  for (let size = REBALANCE_MIN;; size *= 4) {
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

/** A position between two others; null: no bound on that side. Throws if a bound is not a position. */
export function positionBetween(low: string | null, high: string | null): string {
  return generateKeyBetween(low, high, DIGITS, LENGTHS);
}
