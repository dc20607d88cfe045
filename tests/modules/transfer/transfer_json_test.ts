// JSON of archives, whatever is in it: its values are read one by one, what is wrong is reported with its position, and the thread that
// serves others spends little on it.
import assert from "node:assert/strict";
import { JsonItemParser, type Layout, type ParsedItem } from "@/modules/transfer/format/json_items.ts";
import { cpuTimeMs, measureReferenceMs } from "../../cpu_time.ts";
import { openGateway } from "../../harness.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { until } from "../../wait.ts";
import { slowTest } from "../../tier.ts";
import { type Any, importArchive, IMPORTS, skipCounts, toArchive, uploadArchive } from "./transfer_fixture.ts";
import { END, HEADER, message, room } from "./transfer_records.ts";
import { createZip } from "./transfer_zip.ts";

const CHUNK_BYTES = 64 * 1024;
const LINE_BYTES = 8 * 1024 ** 2;
const ROOM = room("room_a", { name: "a" });
const MESSAGE = message("room_a", "msg_a", { text: "a" });

/** An array of the same value until it has so many bytes. */
function arrayOf(value: string, bytes: number): string {
  return `[${Array(Math.floor(bytes / (value.length + 1))).fill(value).join(",")}]`;
}

/** The record's JSON with a field of this JSON. */
function withJson(record: Any, field: string, json: string): string {
  return JSON.stringify({ ...record, [field]: "@" }).replace('"@"', () => json);
}

function read(layout: Layout, text: string, chunkBytes: number): ParsedItem[] {
  const reader = new JsonItemParser();
  const bytes = new TextEncoder().encode(text);
  const items: ParsedItem[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    items.push(...reader.read({ layout, chunk: bytes.slice(at, at + chunkBytes) }));
  }
  return [...items, ...reader.read({ layout, chunk: null })];
}

/** What came of each value: itself, or what was wrong. */
function outcomes(layout: Layout, text: string, chunkBytes: number): unknown[] {
  return read(layout, text, chunkBytes).map((item) => typeof item === "string" ? item : `${item.code}: ${item.detail}`);
}

Deno.test("an array comes apart into its values, however it is cut into chunks", () => {
  const values = ["a,b", '"]\\', { a: [1, { b: "}" }], c: {} }, [], [[]], null, -1.5, "größer 👍", true];
  for (
    const text of [JSON.stringify(values), ` \n${JSON.stringify(values, null, 2)}\n`, `\ufeff${JSON.stringify(values)}`]
  ) {
    for (const chunkBytes of [1, 2, 3, 7, 10_000]) {
      assert.deepEqual(read("array", text, chunkBytes).map((item) => JSON.parse(String(item))), values);
    }
  }
  for (
    const [text, ...expected] of [
      ["[]"],
      [" [ ] "],
      ["", "invalid_json: the array is not closed"],
      ["[1", "invalid_json: the array is not closed"],
      ['["]', "invalid_json: the array is not closed"],
      ["[1,]", "1", "invalid_json: empty item"],
      ["[,1]", "invalid_json: empty item", "1"],
      ["[1]2]", "1", "invalid_json: data after the array"],
      ["[1],[2]", "1", "invalid_json: data after the array"],
      ["[oh,2]", "invalid_json: not JSON", "2"],
      ["[{]},2]", "invalid_json: not JSON", "invalid_json: data after the array"],
      ['{"a":1}', "invalid_record: expected an array"],
      ['["\\ud800",1]', "invalid_text: ", "1"],
    ] as const
  ) {
    for (const chunkBytes of [1, 100]) assert.deepEqual(outcomes("array", text, chunkBytes), expected, text);
  }
});

Deno.test("lines come apart however they are cut into chunks, and each that is too much is named", () => {
  const text = ["1", "", '{"a":"\\u0000"}', "[".repeat(33) + "]".repeat(33), arrayOf("0", 500_000), "2"].join("\n");
  for (const chunkBytes of [1, 1000, 1_000_000]) {
    assert.deepEqual(outcomes("lines", text, chunkBytes), [
      "1",
      "",
      "invalid_text: /a",
      "invalid_json: nested deeper than 32",
      "too_many_values: more than 200000",
      "2",
    ]);
  }
  const long = [`"${"x".repeat(LINE_BYTES)}"`, "3"].join("\n");
  assert.deepEqual(outcomes("lines", long, 65_536), [`line_too_long: more than ${LINE_BYTES} bytes`, "3"]);
});

Deno.test("lines of an archive that exceed a limit are reported by their numbers, and the others are imported", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const archive = [
    ...[HEADER, ROOM].map((line) => JSON.stringify(line)),
    withJson(MESSAGE, "reactions", arrayOf("{}", LINE_BYTES - 10_000)),
    withJson(MESSAGE, "metadata", `{"a":${"[".repeat(40)}${"]".repeat(40)}}`),
    "{broken",
    JSON.stringify({ ...MESSAGE, text: "half \ud83d" }),
    withJson(MESSAGE, "text", `"${"x".repeat(LINE_BYTES)}"`),
    JSON.stringify(MESSAGE),
    JSON.stringify(END),
  ].join("\n");
  const done = await importArchive(gateway, boss, "gateway", archive);
  assert.deepEqual([done.state, done.progress.added.messages], ["done", 1]);
  assert.deepEqual(Object.fromEntries(done.report.map(({ code, examples }: Any) => [code, examples])), {
    too_many_values: ["line 3: more than 200000"],
    invalid_json: ["line 4: nested deeper than 32", "line 5: not JSON"],
    invalid_text: ["line 6: /text"],
    line_too_long: [`line 7: more than ${LINE_BYTES} bytes`],
    unknown_author: ["ann"],
  });
});

Deno.test("a Mattermost zip whose lines go to the worker in chunks is imported like the lines themselves", async () => {
  const posts = Array.from({ length: 2000 }, (_, n) => ({
    type: "post",
    post: {
      team: "t",
      channel: "c",
      user: "ann",
      message: `${n} größer 👍 ${crypto.randomUUID()}`,
      create_at: 1000 + n,
    },
  }));
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", type: "O" } },
    { type: "user", user: { username: "ann", teams: [{ name: "t", channels: [{ name: "c" }] }] } },
    ...posts.slice(0, 1000),
    { type: "post", post: { team: "t" } },
    ...posts.slice(1000),
  ];
  const plain = toArchive(lines);
  assert.ok(plain.length > 3 * CHUNK_BYTES, `${plain.length}`);
  for (const archive of [plain, createZip({ "import.jsonl": plain, "data/picture.png": "-" })]) {
    await using gateway = await openGateway();
    const boss = await gateway.as("boss", { role: "owner" });
    const done = await importArchive(gateway, boss, "mattermost", archive);
    assert.deepEqual([done.state, done.progress.added.messages, skipCounts(done)], ["done", 2000, {
      invalid_record: 1,
    }]);
    assert.match(done.report[0].examples[0], /^line 1004: /);
    const ann = await gateway.as("mattermost:ann");
    const { items: [room] } = (await ann.get("/v1/rooms?member=me")).body;
    const { items } = (await ann.get(`/v1/messages?roomId=${room.id}&limit=200`)).body;
    const texts = items.map(({ text }: Any) => text).sort();
    assert.deepEqual(texts, posts.slice(-200).map(({ post }) => post.message).sort());
  }
});

slowTest("values without end in one line or item cost the thread that serves others little", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const affordable = await measureReferenceMs();
  const spent = async (kind: string, archive: Uint8Array<ArrayBuffer> | string): Promise<Any> => {
    const before = cpuTimeMs();
    const done = await importArchive(gateway, boss, kind, archive);
    const ms = cpuTimeMs() - before;
    assert.ok(ms < 20 * affordable, `${kind}: ${ms} ms of work, ${affordable} are affordable`);
    assert.equal(done.state, "done", JSON.stringify(done.failure));
    return skipCounts(done);
  };
  const zeros = `["\\u0041",${arrayOf("0", LINE_BYTES - 10_000).slice(1)}`;
  const line = withJson(MESSAGE, "reactions", arrayOf("{}", LINE_BYTES - 10_000));
  const rest = [HEADER, ROOM, END].map((one) => JSON.stringify(one));
  assert.deepEqual(await spent("gateway", [...rest.slice(0, 2), line, rest[2]].join("\n")), { too_many_values: 1 });
  const posts = [
    JSON.stringify({ type: "version", version: 1 }),
    `{"type":"post","post":{"replies":${arrayOf("{}", LINE_BYTES - 10_000)}}}`,
    `{"type":"post","post":{"props":${zeros}}}`,
  ];
  assert.deepEqual(await spent("mattermost", posts.join("\n")), { too_many_values: 2 });
  // Zeros alone would pack so well that the archive is refused as a bomb.
  const numbers = JSON.stringify(Array.from({ length: 400_000 }, () => Math.random()));
  const slack = createZip({
    "users.json": `[{"id":"U1","name":["\\u0041",${numbers.slice(1)}}]`,
    "channels.json": `[{"id":"C1","name":"one","members":[${numbers},${numbers}]}]`,
  });
  assert.deepEqual(await spent("slack", slack), { too_many_values: 1, line_too_long: 1 });
});

Deno.test("an import whose gateway stops ends its worker, and the next continues", async () => {
  await using folder = await createTemporaryFolder();
  const environment = { SVC_DATA_DIR: folder.path, SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db` };
  let url = "";
  {
    await using gateway = await openGateway(environment);
    const boss = await gateway.as("boss", { role: "owner" });
    const junk = Array.from({ length: 100_000 }, () => ({ type: "mystery" }));
    url = `${IMPORTS}/${await uploadArchive(boss, "gateway", toArchive([HEADER, ...junk, END]))}`;
    let seen: Any;
    await until(async () => (seen = (await boss.get(url)).body).progress.done > 0);
    assert.equal(seen.state, "running");
  }
  // What it left open would be named by now.
  await using gateway = await openGateway(environment);
  await gateway.runJobs();
  const { body } = await (await gateway.as("boss", { role: "owner" })).get(url);
  assert.deepEqual([body.state, skipCounts(body)], ["done", { unknown_type: 100_000 }]);
});
