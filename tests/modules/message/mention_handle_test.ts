// Mentions by handle and id: what a text mentions on request, what remains text, and that the work is linear.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { namesIn } from "@/modules/message/mentions.ts";
import { cpuTimeMs } from "../../cpu_time.ts";
import { testOnEngines } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const NONE = { principalIds: [], room: false };

async function createWithHandles(gateway: Harness, handles: Record<string, string>): Promise<void> {
  const admin = await gateway.as("root", { role: "admin" });
  for (const [id, handle] of Object.entries(handles)) {
    ok(await admin.patch(`/v1/collaboration/principals/${id}`, { handle }));
  }
}

Deno.test("namesIn finds distinct handles at word boundaries and outside of code", () => {
  const first = (text: string, format: "markdown" | "plain" = "markdown") =>
    namesIn(text, format).map((readings) => readings.at(-1));
  assert.deepEqual(first("@bob, (@carol) and @Dan.K. @bob"), ["bob", "carol", "dan.k"]);
  assert.deepEqual(namesIn("@bob.", "plain"), [["bob.", "bob"]]);
  assert.deepEqual(first("mail bob@example.org or see /@bob, \\@bob, @@bob"), []);
  assert.deepEqual(first(`@${"a".repeat(65)}`), []);
  assert.deepEqual(first("`@a` @b ``@c ` @d`` @e ` @f"), ["b", "e", "f"]);
  assert.deepEqual(first("@a\n```ts\n@b\n```\n@c\n~~~\n@d\n```\n@e"), ["a", "c"]);
  assert.deepEqual(first("`@a`", "plain"), ["a"]);
  assert.deepEqual(namesIn("Hi @Ada@example.org: @Bob.", "plain"), [
    ["Ada@example.org:", "Ada@example.org", "Ada", "ada"],
    ["Bob.", "Bob", "bob.", "bob"],
  ]);
  assert.deepEqual(first("@bob:@carol"), ["bob", "carol"]);
  assert.deepEqual(first("请@bob看，また@danさん ไป@eve, но@eva"), ["bob", "dan", "eve"]);
  assert.equal(namesIn(Array.from({ length: 200 }, (_, n) => `@p${n}`).join(" "), "plain").length, 51);
});

Deno.test("namesIn takes linear time for any text", () => {
  const worked = (text: string): number => {
    const before = cpuTimeMs();
    namesIn(text, "markdown");
    return cpuTimeMs() - before;
  };
  for (
    const piece of [
      "`",
      "`a``b```",
      "@",
      "@a.",
      "@-",
      "~~~\n",
      "```\n",
      "@".padEnd(65, "."),
      "@a:",
      "@a".padEnd(128, ":") + "b",
    ]
  ) {
    const [small, large] = [20_000, 160_000].map((size) => worked(piece.repeat(size / piece.length) + "@x"));
    assert.ok((large ?? 0) < Math.max(10, small ?? 0) * 40, `${piece}: ${small} and ${large} ms`);
  }
});

testOnEngines("message.send with parseMentions mentions members by handle", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "carol", "dan", "eve");
  const roomId = await createRoom(alice, ["bob", "carol", "dan"]);
  await createWithHandles(gateway, { bob: "bobby", carol: "carol.c", eve: "eve", dan: "dan" });
  ok(await (await gateway.as("root", { role: "admin" })).delete("/v1/collaboration/principals/dan"));
  const text = "@bobby and @Carol.c. `@dan` @dan @eve @nobody";
  assert.deepEqual((await sendMessage(alice, roomId, text)).mentions, NONE);
  assert.deepEqual((await sendMessage(alice, roomId, text, { parseMentions: false })).mentions, NONE);
  const message = await sendMessage(alice, roomId, text, { parseMentions: true, clientMessageId: "one" });
  assert.deepEqual(message.mentions, { principalIds: ["bob", "carol"], room: false });
  assert.equal(message.text, text);
  await gateway.runJobs();
  const added = await sendMessage(alice, roomId, "@bobby", {
    parseMentions: true,
    mentions: { principalIds: ["carol"] },
  });
  assert.deepEqual(added.mentions.principalIds, ["carol", "bob"]);
  assert.equal(ok(await bob.get("/v1/collaboration/unreads")).items[0].mentionCount, 2);
  await gateway.runJobs();
  const { items } = ok(await bob.get("/v1/collaboration/notifications?kind=mention"));
  assert.deepEqual(items.map((item: { messageId: string }) => item.messageId), [added.id, message.id]);
  // A repeat has the same fingerprint, whatever members there are by then.
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  const repeat = await sendMessage(alice, roomId, text, { parseMentions: true, clientMessageId: "one" });
  assert.deepEqual([repeat.id, repeat.mentions], [message.id, message.mentions]);
  const edited = ok(
    await alice.patch(`/v1/messages/${message.id}`, { text: "@carol.c only, not @bobby", parseMentions: true }),
  );
  assert.deepEqual(edited.mentions, { principalIds: ["carol"], room: false });
});

testOnEngines(
  "message.send with parseMentions mentions members by id, which others cannot take",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, bob, mallory } = await createCallers(gateway, "alice", "bob", "mallory", "ada@example.org", "eve");
    const { id: agentId } = ok(
      await alice.post("/v1/collaboration/principals", { kind: "agent", displayName: "Помощник" }),
    );
    const roomId = await createRoom(alice, ["bob", "mallory", "ada@example.org", agentId], { visibility: "public" });
    const text = `@bob, @Mallory and @ada@example.org: ask @${agentId}. Not @eve, @nobody, \\@alice`;
    const { mentions } = await sendMessage(alice, roomId, text, { parseMentions: true });
    assert.deepEqual(mentions.principalIds, ["bob", "mallory", "ada@example.org", agentId]);
    await gateway.runJobs();
    assert.equal(ok(await bob.get("/v1/collaboration/notifications?kind=mention")).items.length, 1);
    assertProblem(await mallory.patch("/v1/collaboration/me", { handle: "bob" }), 409, "handle_taken");
    const agent = { kind: "agent", displayName: "Robo" };
    assertProblem(await mallory.post("/v1/collaboration/principals", { ...agent, handle: "bob" }), 409, "handle_taken");
    // One that had the handle before there was such an id keeps its mentions.
    ok(await mallory.patch("/v1/collaboration/me", { handle: "zoe" }));
    await createCallers(gateway, "zoe");
    ok(await alice.put(`/v1/rooms/${roomId}/members/zoe`));
    const late = await sendMessage(alice, roomId, "@zoe", { parseMentions: true });
    assert.deepEqual(late.mentions.principalIds, ["mallory"]);
  },
);

Deno.test("@all and @here mention all members if the caller may, and remain text otherwise", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  for (const word of ["@all", "@here"]) {
    assert.deepEqual((await sendMessage(bob, roomId, word, { parseMentions: true })).mentions, { ...NONE, room: true });
  }
  const many = Array.from({ length: 100 }, (_, n) => `p${n}`);
  await createCallers(gateway, ...many);
  const large = await createRoom(alice, ["bob", ...many]);
  assert.deepEqual((await sendMessage(bob, large, "@all", { parseMentions: true })).mentions, {
    ...NONE,
    ignored: [{ name: "all", reason: "not_allowed" }],
  });
  assert.deepEqual((await sendMessage(alice, large, "@all", { parseMentions: true })).mentions, {
    ...NONE,
    room: true,
  });
});

Deno.test("a scheduled message resolves its handles when it is sent", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  await sendMessage(alice, roomId, "@bobby", { parseMentions: true, sendAt });
  await createWithHandles(gateway, { bob: "bobby" });
  gateway.clock.advance(61_000);
  await gateway.runJobs();
  const [message] = ok(await bob.get(`/v1/messages?roomId=${roomId}`)).items;
  assert.deepEqual(message.mentions.principalIds, ["bob"]);
});
