// Imports of Slack and Mattermost keep the limits of guests, files, and the messages of programs.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { crc32 } from "node:zlib";
import { openGateway } from "../../harness.ts";
import { FILES, pngHeader } from "../file/file_harness.ts";
import { s3Settings } from "../../conformance/s3.ts";
import {
  assertNothingAdded,
  exportTenant,
  importArchive,
  IMPORTS,
  importWhole,
  recordsOfType,
  uploadArchive,
} from "./transfer_fixture.ts";
import { createZip } from "./transfer_zip.ts";

const ROLES = "/v1/collaboration/principals";

type Line = { type: string; [field: string]: unknown };

/** A Mattermost export of these lines, after its version and one public channel. */
function mattermostLines(...lines: Line[]): string {
  return [
    { type: "version", version: 1 },
    { type: "channel", channel: { team: "t", name: "c", display_name: "C", type: "O" } },
    ...lines,
  ].map((line) => JSON.stringify(line)).join("\n");
}

function mattermostUser(username: string, more: Record<string, unknown> = {}): Line {
  return { type: "user", user: { username, teams: [{ name: "t", channels: [{ name: "c" }] }], ...more } };
}

function mattermostPost(user: string, message: string, more: Record<string, unknown> = {}): Line {
  return { type: "post", post: { team: "t", channel: "c", user, message, create_at: 1_600_000_000_000, ...more } };
}

Deno.test("guests of Slack and Mattermost are guests here, and see no public room that they were not in", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const user = (id: string, more: Record<string, unknown> = {}) => ({ id, name: id.toLowerCase(), ...more });
  const slack = createZip({
    "users.json": JSON.stringify([
      user("U1"),
      user("U2", { is_restricted: true, is_ultra_restricted: false }),
      user("U3", { is_restricted: true, is_ultra_restricted: true }),
    ]),
    "channels.json": JSON.stringify([
      { id: "C1", name: "all", members: ["U1"], creator: "U1" },
      { id: "C2", name: "clients", members: ["U1", "U2"], creator: "U1" },
    ]),
  });
  const mattermost = mattermostLines(
    mattermostUser("ann", { roles: "system_user" }),
    mattermostUser("gus", { roles: "system_guest", teams: [], locale: "de" }),
    {
      type: "direct_channel",
      direct_channel: { participants: [{ username: "ann" }, { username: "gus" }], header: "Us" },
    },
  );
  assert.equal((await importArchive(gateway, boss, "slack", slack)).state, "done");
  await importWhole(gateway, boss, "mattermost", mattermost);
  const roles = await Promise.all(
    ["slack:U1", "slack:U2", "slack:U3", "mattermost:ann", "mattermost:gus"].map(async (id) =>
      (await boss.get(`${ROLES}/${encodeURIComponent(id)}`)).body.role
    ),
  );
  assert.deepEqual(roles, ["member", "guest", "guest", "member", "guest"]);
  const namesFor = async (sub: string) => {
    const { body } = await (await gateway.as(sub)).get("/v1/rooms");
    return body.items.map(({ name }: { name: string }) => name).sort();
  };
  assert.deepEqual(await namesFor("slack:U2"), ["clients"]);
  assert.deepEqual(await namesFor("mattermost:gus"), ["ann, gus"]);
  const [direct] = recordsOfType(await exportTenant(gateway, boss), "room").filter(({ kind }) => kind === "direct");
  assert.deepEqual([direct.name, direct.topic], ["ann, gus", "Us"]);
  assert.equal((await boss.get(`${ROLES}/mattermost:gus`)).body.locale, "de");
});

Deno.test("actions, comments on files and deleted files of Slack are imported as Slack shows them", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const post = (n: number, more: Record<string, unknown>) => ({
    type: "message",
    ts: `160000000${n}.000100`,
    ...more,
  });
  const archive = createZip({
    "users.json": JSON.stringify([{ id: "U1", name: "ann" }]),
    "channels.json": JSON.stringify([{ id: "C1", name: "all", members: ["U1"], creator: "U1" }]),
    "all/2020-09-13.json": JSON.stringify([
      post(1, { subtype: "me_message", user: "U1", text: "is away" }),
      post(2, { subtype: "file_comment", text: "nice", comment: { user: "U1", comment: "nice" } }),
      post(3, { user: "U1", text: "see", files: [{ id: "F1", mode: "tombstone" }] }),
    ]),
  });
  const { state, report } = await importArchive(gateway, boss, "slack", archive);
  assert.deepEqual([state, report.map(({ code }: { code: string }) => code)], ["done", ["file_not_copied"]]);
  const ann = await gateway.as("slack:U1");
  const { body: rooms } = await ann.get("/v1/rooms");
  const { body } = await ann.get(`/v1/messages?roomId=${rooms.items[0].id}`);
  const shown = body.items.map(({ senderId, text }: { senderId: string; text: string }) => [senderId, text]);
  assert.deepEqual(shown, [
    ["slack:U1", "_is away_"],
    ["slack:U1", "nice"],
    ["slack:U1", "see\n_This file was deleted._"],
  ]);
});

Deno.test("an organization of Slack moves in with people of other workspaces, conversations and notices", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const users = [
    { id: "U0", name: "bot", is_bot: true },
    { id: "U1", name: "gus", is_restricted: true },
    { id: "U2", name: "ann", profile: { real_name: "Ann A", display_name: "annie" } },
    { id: "U3", name: "bob", real_name: "Bob B", deleted: true },
    { id: "USLACKBOT", name: "slackbot" },
  ];
  const many = Array.from({ length: 9 }, (_, n) => ({ id: `U1${n}`, name: `many${n}` }));
  const post = (n: number, more: Record<string, unknown>) => ({
    type: "message",
    ts: `160000000${n}.000100`,
    ...more,
  });
  const archive = createZip({
    "org_users.json": JSON.stringify([...users, ...many]),
    "channels.json": JSON.stringify([{ id: "C1", name: "all", members: ["U0", "U1", "U3", "U2"], creator: "U9" }]),
    "mpims.json": JSON.stringify([
      {
        id: "G1",
        name: "mpdm-ann--bob--gus-1",
        members: ["U1", "U2", "U3"],
        topic: { value: "with: @ann @bob @gus" },
      },
      { id: "G2", name: "mpdm-many-1", members: many.map(({ id }) => id) },
    ]),
    "all/2020-09-13.json": JSON.stringify([
      post(1, { user: "W7", text: "from outside", user_profile: { real_name: "Una Known" } }),
      post(2, { user: "USLACKBOT", subtype: "huddle_thread", text: "A huddle started" }),
      post(3, { bot_id: "B1", username: "ci", subtype: "bot_message", text: "<@U2> and <@W7>" }),
    ]),
  });
  const { state, report } = await importArchive(gateway, boss, "slack", archive);
  assert.deepEqual([state, report], ["done", []]);
  const lines = await exportTenant(gateway, boss);
  const rooms = recordsOfType(lines, "room").map((room) => [room.kind, room.name, room.topic]).sort();
  assert.deepEqual(rooms, [
    ["channel", "Group conversation", null],
    ["channel", "all", null],
    ["direct", "Ann A, Bob B, gus", null],
  ]);
  const owners = recordsOfType(lines, "member").filter(({ role }) => role === "owner").map((one) => one.principalId);
  assert.deepEqual(owners.sort(), ["slack:U10", "slack:U2"]);
  assert.deepEqual(recordsOfType(lines, "message").map(({ kind, text }) => [kind, text]), [
    ["text", "from outside"],
    ["system", "A huddle started"],
    ["text", "@Ann A and @Una Known"],
  ]);
  const people = new Map(recordsOfType(lines, "principal").map((one) => [one.id, one]));
  assert.deepEqual([people.get("slack:W7").displayName, people.get("slack:W7").disabled], ["Una Known", true]);
  assert.equal(people.get("slack:USLACKBOT").kind, "service");
});

Deno.test("messages of integrations and bots of Mattermost are imported, and archived channels are archived", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const attachment = {
    fallback: "f",
    pretext: "CI",
    title: "Build",
    title_link: "https://ci.example/1",
    text: "It **works**",
  };
  const archive = mattermostLines(
    {
      type: "channel",
      channel: { team: "t", name: "old", display_name: "Old", type: "O", deleted_at: 1_600_000_000_000 },
    },
    mattermostUser("ann"),
    { type: "bot", bot: { username: "deploybot", display_name: "Deploy Bot", owner: "ann", delete_at: 0 } },
    mattermostPost("deploybot", "Deployed", { props: { from_bot: "true", attachments: [attachment] } }),
    mattermostPost("ann", "", { create_at: 1_600_000_001_000, props: { attachments: [{ text: "disk is full" }] } }),
  );
  const { state, report } = await importArchive(gateway, boss, "mattermost", archive);
  assert.deepEqual([state, report], ["done", []]);
  const { body: rooms } = await boss.get("/v1/rooms");
  const states = Object.fromEntries(
    rooms.items.map(({ name, state }: { name: string; state: string }) => [name, state]),
  );
  assert.deepEqual(states, { C: "active", Old: "archived" });
  const id = rooms.items.find(({ name }: { name: string }) => name === "C").id;
  const { body } = await boss.get(`/v1/messages?roomId=${id}`);
  assert.deepEqual(body.items.map(({ text }: { text: string }) => text), [
    "Deployed\nCI\n**[Build](https://ci.example/1)**\nIt **works**",
    "disk is full",
  ]);
  const { body: bot } = await boss.get(`${ROLES}/${encodeURIComponent("mattermost:deploybot")}`);
  assert.deepEqual([bot.kind, bot.displayName], ["service", "Deploy Bot"]);
});

Deno.test("files of a Mattermost zip are attached to their posts, and pictures to users, once; what it lacks is named", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const lines = mattermostLines(
    mattermostUser("ann", { profile_image: "users/ann/profile.png" }),
    mattermostPost("ann", "the report", { attachments: [{ path: "f1/report.txt" }, { path: "f9/absent.txt" }] }),
    mattermostPost("ann", "", {
      create_at: 1_600_000_001_000,
      attachments: [{ path: "f2/only.txt" }],
      replies: [{
        user: "ann",
        message: "in reply",
        create_at: 1_600_000_002_000,
        attachments: [{ path: "f3/x.txt" }],
      }],
    }),
  );
  const archive = createZip({
    "import.jsonl": lines,
    "data/f1/report.txt": "the content",
    "data/f2/only.txt": "a file without a text",
    "data/f3/x.txt": "of a reply",
    "data/users/ann/profile.png": pngHeader(64, 64),
  });
  const { state, report, progress } = await importArchive(gateway, boss, "mattermost", archive);
  assert.deepEqual([state, progress.added.files], ["done", 4]);
  const { body: { avatarFileId } } = await boss.get(`${ROLES}/mattermost:ann`);
  assert.equal((await boss.get(`${FILES}/${avatarFileId}`)).body.contentType, "image/png");
  assert.deepEqual(report, [{ code: "file_not_copied", count: 1, examples: ["line 4"] }]);
  const ann = await gateway.as("mattermost:ann");
  const { body: rooms } = await ann.get("/v1/rooms");
  const { body } = await boss.get(`/v1/messages?roomId=${rooms.items[0].id}`);
  const shown = body.items.map(({ text, files }: { text: string; files: { name: string }[] }) => [
    text,
    files.map(({ name }) => name),
  ]);
  assert.deepEqual(shown, [["the report\nabsent.txt", ["report.txt"]], ["", ["only.txt"]], ["in reply", ["x.txt"]]]);
  const { id } = body.items[0].files[0];
  assert.equal(await (await boss.open(`${FILES}/${id}/content`)).text(), "the content");

  const again = await importArchive(gateway, boss, "mattermost", archive);
  assert.equal(again.state, "done");
  assertNothingAdded(again);
});

Deno.test("a zip whose content does not match its checksum is refused, and a file of it is left out", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const users = JSON.stringify([{ id: "U1", name: "ann" }]);
  const slack = damaged(createZip({ "users.json": users }), users);
  const refused = await importArchive(gateway, boss, "slack", slack);
  assert.deepEqual([refused.state, refused.failure.code], ["failed", "zip_corrupt"]);
  const lines = mattermostLines(
    mattermostUser("ann"),
    mattermostPost("ann", "see", { attachments: [{ path: "f1/report.txt" }] }),
  );
  const zip = damaged(createZip({ "import.jsonl": lines, "data/f1/report.txt": "the content" }), "the content");
  const { state, report } = await importArchive(gateway, boss, "mattermost", zip);
  assert.equal(state, "done");
  assert.deepEqual(report.map(({ code }: { code: string }) => code).sort(), ["file_corrupt", "file_not_copied"]);
});

Deno.test("an import continues after the file store was unavailable for minutes", async () => {
  const objects = new Map<string, Uint8Array<ArrayBuffer>>();
  let isDown = false;
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const body = await request.bytes();
    if (isDown) return new Response("maintenance", { status: 403 });
    const { pathname } = new URL(request.url);
    if (request.method === "PUT") objects.set(pathname, body);
    const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("Range") ?? "") ?? [];
    const content = objects.get(pathname);
    if (start === undefined) return new Response(content ?? null, { headers: { ETag: '"e"' } });
    return new Response(content?.slice(Number(start), Number(end) + 1), { status: 206 });
  });
  const environment = s3Settings(`http://127.0.0.1:${server.addr.port}`);
  {
    await using gateway = await openGateway(environment);
    const boss = await gateway.as("boss", { role: "owner" });
    const lines = mattermostLines(mattermostUser("ann"), mattermostPost("ann", "hello"));
    const id = await uploadArchive(boss, "mattermost", createZip({ "import.jsonl": lines }));
    isDown = true;
    for (let minute = 0; minute < 7; minute++) {
      await gateway.runJobs();
      gateway.clock.advance(60_000);
    }
    isDown = false;
    gateway.clock.advance(900_000);
    await gateway.runJobs();
    const { body } = await boss.get(`${IMPORTS}/${id}`);
    assert.deepEqual([body.state, body.progress.added.messages], ["done", 1], JSON.stringify(body));
  }
  await server.shutdown();
});

/** The zip with another checksum of the file with this content. */
function damaged(zip: Uint8Array<ArrayBuffer>, content: string): Uint8Array<ArrayBuffer> {
  const bytes = Buffer.from(zip);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32LE(crc32(content));
  for (let at = bytes.indexOf(checksum); at >= 0; at = bytes.indexOf(checksum)) bytes.writeUInt32LE(0, at);
  return new Uint8Array(bytes);
}
