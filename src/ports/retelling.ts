// Events that told what is gone: the only ones that are ever rewritten, in their places, so that nobody is told it any more.
import type { Kysely } from "kysely";
import { iso } from "@/core/clock.ts";
import { type Param, prepared } from "./prepared.ts";

/** Events looked at with one statement. */
const PAGE = 1000;
/** How far an event's time may be from that of the row it tells of. */
const SLACK_MS = 60_000;

type Tables = {
  event: { tenant_id: string; stream: string; seq: number; type: string; at: string; json: string };
  stream: { tenant_id: string; name: string; head: number; floor: number };
};
type Db = Kysely<Tables>;
type Line = { tenantId: string; stream: string };

/** Which events: `from` and `to` are seqs, or times (ISO 8601) of the rows they tell of. */
export type Span = Line & { type: string; from: number | string; to: number | string };

const ends = prepared((db: Db, value: Param<Line>) =>
  db.selectFrom("stream").select(["floor", "head"])
    .where("tenant_id", "=", value("tenantId")).where("name", "=", value("stream"))
);
const timeOf = prepared((db: Db, value: Param<Line & { seq: number }>) =>
  db.selectFrom("event").select("at")
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream")).where("seq", "=", value("seq"))
);
const naming = prepared((db: Db, value: Param<Line & { type: string; from: number; to: number; part: string }>) =>
  db.selectFrom("event").select(["seq", "json"])
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream"))
    .where("seq", ">=", value("from")).where("seq", "<=", value("to"))
    .where("type", "=", value("type")).where("json", "like", value("part"))
);
const rewrite = prepared((db: Db, value: Param<Line & { seq: number; json: string }>) =>
  db.updateTable("event").set({ json: value("json") })
    .where("tenant_id", "=", value("tenantId")).where("stream", "=", value("stream")).where("seq", "=", value("seq"))
);

/**
 * Rewrites the data of the events that name `id` within a span. `change` gets the data and returns what to tell instead, or
 * `undefined` where an event only mentions the id. `db` is a transaction that holds the stream.
 */
export async function retell(
  db: object,
  span: Span,
  id: string,
  // deno-lint-ignore no-explicit-any -- every event has data of its own shape
  change: (data: any) => unknown,
): Promise<void> {
  const { tenantId, stream, type } = span;
  const line = { tenantId, stream };
  const { floor, head } = await ends.first(db, line) ?? { floor: 0, head: 0 };
  // A row is told of after it was made. Where nothing is so late the clock was set back since, and it may be anywhere.
  const first = await seqOf(db, line, span.from, -SLACK_MS, [floor + 1, head]) ?? floor + 1;
  const last = await seqOf(db, line, span.to, SLACK_MS, [first, head]) ?? head;
  for (let from = first; from <= last; from += PAGE) {
    const to = Math.min(last, from + PAGE - 1);
    for (const { seq, json } of await naming.all(db, { ...line, type, from, to, part: `%"${id}"%` })) {
      const event = JSON.parse(json);
      const data = change(event.data);
      if (data !== undefined) await rewrite.run(db, { ...line, seq, json: JSON.stringify({ ...event, data }) });
    }
  }
}

/**
 * The seq that a place of a span stands for: of a time, that of the first event told later, if there is one. It is looked
 * for no further back than need be, since times do not grow everywhere where a clock was once set back.
 */
async function seqOf(
  db: object,
  line: Line,
  place: number | string,
  slackMs: number,
  [least, head]: readonly [number, number],
): Promise<number | undefined> {
  if (typeof place === "number") return place;
  const at = iso(Date.parse(place) + slackMs);
  const isLater = async (seq: number): Promise<boolean> => ((await timeOf.first(db, { ...line, seq }))?.at ?? "") > at;
  if (!await isLater(head)) return undefined;
  let [low, high] = [least, head];
  while (low < high) {
    const seq = Math.floor((low + high) / 2);
    if (await isLater(seq)) high = seq;
    else low = seq + 1;
  }
  return low;
}
