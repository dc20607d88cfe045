// Positions for messages that are sent together, reserved in the streams of their rooms in the lock order of all nodes.
import type { Context } from "@/core/operation.ts";
import { roomStream } from "@/core/event/event.ts";
import { compareText } from "@/core/text/text.ts";
import type { SeqRange, Transaction } from "@/ports/store.ts";
import type { MessageTables } from "./store.ts";

type Item = { context: Pick<Context, "actor">; input: { roomId: string } };

/**
 * Reserves a position for each item in its room's stream, or returns it (`each` = -1). Room ids are unique across tenants, so
 * one map has all streams. Tenants are locked in order, as their streams are, so that two nodes cannot deadlock.
 */
export async function reserveSeqs(
  tx: Transaction<MessageTables>,
  items: readonly Item[],
  each: 1 | -1,
  options?: { begins?: boolean },
): Promise<Map<string, SeqRange>> {
  const byTenant = Map.groupBy(items, ({ context }) => context.actor.tenantId);
  const ordered = [...byTenant].sort(([a], [b]) => compareText(a, b));
  const reserved = await Promise.all(ordered.map(([tenantId, own]) => {
    const counts = new Map<string, number>();
    for (const { input } of own) {
      const stream = roomStream(input.roomId);
      counts.set(stream, (counts.get(stream) ?? 0) + each);
    }
    return tx.reserveAll(tenantId, counts, options);
  }));
  const [only] = reserved;
  return reserved.length === 1 && only !== undefined ? only : new Map(reserved.flatMap((map) => [...map]));
}
