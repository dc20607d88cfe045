// A team's history is imported whole, exported whole, and imported again without a difference; bad archives are refused by name.
import assert from "node:assert/strict";
import { openGateway } from "../../harness.ts";
import {
  assertNothingAdded,
  exportTenant,
  importArchive,
  importWhole,
  normalizedRecords,
  putArchive,
} from "./transfer_fixture.ts";
import { createZip } from "./transfer_zip.ts";
import { startStopwatch } from "../../cpu_time.ts";
import { testOnEngines } from "../../engines.ts";
import { slowTest } from "../../tier.ts";
import { completeSearch, createRoom, ok, sendMessage } from "../fixtures.ts";

/** More than an import reads between two of its checkpoints. */
const MESSAGES = 6000;

function slackExport(count: number): Uint8Array<ArrayBuffer> {
  let state = 7;
  const random = (below: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  const users = Array.from({ length: 40 }, (_, n) => ({
    id: `U${1000 + n}`,
    name: `user${n}`,
    real_name: `User Number ${n}`,
    deleted: n === 3,
    is_bot: n === 4,
  }));
  const channels = Array.from({ length: 12 }, (_, n) => ({
    id: `C${2000 + n}`,
    name: `channel-${n}`,
    created: 1_600_000_000 + n,
    creator: "U1000",
    members: users.slice(0, 10 + n).map(({ id }) => id),
    topic: { value: `Topic ${n}` },
  }));
  const dms = [{ id: "D1", created: 1_600_000_000, members: ["U1000", "U1001"] }];
  const days = new Map<string, unknown[]>();
  const roots = new Map<string, string>();
  for (let n = 0; n < count; n++) {
    const at = 1_610_000_000 + n * 60;
    const channel = n % 50 === 0 ? "D1" : `channel-${random(channels.length)}`;
    const ts = `${at}.${String(random(1_000_000)).padStart(6, "0")}`;
    const root = random(5) === 0 ? roots.get(channel) : undefined;
    if (root === undefined && random(4) === 0) roots.set(channel, ts);
    const file = `${channel}/${new Date(at * 1000).toISOString().slice(0, 10)}.json`;
    const posts = days.get(file) ?? [];
    days.set(file, posts);
    posts.push({
      type: "message",
      user: `U${1000 + random(40)}`,
      ts,
      text: n === 77
        ? "the zebrafish swims &amp; <@U1001> sees <https://example.org|it>"
        : `word${random(500)} number ${n}`,
      ...(root === undefined ? {} : { thread_ts: root }),
      ...(random(10) === 0
        ? { reactions: [{ name: "+1", users: ["U1000", "U1002"] }, { name: "tada::skin-tone-2", users: ["U1005"] }] }
        : {}),
      ...(random(30) === 0 ? { edited: { user: "U1000", ts: `${at + 30}.000000` } } : {}),
    });
  }
  return createZip({
    "users.json": JSON.stringify(users),
    "channels.json": JSON.stringify(channels),
    "dms.json": JSON.stringify(dms),
    ...Object.fromEntries([...days].map(([name, posts]) => [name, JSON.stringify(posts)])),
  });
}

slowTest(
  "a Slack export is imported once, is found, is exported, and is imported into another tenant without a difference",
  async () => {
    await using gateway = await openGateway();
    const boss = await gateway.as("boss", { role: "owner" });
    const archive = slackExport(MESSAGES);
    const took = startStopwatch();
    const first = await importArchive(gateway, boss, "slack", archive);
    const importTook = took();
    assert.equal(first.state, "done", JSON.stringify(first));
    assert.equal(first.progress.added.messages, MESSAGES);
    assert.deepEqual(first.report, []);
    const again = await importArchive(gateway, boss, "slack", archive);
    assert.deepEqual([again.state, again.progress.present], ["done", MESSAGES]);
    assertNothingAdded(again);

    const reader = await gateway.as("slack:U1000");
    const { body: unreads } = await reader.get("/v1/collaboration/unreads");
    assert.ok(
      unreads.items.length === 13 && unreads.items.every((one: { unreadCount: number }) => one.unreadCount === 0),
    );
    const found = await completeSearch(() => reader.get("/v1/search?q=zebrafish"));
    assert.match(JSON.stringify(found), /zebrafish swims & @User Number 1 sees \[it\]\(https:\/\/example\.org\)/);

    const out = await exportTenant(gateway, boss);
    const other = await gateway.as("boss", { role: "owner", tenant: "other" });
    await importWhole(gateway, other, "gateway", out);
    assert.deepEqual(normalizedRecords(await exportTenant(gateway, other)), normalizedRecords(out));
    assertNothingAdded(await importArchive(gateway, boss, "gateway", out));
    await Deno.stdout.write(new TextEncoder().encode(`${MESSAGES} messages imported in ${importTook}\n`));
  },
);

Deno.test("what was pinned in Slack or Mattermost is pinned here, in the order it was", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const ts = (n: number) => `160000000${n}.000100`;
  const channel = { id: "C1", name: "general", members: ["U1"], creator: "U1" };
  const pins = [{ id: ts(3), type: "C", created: 1600000100 }, { id: ts(1), type: "C", created: 1600000200 }];
  const slack = createZip({
    "users.json": JSON.stringify([{ id: "U1", name: "ann" }]),
    "channels.json": JSON.stringify([{ ...channel, pins: [...pins, { id: "F1", type: "F", created: 1600000300 }] }]),
    "general/2020-09-13.json": JSON.stringify(
      [1, 2, 3].map((n) => ({ type: "message", user: "U1", text: `said ${n}`, ts: ts(n) })),
    ),
  });
  const post = (create_at: number, message: string, is_pinned?: boolean) => ({
    type: "post",
    post: { team: "t", channel: "c", user: "bob", message, create_at, is_pinned },
  });
  const mattermost = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", display_name: "C", type: "O" } },
    { type: "user", user: { username: "bob", teams: [{ name: "t", channels: [{ name: "c" }] }] } },
    post(1000, "said 1", true),
    post(2000, "said 2", false),
    post(3000, "said 3"),
  ].map((line) => JSON.stringify(line)).join("\n");
  const cases = [["slack", "slack:U1", slack, ["said 1", "said 3"]], ["mattermost", "mattermost:bob", mattermost, [
    "said 1",
  ]]] as const;
  for (const [kind, reader, archive, pinned] of cases) {
    const { state, report } = await importArchive(gateway, boss, kind, archive);
    assert.deepEqual([state, report], ["done", []]);
    const member = await gateway.as(reader);
    const { body: rooms } = await member.get("/v1/rooms?member=me");
    const { body } = await member.get(`/v1/rooms/${rooms.items[0].id}/pins`);
    assert.deepEqual(body.items.map(({ text }: { text: string }) => text), pinned);
  }
});

Deno.test("posts of people and apps are imported as Slack shows them", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const section = (elements: unknown[]) => [{
    type: "rich_text",
    elements: [{ type: "rich_text_section", elements }],
  }];
  const words = (text: string) => ({ elements: [{ type: "text", text }] });
  const lists = [
    { type: "rich_text_list", style: "bullet", elements: [words("one")] },
    { type: "rich_text_list", style: "ordered", indent: 1, elements: [words("two")] },
    { type: "rich_text_quote", ...words("said") },
  ];
  const posts = [
    { user: "U1", text: "*bold* ~no~ <@U2> &lt;b&gt;", blocks: section([{ type: "text", text: "bold" }]) },
    { user: "U1", text: "", blocks: section([{ type: "user", user_id: "U2" }, { type: "emoji", name: "tada" }]) },
    { user: "U1", text: ":wave::skin-tone-3: :flag-at: `:tada:` 10:100:3 :shipit:" },
    { user: "U1", text: "", blocks: [{ type: "rich_text", elements: lists }] },
    {
      bot_id: "B9",
      bot_profile: { name: "Builds" },
      text: "",
      attachments: [{ title: "Build 7", text: "*failed*" }],
    },
    { bot_id: "B9", username: "Builds", text: "for phones", blocks: [{ type: "header", text: { text: "Shown" } }] },
  ];
  const archive = createZip({
    "users.json": JSON.stringify([{ id: "U1", name: "ann" }, { id: "U2", name: "bob" }]),
    "channels.json": JSON.stringify([{ id: "C1", name: "x", members: ["U1"], topic: { value: "R&amp;D of <@U2>" } }]),
    "x/2020-09-13.json": JSON.stringify(
      posts.map((post, n) => ({ type: "message", ts: `160000000${n}.000100`, ...post })),
    ),
  });
  const { state, report } = await importArchive(gateway, boss, "slack", archive);
  assert.deepEqual([state, report], ["done", []]);
  const ann = await gateway.as("slack:U1");
  const [room] = (await ann.get("/v1/rooms?member=me")).body.items;
  assert.equal(room.topic, "R&D of @bob");
  const { items } = (await ann.get(`/v1/messages?roomId=${room.id}`)).body;
  assert.deepEqual(items.map(({ text }: { text: string }) => text), [
    "**bold** ~~no~~ @bob <b>",
    "@bob🎉",
    "👋 🇦🇹 `:tada:` 10:100:3 :shipit:",
    "- one\n  1. two\n> said",
    "**Build 7**\n**failed**",
    "**Shown**",
  ]);
  assert.deepEqual(items[1].mentions.principalIds, ["slack:U2"]);
  const { body: bot } = await boss.get(`/v1/collaboration/principals/${items[4].senderId}`);
  assert.deepEqual([bot.displayName, bot.kind], ["Builds", "service"]);
});

Deno.test("archives that are unsafe, broken or no archives are refused by name", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const entries = {
    "users.json": "[]",
    ...Object.fromEntries(Array.from({ length: 512 }, (_, n) => [`a/${n}`, ""])),
  };
  const good = createZip({ "users.json": "[]", "channels.json": "[]" });
  const cases: [string, Uint8Array<ArrayBuffer> | string, string][] = [
    ["slack", createZip({ "users.json": "[]", "a/1.json": new Uint8Array(20 * 1024 ** 2) }), "zip_bomb"],
    ["slack", createZip({ "../users.json": "[]" }), "unsafe_name"],
    ["slack", createZip({ "users.json": "[]", [`a/${"n".repeat(1023)}`]: "" }), "name_too_long"],
    ["slack", createZip(entries, "c".repeat(2 ** 16 - 1)), "directory_too_large"],
    ["slack", good.slice(0, good.length - 30), "not_a_zip"],
    ["slack", "not a zip at all, but long enough to hold one's directory", "not_a_zip"],
    ["slack", createZip({ "channels.json": "[]" }), "missing_file"],
    ["gateway", "{}\n", "unsupported_version"],
    ["mattermost", '{"type":"version","version":9}\n', "unsupported_version"],
  ];
  for (const [kind, archive, code] of cases) {
    const { state, failure } = await importArchive(gateway, boss, kind, archive);
    assert.deepEqual([state, failure?.code], ["failed", code], JSON.stringify(failure));
  }
  const { failure } = await importArchive(gateway, boss, "gateway", good);
  assert.match(failure.detail, /expected an export as it was downloaded/);
});

Deno.test("lines and items that do not fit are left out and reported, the others are imported", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const post = (create_at: number, message: string, more = {}) => ({
    type: "post",
    post: { team: "t", channel: "c", user: "ann", message, create_at, ...more },
  });
  const lines = [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", display_name: "C", type: "O" } },
    {
      type: "user",
      user: { username: "ann", teams: [{ name: "t", channels: [{ name: "c", roles: "channel_admin" }] }] },
    },
    post(2000, "second", { replies: [{ user: "bob", message: "reply @ann", create_at: 3000 }] }),
    post(1000, "first", { reactions: [{ user: "ann", emoji_name: "+1", create_at: 1500 }] }),
    { type: "post", post: { user: "ann" } },
    { type: "mystery" },
  ].map((line) => JSON.stringify(line));
  const archive = [...lines, "{broken", '{"type":"post","post":{"message":"\\u0000"}}'].join("\n");
  const done = await importArchive(gateway, boss, "mattermost", archive);
  assert.equal(done.state, "done", JSON.stringify(done));
  const added = {
    principals: 2,
    rooms: 1,
    members: 1,
    bans: 0,
    messages: 3,
    reactions: 1,
    edits: 0,
    documents: 0,
    revisions: 0,
    comments: 0,
    files: 0,
    tasks: 0,
    activities: 0,
    relations: 0,
    events: 0,
    facts: 0,
    meetings: 0,
    participants: 0,
    segments: 0,
    skills: 0,
    savedMessages: 0,
    followedThreads: 0,
    groups: 0,
    agents: 0,
  };
  assert.deepEqual(done.progress.added, added);
  assert.deepEqual(
    done.report.map(({ code }: { code: string }) => code).sort(),
    ["invalid_json", "invalid_record", "invalid_text", "unknown_author", "unknown_type"],
  );
  const ann = await gateway.as("mattermost:ann");
  const { body: rooms } = await ann.get("/v1/rooms?member=me");
  const { body: page } = await ann.get(`/v1/messages?roomId=${rooms.items[0].id}`);
  assert.deepEqual(page.items.map(({ text }: { text: string }) => text), ["first", "second", "reply @ann"]);
  assert.equal(page.items[2].threadId, page.items[1].id);
  assert.equal(page.items[1].replyCount, 1);
  assert.deepEqual(page.items[2].mentions.principalIds, ["mattermost:ann"]);
  assert.equal((await ann.get("/v1/threads")).body.items[0].root.id, page.items[1].id);
});

Deno.test("imports are for those who run the tenant, exports for owners; a cancelled import takes no archive", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const member = await gateway.as("member");
  assert.equal((await member.post("/v1/collaboration/imports", { kind: "slack" })).status, 403);
  assert.equal((await member.post("/v1/collaboration/exports", { kind: "tenant" })).status, 403);
  const { body: room } = await member.post("/v1/rooms", { name: "Mine" });
  const ask = { kind: "room", roomId: room.id };
  assert.equal((await boss.post("/v1/collaboration/exports", ask)).status, 404);
  const made = await member.post("/v1/collaboration/exports", ask);
  assert.equal(made.status, 202);
  assert.equal(
    (await gateway.as("other").then((other) => other.get(`/v1/collaboration/exports/${made.body.id}`))).status,
    404,
  );

  const { body: waiting } = await boss.post("/v1/collaboration/imports", { kind: "slack" });
  assert.equal((await boss.post("/v1/collaboration/imports", { kind: "slack" })).body.code, "already_running");
  const cancelled = await boss.post(`/v1/collaboration/imports/${waiting.id}/cancel`);
  assert.equal(cancelled.body.state, "cancelled");
  assert.equal((await putArchive(boss, waiting.id, "x")).status, 409);
});

testOnEngines(
  "who had read a room has read what is imported into it later, and gets the new position",
  async (engine) => {
    await using gateway = await openGateway(engine);
    const boss = await gateway.as("boss", { role: "owner" });
    const copyOwner = await gateway.as("boss", { tenant: "copy", role: "owner" });
    const roomId = await createRoom(boss, []);
    await sendMessage(boss, roomId, "first");
    await importArchive(gateway, copyOwner, "gateway", await exportTenant(gateway, boss));
    await sendMessage(boss, roomId, "second");
    await importArchive(gateway, copyOwner, "gateway", await exportTenant(gateway, boss));
    const [unread] = ok(await copyOwner.get("/v1/collaboration/unreads")).items;
    assert.deepEqual([unread.unreadCount, unread.lastReadSeq], [0, unread.lastSeq]);
    const own = await gateway.app.store.log.read("copy", "principal:boss", 0, 100);
    const published = own.filter(({ type }) => type === "read.updated").map(({ json }) => JSON.parse(json).data);
    assert.deepEqual(published, [unread]);
  },
);
