// Redaction of stored events that contain deleted data: the only events that are ever rewritten, without changing their seqs.
import type { Kysely } from "kysely";
import { iso, MINUTE_MS } from "@/core/time/clock.ts";
import { inJsonNumbers } from "./filters.ts";
import { type Param, prepared } from "./prepared.ts";

/** Events read by one statement. */
const PAGE_SIZE = 1000;
/** How far an event's time may be from that of the row it concerns. */
const TIME_TOLERANCE_MS = MINUTE_MS;

type Tables = {
  event: { tenant_id: string; stream: string; seq: number; type: string; at: string; json: string };
  stream: { tenant_id: string; name: string; head: number; floor: number };
};
type Db = Kysely<Tables>;
type StreamRef = { tenantId: string; stream: string };

/** Which events: `from` and `to` are seqs, or times (ISO 8601) of the rows that they concern. */
type EventRange = StreamRef & { type: string; from: number | string; to: number | string };

const NO_EVENTS = { floor: 0, head: 0 };

const streamBounds = prepared((db: Db, value: Param<StreamRef>) =>
  db.selectFrom("stream").select(["floor", "head"])
    .where("tenant_id", "=", value("tenantId")).where("name", "=", value("stream"))
);
const eventTime = prepared((db: Db, value: Param<StreamRef & { seq: number }>) =>
  db.selectFrom("event").select("at")
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream")).where("seq", "=", value("seq"))
);
const eventsMentioning = prepared((
  db: Db,
  value: Param<StreamRef & { type: string; from: number; to: number; part: string }>,
) =>
  db.selectFrom("event").select(["seq", "json"])
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream"))
    .where("seq", ">=", value("from")).where("seq", "<=", value("to"))
    .where("type", "=", value("type")).where("json", "like", value("part"))
);
const eventsAt = prepared((db: Db, value: Param<StreamRef & { type: string; seqs: string; since: string }>, dialect) =>
  db.selectFrom("event").select(["seq", "json"])
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream")).where("type", "=", value("type"))
    .where(inJsonNumbers(dialect, "seq", value("seqs"))).where("at", ">=", value("since"))
);
const updateEvent = prepared((db: Db, value: Param<StreamRef & { seq: number; json: string }>) =>
  db.updateTable("event").set({ json: value("json") })
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream")).where("seq", "=", value("seq"))
);

/**
 * Rewrites the data of the events in a range that contain `id`. `change` receives the data and returns its replacement, or
 * `undefined` where an event only mentions the id. `db` is a transaction that has locked the stream. Returns how many it changed.
 */
export async function redactEvents(
  db: object,
  range: EventRange,
  id: string,
  // deno-lint-ignore no-explicit-any -- every event has data of its own shape
  change: (data: any) => unknown,
): Promise<number> {
  const { tenantId, stream, type } = range;
  const ref = { tenantId, stream };
  const areSeqs = typeof range.from === "number" && typeof range.to === "number";
  const { floor, head } = areSeqs ? NO_EVENTS : await streamBounds.first(db, ref) ?? NO_EVENTS;
  // An event follows the creation of its row. If no event is that late, the clock was set back since, and it may be anywhere.
  const first = await resolveSeq(db, ref, range.from, -TIME_TOLERANCE_MS, [floor + 1, head]) ?? floor + 1;
  const last = await resolveSeq(db, ref, range.to, TIME_TOLERANCE_MS, [first, head]) ?? head;
  let changed = 0;
  for (let from = first; from <= last; from += PAGE_SIZE) {
    const to = Math.min(last, from + PAGE_SIZE - 1);
    changed += await rewrite(
      db,
      ref,
      await eventsMentioning.all(db, { ...ref, type, from, to, part: `%"${id}"%` }),
      change,
    );
  }
  return changed;
}

/** The same for the events at these seqs, as far as they exist, have the type and are not older than `since`. */
export async function redactEventsAt(
  db: object,
  { type, seqs, since = "", ...ref }: StreamRef & { type: string; seqs: readonly number[]; since?: string },
  // deno-lint-ignore no-explicit-any -- as above
  change: (data: any) => unknown,
): Promise<void> {
  await rewrite(db, ref, await eventsAt.all(db, { ...ref, type, seqs: JSON.stringify(seqs), since }), change);
}

async function rewrite(
  db: object,
  ref: StreamRef,
  events: readonly { seq: number; json: string }[],
  // deno-lint-ignore no-explicit-any -- as above
  change: (data: any) => unknown,
): Promise<number> {
  const changes = events.flatMap(({ seq, json }) => {
    const event = JSON.parse(json);
    const data = change(event.data);
    return data === undefined ? [] : [{ ...ref, seq, json: JSON.stringify({ ...event, data }) }];
  });
  // Sent together: over a network, each would wait for the one before.
  await Promise.all(changes.map((one) => updateEvent.run(db, one)));
  return changes.length;
}

/**
 * The seq of a bound of a range: for a time, the seq of the first later event, if there is one. The search is as narrow as
 * possible, since times are not in order where the clock was set back.
 */
async function resolveSeq(
  db: object,
  ref: StreamRef,
  bound: number | string,
  toleranceMs: number,
  [least, head]: readonly [number, number],
): Promise<number | undefined> {
  if (typeof bound === "number") return bound;
  const at = iso(Date.parse(bound) + toleranceMs);
  const isLater = async (seq: number): Promise<boolean> =>
    ((await eventTime.first(db, { ...ref, seq }))?.at ?? "") > at;
  if (!await isLater(head)) return undefined;
  let [low, high] = [least, head];
  while (low < high) {
    const seq = Math.floor((low + high) / 2);
    if (await isLater(seq)) high = seq;
    else low = seq + 1;
  }
  return low;
}
