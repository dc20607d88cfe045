// The context of a model: what is in it, in which order, why, and how many tokens it has.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { estimateTokens } from "@/core/text/tokens.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import {
  assertProblem,
  completeSearch,
  createCaller,
  createCallers,
  createRoom,
  ok,
  sendMessage,
} from "../fixtures.ts";
import { inRoom, remember } from "./memory_fixture.ts";

const CONTEXT = "/v1/collaboration/context";
const TOOLS = [{ name: "task_create", description: "Creates a task", inputSchema: { type: "object" } }];

type Item = {
  section: string;
  role: string;
  text: string;
  tokens: number;
  reason: string;
  source: { type: string; id: string; roomId: string | null } | null;
};
type Context = {
  items: Item[];
  prefixItemCount: number;
  usedTokens: number;
  omitted: Record<string, number>;
  degraded: boolean;
};

async function assemble(who: Caller, input: Record<string, unknown>): Promise<Context> {
  return await completeSearch(() => who.post(CONTEXT, input));
}

function sectionsOf({ items }: Context): string[] {
  return [...new Set(items.map(({ section }) => section))];
}

function textsOf({ items }: Context, section: string): string[] {
  return items.filter((item) => item.section === section).map(({ text }) => text);
}

testOnEngines("context.assemble puts the stable prefix first, then thread, room, memory and search", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "alice" });
  const roomId = await createRoom(alice, ["bob", "robo"], { name: "Launch", topic: "The launch in May" });
  const other = await createRoom(alice, ["bob", "robo"], { name: "Ideas" });
  await sendMessage(bob, other, "The balloons for the launch are at Nina's");
  const root = await sendMessage(bob, roomId, "Who brings the balloons to the launch?");
  await sendMessage(robo, roomId, "I look it up", { threadId: root.id });
  await sendMessage(alice, roomId, "Good morning");
  await remember(alice, inRoom(roomId), "The launch is on May 4th", { pinned: true });
  const fact = await remember(alice, inRoom(roomId), "Balloons are brought by Nina", { confidence: 0.8 });
  const retired = await remember(alice, inRoom(roomId), "Balloons are brought by Otto");
  await remember(alice, inRoom(roomId), "Balloons are never brought by Otto", { supersedes: retired.id });

  const input = {
    roomId,
    threadId: root.id,
    query: "Who brings the balloons?",
    instructions: "Be brief.",
    tools: TOOLS,
  };
  const context = await assemble(robo, input);
  assert.deepEqual(sectionsOf(context), ["instructions", "tools", "pinned", "thread", "room", "memory", "search"]);
  assert.equal(context.prefixItemCount, 3);
  assert.deepEqual(context.items.slice(0, 2).map(({ role, text }) => [role, text]), [
    ["system", "Be brief."],
    ["system", JSON.stringify(TOOLS[0])],
  ]);
  const [pinned] = context.items.filter(({ section }) => section === "pinned");
  assert.match(
    pinned?.text ?? "",
    /^\[Background, may be outdated: fact recorded 2026-03-01 by alice, .*\] The launch is/,
  );
  assert.deepEqual([pinned?.role, pinned?.reason], ["system", "pinned fact of the room"]);
  assert.deepEqual(
    context.items.filter(({ section }) => section === "thread").map(({ role, text }) => [role, text]),
    [["user", "[bob] Who brings the balloons to the launch?"], ["assistant", "I look it up"]],
  );
  assert.deepEqual(textsOf(context, "room"), [
    '[Background] This is the room "Launch".\nPeople here: alice (id alice), bob (id bob), robo (id robo)\nTopic: The launch in May',
    "[alice] Good morning",
  ]);
  const memory = context.items.filter(({ section }) => section === "memory");
  assert.match(memory[0]?.text ?? "", /confidence 0.8.*\] Balloons are brought by Nina/);
  assert.deepEqual(memory[0]?.source, { type: "memory", id: fact.id, roomId, at: fact.createdAt });
  assert.equal(memory[0]?.reason, "matches the question");
  assert.ok(!JSON.stringify(context).includes("are brought by Otto"), "what was replaced is not recalled");
  assert.deepEqual(textsOf(context, "search"), [
    '[Background, found by search: message of 2026-03-01 in the room "Ideas"] The balloons for the launch are at Nina\'s',
  ]);
  assert.equal(context.usedTokens, context.items.reduce((sum, { tokens }) => sum + tokens, 0));
  assert.deepEqual([context.degraded, context.omitted["memory"]], [false, 0]);
  assert.deepEqual(await assemble(robo, input), context, "the same again");

  const part = await assemble(robo, { ...input, include: ["thread"] });
  assert.deepEqual(sectionsOf(part), ["instructions", "tools", "thread"]);
  const implied = await assemble(robo, { roomId, threadId: root.id });
  assert.ok(textsOf(implied, "memory").some((text) => text.includes("Nina")), "asked by the newest message of others");
  assertProblem(await robo.post(CONTEXT, { roomId: other, threadId: root.id }), 404, "not_found");
  assert.equal((await robo.post(CONTEXT, { threadId: root.id })).status, 422);
});

testOnEngines("a context has nothing that the caller may not read", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob"]);
  const secret = await createRoom(alice, []);
  const message = await sendMessage(alice, secret, "The merger balloon is secret");
  await remember(alice, inRoom(secret), "The merger is called balloon", { pinned: true });
  await remember(alice, inRoom(roomId), "A balloon is red");
  const source = { sourceMessageIds: [message.id] };
  await remember(alice, { type: "principal" }, "The merger is with Acme, balloon", { ...source, pinned: true });
  const ask = (who: Caller) => assemble(who, { roomId, query: "What is the merger balloon?" });
  assert.match(JSON.stringify((await ask(alice)).items), /Acme.*secret/);
  assert.deepEqual((await ask(bob)).items.filter(({ text }) => /merger/.test(text)), []);
  assert.ok((await ask(bob)).items.some(({ text }) => text.includes("A balloon is red")));
  assertProblem(await eve.post(CONTEXT, { roomId, query: "balloon" }), 404, "not_found");
  const unscoped = await gateway.as("alice", { scope: "memory.read room.read" });
  const { items } = await assemble(unscoped, { roomId: secret, query: "balloon" });
  assert.ok(!items.some(({ source }) => source?.type === "message"), "messages need their scope");
});

testOnEngines("what an agent reads in a room is what all of its members may read", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  const boss = await gateway.as("boss", { role: "admin" });
  for (const who of [robo, boss]) ok(await who.get("/v1/collaboration/me"));
  const shared = await createRoom(alice, ["bob", "robo"], { name: "Shared" });
  const owners = await createRoom(alice, ["carol", "robo"], { name: "Owners" });
  const both = await createRoom(alice, ["bob", "carol", "robo"], { name: "Both" });
  const direct = ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: ["robo"] })).id;
  const inOwners = await sendMessage(alice, owners, "The parrot budget is five");
  const inBoth = await sendMessage(alice, both, "The parrot eats nuts");
  const agent = { type: "agent", id: "robo" } as const;
  await remember(alice, agent, "Parrot fact of the owners", { sourceMessageIds: [inOwners.id] });
  await remember(alice, agent, "Parrot fact of both rooms", { sourceMessageIds: [inBoth.id] });
  await remember(alice, { type: "principal" }, "Parrot fact of alice alone", { pinned: true });
  await remember(boss, { type: "tenant" }, "Parrot fact of the tenant", { pinned: true });
  await remember(alice, inRoom(owners), "Parrot fact in the room of the owners");
  const parrots = async (who: Caller, input: Record<string, unknown>) => {
    const { items } = await assemble(who, { query: "Tell me about the parrot", ...input });
    return items.filter(({ text }) => /parrot/i.test(text)).map(({ text }) => text.replace(/^\[.*?\] /, "")).sort();
  };
  const all = ["Parrot fact of both rooms", "Parrot fact of the tenant", "The parrot eats nuts"];
  assert.deepEqual(await parrots(robo, { roomId: shared }), all);
  assert.deepEqual(await parrots(robo, { roomId: both }), all, "carol sees both, bob does not see the owners' room");
  const alone = [
    "Parrot fact in the room of the owners",
    "Parrot fact of alice alone",
    "Parrot fact of the owners",
    "The parrot budget is five",
  ];
  assert.deepEqual(await parrots(robo, { roomId: direct }), [...alone, ...all].sort(), "alice alone reads it");
  assert.deepEqual(
    await parrots(alice, { roomId: shared }),
    [...alone, ...all].sort(),
    "a person is told all it may read",
  );
  assert.deepEqual(await parrots(alice, { roomId: shared, audienceIds: ["alice", "bob"] }), all);
  assert.deepEqual(await parrots(alice, { roomId: shared, audienceIds: ["nobody"] }), []);
  assert.deepEqual(await parrots(alice, { audienceIds: ["carol"] }), [
    "Parrot fact in the room of the owners",
    "Parrot fact of both rooms",
    "Parrot fact of the owners",
    "Parrot fact of the tenant",
    "The parrot budget is five",
    "The parrot eats nuts",
  ]);
  await createCaller(gateway, "gus", { role: "guest" });
  ok(await alice.put(`/v1/rooms/${shared}/members/gus`));
  assert.deepEqual(await parrots(robo, { roomId: shared }), [], "a guest is in none of the other rooms");
  void [bob, carol];
});

testOnEngines("hidden history of one reader is hidden from the context of an agent", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "alice" });
  const roomId = await createRoom(alice, ["robo"], { historyVisibility: "joined" });
  const root = await sendMessage(alice, roomId, "Secrets of otters");
  await remember(alice, inRoom(roomId), "Otters are secret", { sourceMessageIds: [root.id], pinned: true });
  const ask = async (who: Caller) =>
    (await assemble(who, { roomId, query: "otters" })).items.filter(({ text }) => /otter/i.test(text)).length;
  assert.deepEqual([await ask(alice), await ask(robo)], [2, 2]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  assert.deepEqual([await ask(alice), await ask(robo), await ask(bob)], [2, 0, 0]);
  await sendMessage(alice, roomId, "Otters again", { threadId: root.id });
  assert.deepEqual([await ask(robo), await ask(bob)], [1, 1]);
});

testOnEngines("with its source deleted, a fact is in no context", async (engine) => {
  await using gateway = await openGateway(engine);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { id } = await sendMessage(alice, roomId, "The heron is grey");
  await remember(alice, inRoom(roomId), "Herons are grey", { sourceMessageIds: [id], pinned: true });
  const ask = async () => (await assemble(alice, { roomId, query: "which colour has a heron" })).items.length;
  assert.equal(await ask(), 3);
  ok(await alice.delete(`/v1/messages/${id}`));
  assert.equal(await ask(), 1, "the room alone");
  await gateway.runJobs();
  assert.equal(await ask(), 1);
});

Deno.test("a context never has more tokens than its budget, whatever there is", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"], { topic: "t".repeat(200), description: "word ".repeat(300) });
  const texts = [
    "short",
    "word ".repeat(400),
    "漢字".repeat(500),
    "🦜".repeat(300),
    "x".repeat(9000),
    '{"a":[1,2]}'.repeat(90),
  ];
  const root = await sendMessage(alice, roomId, texts[1] ?? "");
  for (const [at, text] of texts.entries()) {
    await sendMessage(at % 2 === 0 ? alice : bob, roomId, text);
    await sendMessage(bob, roomId, text, { threadId: root.id });
    await remember(alice, inRoom(roomId), `${at} ${text.slice(0, 3900)}`, { pinned: at % 2 === 0 });
  }
  const text = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 400 }),
    fc.constantFrom(...texts).map((one) => one.repeat(3).slice(0, 30_000)),
  ).map((one) => one.replaceAll("\0", "").toWellFormed());
  const tool = fc.record({
    name: fc.constantFrom("one", "two"),
    description: text.map((one) => one.slice(0, 2000)),
    inputSchema: fc.constantFrom({}, { type: "object", title: "t".repeat(1500) }),
  });
  const input = fc.record({
    budgetTokens: fc.integer({ min: 256, max: 6000 }),
    instructions: fc.option(text, { nil: undefined }),
    tools: fc.option(fc.array(tool, { maxLength: 8 }), { nil: undefined }),
    query: fc.option(fc.constantFrom("word", "x 漢字 parrot", "a?"), { nil: undefined }),
    threadId: fc.option(fc.constant(root.id), { nil: undefined }),
    roomId: fc.constant(roomId),
  });
  await fc.assert(
    fc.asyncProperty(input, async (one) => {
      const { items, usedTokens, prefixItemCount } = await assemble(alice, one);
      const counted = items.reduce((sum, item) => sum + estimateTokens(item.text) + 4, 0);
      assert.equal(usedTokens, counted);
      assert.ok(usedTokens <= one.budgetTokens, `${usedTokens} of ${one.budgetTokens}`);
      assert.ok(items.length > 0);
      assert.equal(
        items.findIndex(({ section }) => !["instructions", "tools", "pinned"].includes(section)),
        prefixItemCount < items.length ? prefixItemCount : -1,
      );
    }),
    { numRuns: 60 },
  );
});

Deno.test("unused shares flow on: a small conversation leaves its tokens to facts", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  for (let n = 0; n < 12; n++) await remember(alice, inRoom(roomId), `Fact ${n} about geese ${"honk ".repeat(20)}`);
  const budgetTokens = 1000;
  const { items, omitted } = await assemble(alice, { roomId, query: "geese", budgetTokens });
  const facts = items.filter(({ section }) => section === "memory");
  const tokens = facts.reduce((sum, item) => sum + item.tokens, 0);
  assert.ok(tokens > budgetTokens * 0.15 * 2, `${tokens} tokens of facts, whose own share is 150`);
  assert.equal(facts.length + (omitted["memory"] ?? 0), 12);
});

Deno.test("without search, a context has recent facts", async () => {
  await using gateway = await openGateway({ SVC_SEARCH: "off" });
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  await remember(alice, inRoom(roomId), "Geese fly south");
  const context = await assemble(alice, { roomId, query: "Where do geese fly?" });
  assert.deepEqual(context.items.map(({ section, reason }) => [section, reason]), [
    ["room", "the room of the conversation"],
    ["memory", "recent fact of the room"],
  ]);
  assert.equal(context.degraded, false);
});
