// A person who has left traces everywhere, and what the database has of them.
import { existsSync } from "node:fs";
import { type Kysely, sql } from "kysely";
import type { Caller, Harness } from "../../harness.ts";
import { BASE, createResources } from "../../resource_fixture.ts";
import { uploadPicture } from "../file/file_harness.ts";
import { createCaller, createRoom, ok, sendMessage } from "../fixtures.ts";

export const ERASURES = `${BASE}/erasures`;
export const DAY_MS = 86_400_000;
export const ZOE = "zq-person7";
/** Texts that name or describe the person, none of which may stay. */
export const TRACES = [ZOE, "Zq Persona", "zq.handle", "zqstatus", "zqtoken", "zqdevice"];
/** In every text that the person wrote. */
export const WRITTEN = "zqcontent";
/** In those that nobody else may read, and in a document that another person reads. */
export const PRIVATE = `${WRITTEN}-private`;
export const SHARED = `${WRITTEN}-shared`;
const DIRECT = { kind: "direct", memberIds: [ZOE] };
const WHEN = { start: { dateTime: "2026-04-05T09:00:00", timeZone: "Europe/Vienna" }, durationMinutes: 30 };

export type Traces = { admin: Caller; zoe: Caller; bob: Caller; roomId: string; groupId: string };

/** A person with one of everything, and another one who has to do with it. */
export async function leaveTraces(gateway: Harness): Promise<Traces> {
  const admin = await createCaller(gateway, "boss", { role: "owner" });
  const zoe = await createCaller(gateway, ZOE, { name: "Zq Persona" });
  const bob = await createCaller(gateway, "bob");
  const avatarFileId = await uploadPicture(gateway, zoe);
  const status = { text: "zqstatus", emoji: "🥪", until: null };
  ok(await zoe.patch(`${BASE}/me`, { handle: "zq.handle", status, avatarFileId, locale: "de-AT" }));
  ok(await zoe.post(`${BASE}/tokens`, { name: "zqtoken", scopes: ["room.read"], refreshable: true }));
  const own = await createResources(zoe, WRITTEN);
  ok(await zoe.put(`/v1/rooms/${own.room}/members/bob`));
  await workTogether({ gateway, zoe, bob }, own);
  const roomId = await createRoom(bob, [ZOE]);
  await talk({ zoe, bob }, roomId);
  await keepPrivately(zoe);
  ok(await admin.put(`${BASE}/ai/budgets`, { scope: "principal", subjectId: ZOE, period: "day", tokens: 1_000_000 }));
  const { id: groupId } = ok(await admin.post(`${BASE}/groups`, { name: "On call" }));
  ok(await admin.post(`${BASE}/groups/${groupId}/members`, { principalIds: [ZOE, "bob"] }));
  await gateway.runJobs();
  return { admin, zoe, bob, roomId, groupId };
}

/** What others see and answer. */
async function talk({ zoe, bob }: Pick<Traces, "zoe" | "bob">, roomId: string): Promise<void> {
  const mentions = { principalIds: [ZOE], room: false };
  const asked = await sendMessage(bob, roomId, "are you there?", { mentions, metadata: { senderId: ZOE } });
  const answered = await sendMessage(zoe, roomId, `${WRITTEN} first`, { threadId: asked.id });
  ok(await zoe.patch(`/v1/messages/${answered.id}`, { text: `${WRITTEN} second` }));
  ok(await zoe.put(`/v1/messages/${asked.id}/reactions/👍`));
  ok(await zoe.put(`/v1/messages/${asked.id}/saved`, {}));
  ok(await bob.put(`/v1/messages/${answered.id}/reactions/👍`));
  ok(await bob.put(`/v1/messages/${answered.id}/pin`));
  const { id: directId } = ok(await bob.post("/v1/rooms", DIRECT));
  await sendMessage(zoe, directId, `${WRITTEN} privately`);
  const attendees = [{ principalId: ZOE }];
  const event = ok(await bob.post(`${BASE}/calendar/events`, { roomId, title: "Talk", attendees, ...WHEN }));
  ok(await zoe.put(`${BASE}/calendar/events/${event.id}/rsvp`, { status: "accepted", comment: WRITTEN }));
  const task = ok(await bob.post(`${BASE}/tasks`, { roomId, title: "To do", assigneeIds: [ZOE] }));
  for (const assigneeIds of [["bob"], [ZOE]]) ok(await bob.patch(`${BASE}/tasks/${task.id}`, { assigneeIds }));
  ok(await zoe.patch(`${BASE}/tasks/${task.id}`, { status: "in_progress" }));
  ok(
    await bob.post(`${BASE}/memory/items`, {
      scope: { type: "room", id: roomId },
      text: "Zq Persona likes tea",
      subjectIds: [ZOE],
    }),
  );
  const meeting = ok(await bob.post(`${BASE}/meetings`, { roomId }));
  ok(await bob.post(`${BASE}/meetings/${meeting.id}/join`, { deviceId: "bobs" }));
  ok(await zoe.post(`${BASE}/meetings/${meeting.id}/join`, { deviceId: "zqdevice" }));
  ok(
    await zoe.post(`${BASE}/meetings/${meeting.id}/transcript`, {
      segments: [{ speakerId: ZOE, startMs: 0, endMs: 10, text: WRITTEN }],
    }),
  );
}

/** What the person made for a room, used by another. */
async function workTogether(
  { gateway, zoe, bob }: { gateway: Harness; zoe: Caller; bob: Caller },
  own: Record<string, string>,
): Promise<void> {
  const answer = ok(await bob.post(`${BASE}/documents/${own.doc}/comments`, { text: "thanks" }));
  ok(await zoe.post(`${BASE}/documents/${own.doc}/comments`, { text: WRITTEN, parentId: answer.id }));
  ok(await bob.patch(`${BASE}/documents/${own.doc}`, { title: "better" }));
  ok(await zoe.post(`${BASE}/tasks/${own.task}/claim`, {}));
  await gateway.runJobs();
}

/** What nobody else sees. */
async function keepPrivately(zoe: Caller): Promise<void> {
  ok(await zoe.post(`${BASE}/memory/items`, { scope: { type: "principal", id: ZOE }, text: WRITTEN }));
  ok(await zoe.post(`${BASE}/calendar/events`, { title: PRIVATE, ...WHEN }));
  const parent = ok(await zoe.post(`${BASE}/documents`, { title: PRIVATE, text: PRIVATE }));
  const shared = ok(await zoe.post(`${BASE}/documents`, { title: SHARED, text: SHARED, parentId: parent.id }));
  ok(await zoe.put(`${BASE}/documents/${shared.id}/access/bob`, { role: "reader" }));
  ok(await zoe.post("/v1/rooms", { name: WRITTEN }, { "idempotency-key": crypto.randomUUID() }));
}

/** Columns with texts, of all tables but those of the search index that have tokens only. */
export async function textColumns({ app }: Harness): Promise<{ table: string; column: string }[]> {
  const db = app.store.db as unknown as Kysely<unknown>;
  if (app.store.dialect === "postgres") {
    const { rows } = await sql<{ table: string; column: string }>`
      select table_name as "table", column_name as "column" from information_schema.columns
      where table_schema = current_schema() and data_type in ('text', 'json', 'jsonb') order by 1, 2`.execute(db);
    return rows;
  }
  const { rows } = await sql<{ table: string; column: string }>`
    select m.name as "table", c.name as "column" from sqlite_master m join pragma_table_info(m.name) c
    where m.type = 'table' and lower(c.type) = 'text' and m.name not like 'sqlite_%' order by 1, 2`.execute(db);
  return rows;
}

/** Columns with bytes, such as the contents of documents. */
async function blobColumns({ app }: Harness): Promise<{ table: string; column: string }[]> {
  const db = app.store.db as unknown as Kysely<unknown>;
  const { rows } = app.store.dialect === "postgres"
    ? await sql<{ table: string; column: string }>`
      select table_name as "table", column_name as "column" from information_schema.columns
      where table_schema = current_schema() and data_type = 'bytea' order by 1, 2`.execute(db)
    : await sql<{ table: string; column: string }>`
      select m.name as "table", c.name as "column" from sqlite_master m join pragma_table_info(m.name) c
      where m.type = 'table' and lower(c.type) = 'blob' and m.name not like 'sqlite_%' order by 1, 2`.execute(db);
  return rows;
}

/** The stored contents of files, exports and imports, by name. */
async function contentsOf(folder: string): Promise<Map<string, string>> {
  const contents = new Map<string, string>();
  // Made with the first file.
  if (!existsSync(folder)) return contents;
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (!isDirectory) contents.set(name, new TextDecoder("latin1").decode(await Deno.readFile(path)).toLowerCase());
    else for (const [inner, content] of await contentsOf(path)) contents.set(inner, content);
  }
  return contents;
}

/** The columns that have one of these texts, in any case, each with how many rows and one of them; and contents of files. */
export async function findTexts(gateway: Harness, texts: readonly string[]): Promise<Record<string, string>> {
  const db = gateway.app.store.db as unknown as Kysely<unknown>;
  const found: Record<string, string> = {};
  for (const { table, column } of await textColumns(gateway)) {
    for (const text of texts) {
      const { rows } = await sql<{ value: string }>`select ${sql.ref(column)} as value from ${sql.table(table)}
        where lower(${sql.ref(column)}) like ${`%${text.toLowerCase()}%`}`.execute(db);
      if (rows[0] !== undefined) {
        found[`${table}.${column} ${text}`] = `${rows.length} rows: ${rows[0].value}`.slice(0, 900);
      }
    }
  }
  for (const { table, column } of await blobColumns(gateway)) {
    const { rows } = await sql<{ value: Uint8Array | null }>`select ${sql.ref(column)} as value from ${
      sql.table(table)
    }`
      .execute(db);
    const contents = rows.map(({ value }) => new TextDecoder("latin1").decode(value ?? new Uint8Array()).toLowerCase());
    for (const text of texts) {
      const count = contents.filter((content) => content.includes(text.toLowerCase())).length;
      if (count > 0) found[`${table}.${column} ${text}`] = `${count} rows`;
    }
  }
  for (const [name, content] of await contentsOf(gateway.folder)) {
    const kind = name.slice(0, name.indexOf("_"));
    for (const text of texts) if (content.includes(text.toLowerCase())) found[`blob.${kind} ${text}`] = name;
  }
  return found;
}
