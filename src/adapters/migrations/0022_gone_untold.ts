// What was deleted before deleting took it out of the events that told it is told no more either.
import type { Kysely } from "kysely";
import type { Migration } from "./migration.ts";

/** Events read with one statement. */
const PAGE = 500;

type Tables = {
  event: { tenant_id: string; stream: string; seq: number; type: string; json: string };
  message: { id: string; tenant_id: string; room_id: string; seq: number; deleted_at: string | null };
  document_comment: { id: string };
};
type Db = Kysely<Tables>;
type Line = { tenant_id: string; stream: string };

/** What deleting leaves of a thing in the events that told it, by the name that it has in their data. */
const EMPTIED = {
  message: { text: null, files: [], metadata: {} },
  comment: { text: "", anchor: null },
};
type Subject = keyof typeof EMPTIED;
/** An event, read: `id` is that of the thing it tells. */
type Told = { seq: number; subject: Subject; id: string; event: { data: { [name in Subject]?: object } } };
const SUBJECTS: Readonly<Record<string, Subject>> = {
  "message.created": "message",
  "message.updated": "message",
  "document.commented": "comment",
};

/** Those that stand elsewhere than what they tell of. */
const LATER = ["message.updated", "document.commented"];

export const goneUntold: Migration = {
  name: "0022_gone_untold",
  async up(unknownDb) {
    const db = unknownDb as unknown as Db;
    // Line by line, since there may be more of them than fit into memory. What was sent stands at the place of its message.
    const sent = await db.selectFrom("message").select(["tenant_id", "room_id"]).distinct()
      .where("deleted_at", "is not", null).execute();
    const later = await db.selectFrom("event").select(["tenant_id", "stream"]).distinct()
      .where("type", "in", LATER).execute();
    const lines = [...sent.map(({ tenant_id, room_id }) => ({ tenant_id, stream: `room:${room_id}` })), ...later];
    for (const line of new Map(lines.map((line) => [`${line.tenant_id} ${line.stream}`, line])).values()) {
      const seqs = await placesIn(db, line);
      for (let at = 0; at < seqs.length; at += PAGE) await silence(db, line, seqs.slice(at, at + PAGE));
    }
  },
};

/** Where in a line something may be told that is gone. */
async function placesIn(db: Db, { tenant_id, stream }: Line): Promise<number[]> {
  const sent = await db.selectFrom("message").select("seq").where("tenant_id", "=", tenant_id)
    .where("room_id", "=", stream.slice("room:".length)).where("deleted_at", "is not", null).execute();
  const later = await db.selectFrom("event").select("seq")
    .where("tenant_id", "=", tenant_id).where("stream", "=", stream).where("type", "in", LATER).execute();
  return [...sent, ...later].map(({ seq }) => seq);
}

/** Empties those events of a line at these places that told of what is gone. */
async function silence(db: Db, { tenant_id, stream }: Line, seqs: readonly number[]): Promise<void> {
  const rows = await db.selectFrom("event").select(["seq", "type", "json"])
    .where("tenant_id", "=", tenant_id).where("stream", "=", stream)
    .where("seq", "in", seqs).where("type", "in", Object.keys(SUBJECTS)).execute();
  const page = rows.flatMap(({ seq, type, json }): Told[] => {
    const [subject, event] = [SUBJECTS[type], JSON.parse(json)];
    const id = subject === undefined ? undefined : event.data[subject]?.id;
    return subject === undefined || typeof id !== "string" ? [] : [{ seq, subject, id, event }];
  });
  const gone = { message: await deletedMessages(db, page), comment: await deletedComments(db, page) };
  for (const { seq, subject, id, event } of page) {
    if (!gone[subject].has(id)) continue;
    Object.assign(event.data[subject] ?? {}, EMPTIED[subject]);
    await db.updateTable("event").set({ json: JSON.stringify(event) })
      .where("tenant_id", "=", tenant_id).where("stream", "=", stream).where("seq", "=", seq).execute();
  }
}

async function deletedMessages(db: Db, page: readonly Told[]): Promise<ReadonlySet<string>> {
  const ids = idsIn(page, "message");
  if (ids.length === 0) return new Set();
  const rows = await db.selectFrom("message").select("id").where("id", "in", ids).where("deleted_at", "is not", null)
    .execute();
  return new Set(rows.map(({ id }) => id));
}

/** Comments leave no trace. */
async function deletedComments(db: Db, page: readonly Told[]): Promise<ReadonlySet<string>> {
  const ids = idsIn(page, "comment");
  if (ids.length === 0) return new Set();
  const rows = await db.selectFrom("document_comment").select("id").where("id", "in", ids).execute();
  return new Set(ids).difference(new Set(rows.map(({ id }) => id)));
}

function idsIn(page: readonly Told[], subject: Subject): string[] {
  return page.filter((told) => told.subject === subject).map(({ id }) => id);
}
