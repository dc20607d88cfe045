// Archives whose values are many or long: what is read of them is bounded, whatever the result.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { SqliteConnection } from "@/adapters/store/sqlite/connection.ts";
import { zeroCounts } from "@/modules/transfer/schema.ts";
import * as calendarLines from "@/modules/calendar/archive/records.ts";
import * as documentLines from "@/modules/document/archive/records.ts";
import { JsonReader } from "@/modules/transfer/format/json_reader.ts";
import { plainMessage, RefFactory } from "@/modules/transfer/format/model.ts";
import * as gatewayLines from "@/modules/transfer/format/native_records.ts";
import { listOf } from "@/core/archive/fields.ts";
import { MattermostReader, namesIn } from "@/modules/transfer/format/mattermost.ts";
import * as meetingLines from "@/modules/meeting/archive/records.ts";
import { SlackReader } from "@/modules/transfer/format/slack.ts";
import { Report } from "@/modules/transfer/import/report.ts";
import { SlackMarkup } from "@/modules/webhook/mod.ts";
import { splitText } from "@/modules/transfer/import/split_text.ts";
import * as taskLines from "@/modules/task/archive/records.ts";
import { openGateway } from "../../harness.ts";
import { cpuTimeMs, measureCpuMs, measureReferenceMs } from "../../cpu_time.ts";
import { replace } from "../../replace.ts";
import { slowTest } from "../../tier.ts";
import { countTicks, slowTime } from "../../wait.ts";
import { createRoom, sendMessage } from "../fixtures.ts";
import { type Any, exportTenant, importArchive, skipCounts } from "./transfer_fixture.ts";
import { createZip } from "./transfer_zip.ts";

const LINES = { ...gatewayLines, ...documentLines, ...taskLines, ...meetingLines, ...calendarLines };
const AT = "2026-01-01T00:00:00.000Z";
/** As many as a line may have, nearly. */
const MANY = 198_000;
const LONG = 8 * 1024 ** 2;

function report(): Report {
  return new Report({ size: 0, progress_json: JSON.stringify({ added: zeroCounts() }), report_json: "[]" });
}

/** Lists and records in a schema that report each of their items, of which there may be any number. */
function* endless(schema: Any, path: string): Generator<string> {
  const { def } = schema._zod;
  const inner =
    { object: () => Object.entries(def.shape), array: () => [["[]", def.element]] }[def.type as "object"]?.() ??
      (def.type === "record" ? [["{}", def.valueType]] : def.type === "pipe" ? [["", def.in], ["", def.out]] : []);
  const isBounded = def.checks?.some((check: Any) => check._zod.def.check === "max_length");
  if (def.type === "record" || (def.type === "array" && !isBounded)) {
    const of = (def.element ?? def.valueType)._zod.def;
    if (of.type !== "unknown" || of.checks?.length > 0) yield path;
  }
  for (const [name, one] of inner) yield* endless(one, `${path}/${name}`);
  for (const one of def.options ?? []) yield* endless(one, path);
  if (def.innerType !== undefined) yield* endless(def.innerType, path);
}

Deno.test("a line reports one item that does not fit, however many of them there are", () => {
  const found = Object.entries(LINES).flatMap(([name, line]) => [...endless(line, name)]);
  assert.deepEqual(found, []);
  let looked = 0;
  const List = z.object({ items: listOf(z.object({ n: z.number().refine(() => ++looked > 0) })) });
  const items = [{ n: 1 }, { n: 2 }, ...Array(1000).fill({ n: "3" })];
  const issues = List.safeParse({ items }).error?.issues ?? [];
  assert.deepEqual(issues.map(({ path, message }) => [path, message]), [
    [["items", 2, "n"], "expected number, received string"],
  ]);
  assert.equal(looked, 2);
  assert.deepEqual(List.parse({ items: items.slice(0, 2) }), { items: items.slice(0, 2) });
});

slowTest("items that do not fit, as many as a line may have, cost the thread that serves others little", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const bad = Array(MANY).fill(0);
  const lines = (...all: Any[]): string => all.map((line) => JSON.stringify(line)).join("\n");
  const post = { team: "t", channel: "c", user: "ann", message: "a", create_at: 1 };
  const archives: [string, string | Uint8Array<ArrayBuffer>][] = [
    [
      "gateway",
      lines({ type: "export", version: 1 }, { type: "message", reactions: bad }, {
        type: "message",
        metadata: Object.fromEntries(bad.map((_, n) => [n, 0])),
        edits: bad.slice(0, 1000),
      }, { type: "end" }).replaceAll(/":0,/g, '":1e999,'),
    ],
    [
      "mattermost",
      lines(
        { type: "version", version: 1 },
        { type: "post", post: { ...post, replies: bad } },
        { type: "user", user: { username: "ann", teams: bad } },
      ),
    ],
    ["slack", createZip({ "users.json": "[]", "channels.json": lines([{ id: "C", members: numbers(MANY) }]) })],
  ];
  for (const [kind, archive] of archives) {
    const tries: string[] = [];
    // Other load of the machine makes some work dearer: the cheapest of three counts, each beside its own reference.
    for (let isCheap = false; !isCheap;) {
      const affordable = await measureReferenceMs();
      const before = cpuTimeMs();
      const done = await importArchive(gateway, boss, kind, archive);
      const ms = cpuTimeMs() - before;
      assert.equal(done.state, "done", JSON.stringify(done.failure));
      assert.deepEqual(skipCounts(done), { invalid_record: kind === "slack" ? 1 : 2 });
      isCheap = ms < 10 * affordable;
      tries.push(`${ms} ms of work, ${affordable} are affordable`);
      assert.ok(isCheap || tries.length < 3, `${kind}: ${tries.join("; ")}`);
    }
  }
});

/** What a reader hands on to be written, of which no more than two members of a room are. */
function collectingImporter() {
  const rooms: string[] = [];
  const members: string[] = [];
  const principals: string[] = [];
  const importer = {
    report: report(),
    membersBuffered: 2,
    write: () => Promise.resolve(),
    assertRunning() {},
    checkpoint: () => Promise.resolve(),
    importPrincipals: (some: Any[]) => Promise.resolve(void principals.push(...some.map(({ id }) => id))),
    openRoom: ({ name }: Any) => Promise.resolve({ id: rooms[rooms.push(name) - 1] }),
    importMessages: () => Promise.resolve(),
    closeRoom: (_room: Any, some: Any[]) => Promise.resolve(void members.push(...some.map((one) => one.principalId))),
  };
  return { rooms, members, principals, importer: importer as Any };
}

Deno.test("of an archive only so much is in memory, and the report counts the rest", async () => {
  const refs = new RefFactory("t", "archive");
  const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const files: Record<string, Uint8Array> = {
    "users.json": bytesOf(["U1", "U2", "U3", "U4"].map((id) => ({ id }))),
    "channels.json": bytesOf([{ id: "C1", members: ["U1", "U2", "U3", "U4"] }]),
  };
  const archive = {
    names: Object.keys(files),
    read: (name: string) => Promise.resolve(files[name]),
    packedSize: () => 0,
  };
  const slack = collectingImporter();
  using json = new JsonReader(slack.importer);
  await new SlackReader(archive as Any, json, slack.importer, refs, new Map(), { itemsMax: 3 }).read();
  assert.deepEqual(slack.principals, ["slack:U1", "slack:U2", "slack:U3"]);
  assert.deepEqual(slack.members, ["slack:U1", "slack:U2"]);
  assert.deepEqual(skipCounts({ report: slack.importer.report.items() }), { too_many_items: 1, too_many_members: 2 });

  const channel = (name: string) => ({ type: "channel", channel: { team: "t", name, type: "O" } });
  const user = (username: string, ...channels: string[]) => ({
    type: "user",
    user: { username, teams: [{ name: "t", channels: channels.map((name) => ({ name })) }] },
  });
  const lines = [
    { type: "version", version: 1 },
    channel("a"),
    channel("b"),
    { type: "channel", channel: { team: "t", name: "x".repeat(2000), type: "O" } },
    ...["ann", "bob", "cid"].map((name) => user(name, "a", "b")),
  ];
  const mattermost = collectingImporter();
  const store = {
    db: {
      selectFrom: () => {
        throw new TypeError("no rows in this test");
      },
    },
  };
  const reader = new MattermostReader(
    store as Any,
    { tenant_id: "t", id: "imp" } as Any,
    mattermost.importer,
    { refs, map: new Map() },
    { roomUnits: 2000, members: 3 },
  );
  const values = lines.map((value, number) => ({ value, number, where: `line ${number}`, units: 0 }));
  await assert.rejects(reader.read(ReadableStream.from(values)), /no rows/);
  assert.deepEqual(skipCounts({ report: mattermost.importer.report.items() }), {
    too_many_rooms: 1,
    too_many_members: 3,
  });
});

Deno.test("of a text only as much is read as may be stored of it", async () => {
  const affordable = await measureReferenceMs();
  const long = "ä😀".repeat(LONG / 3);
  for (const cut of [() => report().truncate(long, 100, ""), () => report().truncateName(long, 100, "")]) {
    assert.equal(cut(), "ä😀".repeat(50));
    const ms = await measureCpuMs(cut);
    assert.ok(ms < affordable / 10, `${ms} ms of work, ${affordable} are affordable`);
  }
  const told = report();
  assert.deepEqual([told.truncate("😀".repeat(100), 100, ""), told.items()], ["😀".repeat(100), []]);
  assert.equal([...told.truncate("😀".repeat(101), 100, "")].length, 100);
  assert.deepEqual(skipCounts({ report: told.items() }), { truncated: 1 });
});

Deno.test("a text of any length is split without an array of its characters", async () => {
  const affordable = await measureReferenceMs();
  const draft = (text: string) =>
    plainMessage({ ref: { original: null, fallback: "m" }, where: "line 1", senderId: "ann", at: AT, text });
  const long = `a${"😀".repeat(LONG / 2)}`;
  const parts = splitText(draft(long), report()).map(({ text }) => text ?? "");
  assert.equal(parts.join(""), long);
  assert.ok(parts.every((part) => part.isWellFormed() && [...part].length <= 16_000));
  assert.equal(splitText(draft("x".repeat(16_000)), report()).length, 1);
  assert.deepEqual(splitText(draft("x".repeat(16_001)), report()).map(({ text }) => text?.length), [16_000, 1]);
  const ms = await measureCpuMs(() => splitText(draft(long), report()));
  assert.ok(ms < 2 * affordable, `${ms} ms of work, ${affordable} are affordable`);
});

Deno.test("a text that mentions many names has so many of them looked up, each once", () => {
  const names = Array.from({ length: 100_000 }, (_, n) => `n${n}`);
  const markup = new SlackMarkup();
  assert.ok(markup.text(names.map((name) => `<@${name}>`).join(" ")).endsWith("@n99999"));
  assert.deepEqual([...markup.userIds], names.slice(0, 1000));
  assert.deepEqual(namesIn(names.map((name) => `@${name}.`).join(" ")), names.slice(0, 1000));
  assert.deepEqual(namesIn("@bob, @bob... a@b.c @@x"), ["bob"]);
});

/** Numbers that do not pack so well that an archive of them is taken for a bomb. */
function numbers(count: number): number[] {
  return Array.from({ length: count }, () => Math.floor(Math.random() * 1e6));
}

Deno.test("an export gives others their turn after every part of a room", async () => {
  await using gateway = await openGateway();
  const owner = await gateway.as("boss", { role: "owner" });
  const roomId = await createRoom(owner, []);
  const { id } = await sendMessage(owner, roomId, "one of many");
  const { db } = gateway.app.store;
  const row = await db.selectFrom("message").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  const rows = Array.from(
    { length: 2500 },
    (_, n) => ({ ...row, id: `${id}${n}`, seq: 100 + n, client_message_id: null }),
  );
  await gateway.app.store.write((tx) => tx.insertMany("message", rows));
  const { run } = SqliteConnection.prototype;
  const pages: number[] = [];
  using _slow = slowTime(5);
  using ticks = countTicks();
  using _counted = replace(SqliteConnection.prototype, "run", function (this: SqliteConnection, ...call) {
    if (call[0].startsWith('select * from "message"')) pages.push(ticks.count);
    return run.apply(this, call);
  });
  await exportTenant(gateway, owner);
  assert.ok(pages.length >= 6);
  assert.equal(new Set(pages).size, pages.length, "a tick reads one page");
});
