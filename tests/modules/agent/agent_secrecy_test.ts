// Who reads what a run says and has read: not those who left, nor those who cannot see all that it has read.
import assert from "node:assert/strict";
import type { Kysely } from "kysely";
import type { AgentTables } from "@/modules/agent/tables.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { startRedis } from "../../conformance/redis_server.ts";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { FakeSocket, pushesOn, sendCommand } from "../../transport/ws_harness.ts";
import { eventually, until } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { assertProblem, createCaller, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const AI = { SVC_AI_BASE_URL: "http://models.test/v1", SVC_AI_MODEL: "small" };
const RUNS = "/v1/collaboration/ai/runs";
const TOOLS = { tools: ["message.*", "task.create"], askFirst: ["task.create"] };

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

/** A room that bob and the agent are in, with a secret. */
async function openBoard({ alice, agentId }: AgentFixture): Promise<string> {
  const board = await createRoom(alice, ["bob", agentId], { name: "Board" });
  await sendMessage(alice, board, "The secret is swordfish");
  return board;
}

/** Carol joins the agent's room, or another one. */
async function joinCarol(
  { alice, gateway, roomId: own }: AgentFixture,
  { roomId = own, role }: { roomId?: string; role?: string } = {},
): Promise<Caller> {
  const carol = await createCaller(gateway, "carol");
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`, role === undefined ? undefined : { role }));
  return carol;
}

/** Bob asks the agent, which has read the board by now, and says what it contains once the returned function is called. */
async function askAboutBoard(fixture: AgentFixture, board: string): Promise<() => void> {
  const gate = Promise.withResolvers<void>();
  fixture.answer(({ number }) =>
    number === 1
      ? callTools(["message_list", { roomId: board }])
      : { parts: ["It is ", () => gate.promise, "swordfish"] }
  );
  await fixture.mention(fixture.bob, "What is new?");
  await until(() => fixture.models.calls.length === 2);
  return gate.resolve;
}

/** Subscribes to a run on `/ws`; resolves to the socket, or to the error of the subscription. */
async function watch({ gateway }: Pick<AgentFixture, "gateway">, who: Caller, runId: string) {
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  assert.ok((await sendCommand(peer, 1, { connect: { token: who.token } })).connect);
  const { error } = await sendCommand(peer, 2, { subscribe: { channel: `run:${runId}` } });
  return { socket, error, close: () => peer.connection.onSocketClosed() };
}

/** Opens the stream of a run. What arrives is appended to `text`. */
async function openStream(who: Caller, runId: string) {
  const response = await who.open(`${RUNS}/${runId}/stream`);
  const stream = { status: response.status, text: "", ended: Promise.resolve() };
  stream.ended = (async () => {
    for await (const chunk of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
      stream.text += chunk;
    }
  })();
  return stream;
}

testOnEngines("who is removed from the room receives nothing more of its runs", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: ["Before ", () => gate.promise, "after"] }), {
    environment,
  });
  const { alice, bob, roomId } = fixture;
  await fixture.mention(alice, "Go");
  const { id } = await fixture.settled("running");
  const watchers = [await watch(fixture, alice, id), await watch(fixture, bob, id)];
  const [stays, leaves] = [await openStream(alice, id), await openStream(bob, id)];
  await eventually(() => assert.match(leaves.text, /Before/));
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  gate.resolve();
  await Promise.all([stays.ended, leaves.ended]);
  assert.match(stays.text, /after/);
  assert.doesNotMatch(leaves.text, /after/);
  const [own, other] = watchers;
  await eventually(() => assert.match(own === undefined ? "" : textOn(own.socket, id), /after/));
  assert.doesNotMatch(other === undefined ? "" : textOn(other.socket, id), /after/);
  await eventually(() => assert.match(other?.socket.frames.join("") ?? "", /"unsubscribe"/));
  for (const { close } of watchers) close();
});

/** The text that a socket has received of a run. */
function textOn(socket: FakeSocket, runId: string): string {
  return pushesOn(socket, `run:${runId}`).map(({ data }: Body) => data.data.text ?? "").join("");
}

testOnEngines("who loses a room that a run has read receives nothing more of the run", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const { alice, bob, agentId } = fixture;
  const board = await openBoard(fixture);
  const open = await createRoom(alice, [agentId], { visibility: "public" });
  const losses: [string, () => ReturnType<Caller["get"]>][] = [
    [board, () => alice.delete(`/v1/rooms/${board}/members/bob`)],
    [open, () => alice.patch(`/v1/rooms/${open}`, { visibility: "private" })],
  ];
  for (const [n, [roomId, lose]] of losses.entries()) {
    fixture.models.calls.length = 0;
    const answer = await askAboutBoard(fixture, roomId);
    const { id } = await fixture.settled("running", n + 1);
    const [own, other] = [await watch(fixture, alice, id), await watch(fixture, bob, id)];
    const [stays, leaves] = [await openStream(alice, id), await openStream(bob, id)];
    await eventually(() => assert.match(leaves.text, /It is/));
    ok(await lose());
    // A change of the room itself ends all subscriptions; who still sees it subscribes again.
    const again = await watch(fixture, alice, id);
    assert.equal(again.error, undefined);
    answer();
    await Promise.all([stays.ended, leaves.ended]);
    const reading = roomId === board ? [own, again] : [again];
    await eventually(() => {
      for (const { socket } of reading) assert.match(textOn(socket, id), /swordfish/);
    });
    assert.match(stays.text, /"delta":"swordfish"/);
    assert.doesNotMatch(leaves.text, /"delta":"swordfish"/);
    assert.doesNotMatch(textOn(other.socket, id), /swordfish/);
    await until(() => pushesOn(other.socket, `run:${id}`, "unsubscribe").length > 0);
    assert.equal(pushesOn(other.socket, `run:${id}`, "unsubscribe")[0].code, 2500);
    const refused = await watch(fixture, bob, id);
    assert.equal(refused.error?.code, 103);
    for (const { close } of [own, other, again, refused]) close();
    await fixture.settled("failed", n + 1);
  }
});

testOnPostgres("who loses such a room by another node receives nothing more of the run", async (environment) => {
  await using redis = await startRedis();
  const shared = { ...environment, SVC_REDIS_URL: redis.url };
  await using fixture = await AgentFixture.open(undefined, { environment: shared, agent: TOOLS });
  const { alice, bob, models } = fixture;
  await using elsewhere = await openGateway({ ...AI, ...shared }, { models });
  const board = await openBoard(fixture);
  const answer = await askAboutBoard(fixture, board);
  const { id } = await fixture.settled("running");
  const [stays, leaves] = [
    await watch({ gateway: elsewhere }, alice, id),
    await watch({ gateway: elsewhere }, bob, id),
  ];
  ok(await alice.delete(`/v1/rooms/${board}/members/bob`));
  await until(() => pushesOn(leaves.socket, `run:${id}`, "unsubscribe").length > 0);
  answer();
  await until(() => /swordfish/.test(textOn(stays.socket, id)));
  assert.doesNotMatch(textOn(leaves.socket, id), /swordfish/);
  for (const { close } of [stays, leaves]) close();
  await fixture.settled("failed");
});

Deno.test("a stream ends with the token that opened it", async () => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: ["Before ", () => gate.promise, "after"] }));
  const { alice, bob, gateway } = fixture;
  await fixture.mention(alice, "Go");
  const { id } = await fixture.settled("running");
  const leaves = await openStream(bob, id);
  await eventually(() => assert.match(leaves.text, /Before/));
  const admin = await gateway.as("root", { role: "admin" });
  ok(await admin.delete("/v1/collaboration/principals/bob"));
  gate.resolve();
  await leaves.ended;
  assert.doesNotMatch(leaves.text, /after/);
});

testOnEngines("texts of a run are for those who can see all that it read", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const { alice, bob, roomId } = fixture;
  const board = await openBoard(fixture);
  fixture.answer(({ number }) =>
    number === 1
      ? callTools(["message_list", { roomId: board }])
      : callTools(["task_create", { roomId, title: "swordfish" }])
  );
  await fixture.mention(bob, "What is new?");
  const { id } = await fixture.settled("waiting_approval");
  const carol = await joinCarol(fixture, { role: "moderator" });
  const approvals = `/v1/collaboration/ai/approvals?roomId=${roomId}`;
  const seen = async (who: Caller) =>
    JSON.stringify([
      ok(await who.get(`${RUNS}/${id}`)),
      ok(await who.get(`${RUNS}?roomId=${roomId}`)),
      ok(await who.get(approvals)),
      ok(await who.get("/v1/collaboration/ai/approvals")),
    ]);
  assert.match(await seen(bob), /The secret is swordfish.*title.*swordfish/);
  assert.doesNotMatch(await seen(carol), /swordfish/);
  assert.equal((await openStream(carol, id)).status, 403);
  const refused = await watch(fixture, carol, id);
  assert.ok(refused.error);
  refused.close();
  const [approval] = ok(await carol.get(approvals)).items;
  const decide = (who: Caller) =>
    who.post(`/v1/collaboration/ai/approvals/${approval.id}/decision`, { decision: "deny" });
  assertProblem(await decide(carol), 403, "forbidden");
  // Neither the run nor its approvals are for those who joined after its question, if its room says so.
  ok(await alice.patch(`/v1/rooms/${roomId}`, { historyVisibility: "joined" }));
  for (const query of ["", `?roomId=${roomId}`]) {
    const idsFor = async (who: Caller) =>
      ok(await who.get(`/v1/collaboration/ai/approvals${query}`)).items.map((one: { id: string }) => one.id);
    assert.deepEqual([await idsFor(bob), await idsFor(carol)], [[approval.id], []]);
  }
  fixture.answer(() => "Done");
  ok(await decide(bob));
});

testOnEngines(
  "texts of a run are not for those who joined a room that it read after what it read there",
  async (environment) => {
    await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
    const { alice, bob, roomId } = fixture;
    const board = await openBoard(fixture);
    ok(await alice.patch(`/v1/rooms/${board}`, { historyVisibility: "joined" }));
    fixture.answer(({ number }) => number % 2 === 1 ? callTools(["message_list", { roomId: board }]) : "");
    await fixture.mention(bob, "What is new?");
    const before = await fixture.settled();
    await joinCarol(fixture);
    const carol = await joinCarol(fixture, { roomId: board });
    const textsOf = async (who: Caller, id: string): Promise<string> =>
      JSON.stringify([ok(await who.get(`${RUNS}/${id}`)), ok(await who.get(`${RUNS}?roomId=${roomId}`))]);
    assert.match(await textsOf(bob, before.id), /swordfish/);
    assert.doesNotMatch(await textsOf(carol, before.id), /swordfish/);
    // Of what the agent reads from now on, she may read everything.
    await sendMessage(alice, board, "The new one is halibut");
    await fixture.mention(bob, "And now?");
    const after = await fixture.settled("succeeded", 2);
    for (const who of [bob, carol]) assert.match(await textsOf(who, after.id), /halibut/);
    assert.doesNotMatch(await textsOf(carol, after.id), /swordfish/);
  },
);

testOnEngines(
  "an agent finds and lists nothing that was said before one of its readers joined",
  async (environment) => {
    await using fixture = await AgentFixture.open(undefined, {
      environment: { ...environment, SVC_AI_EMBEDDING_MODEL: "embedder" },
      agent: { tools: ["message.list", "search.query", "room.list", "room.read"] },
    });
    const { alice, bob, roomId } = fixture;
    ok(await alice.patch(`/v1/rooms/${roomId}`, { historyVisibility: "joined" }));
    await sendMessage(alice, roomId, "The secret is swordfish");
    await fixture.gateway.runJobs();
    const carol = await joinCarol(fixture);
    const calls: [string, unknown][] = [
      ["search_query", { q: "secret", mode: "keyword" }],
      ["search_query", { q: "secret", mode: "semantic" }],
      ["search_query", { q: "what is the secret" }],
      ["search_query", { q: "secret", sort: "recent", roomId: [roomId], context: 2 }],
      ["message_list", {}],
      ["room_list", { include: ["lastMessage"] }],
      ["room_read", { include: ["lastMessage"] }],
    ];
    fixture.answer(({ number }) => number % 2 === 1 ? callTools(...calls) : "Done");
    let count = 0;
    for (const who of [carol, bob]) {
      // On a busy machine a search may take too long, and fails.
      const steps = await eventually(async () => {
        // What is asked matches the secret, which would be background of the context.
        ok(await who.post(RUNS, { roomId, agentId: fixture.agentId, input: "what is the secret" }));
        const { steps } = await fixture.settled("succeeded", ++count);
        const results = steps.filter(({ kind }: Body) => kind === "tool");
        assert.deepEqual(
          results.map(({ status }: Body) => status),
          calls.map(() => "succeeded"),
          JSON.stringify(results),
        );
        return steps;
      });
      assert.doesNotMatch(JSON.stringify([steps, fixture.models.calls]), /swordfish/);
    }
    // What comes later is for all of them.
    await sendMessage(alice, roomId, "Another secret: halibut");
    ok(await carol.post(RUNS, { roomId, agentId: fixture.agentId, input: "what is the secret" }));
    const { steps } = await fixture.settled("succeeded", ++count);
    const results = steps.filter(({ kind }: Body) => kind === "tool").map(({ result }: Body) => result);
    // A search may be incomplete.
    for (const result of results.slice(4)) assert.match(result, /halibut/);
    assert.doesNotMatch(JSON.stringify([steps, fixture.models.calls]), /swordfish/);
  },
);

testOnEngines("nothing is posted from messages that a person who joined meanwhile cannot read", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const { alice } = fixture;
  const board = await openBoard(fixture);
  ok(await alice.patch(`/v1/rooms/${board}`, { historyVisibility: "joined" }));
  const answer = await askAboutBoard(fixture, board);
  await joinCarol(fixture, { roomId: board });
  await joinCarol(fixture);
  answer();
  assert.equal((await fixture.settled("failed")).error.code, "forbidden");
  assert.doesNotMatch(JSON.stringify(await fixture.messages()), /swordfish/);
});

testOnEngines("nothing is asked that a person who joined meanwhile may not see", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const { bob, roomId } = fixture;
  const board = await openBoard(fixture);
  fixture.answer(async ({ number }) => {
    if (number === 1) return callTools(["message_list", { roomId: board }]);
    await gate.promise;
    return number === 2 ? callTools(["ask_user", { question: "Is it swordfish?" }]) : "";
  });
  await fixture.mention(bob, "What is new?");
  await until(() => fixture.models.calls.length === 2);
  const carol = await joinCarol(fixture);
  gate.resolve();
  await fixture.settled();
  assert.match(fixture.models.calls.at(-1)?.request.messages.at(-1)?.role ?? "", /tool/);
  assert.doesNotMatch(JSON.stringify(await readRoomEvents(carol, roomId)), /swordfish/);
});

testOnEngines("nothing is posted that a person who joined meanwhile may not see", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const board = await openBoard(fixture);
  const answer = await askAboutBoard(fixture, board);
  await joinCarol(fixture);
  answer();
  const run = await fixture.settled("failed");
  assert.equal(run.error.code, "forbidden");
  assert.match(run.text, /swordfish/, "who may see it still reads it in the run");
  assert.doesNotMatch(JSON.stringify(await fixture.messages()), /swordfish/);
});

testOnEngines("in a public room, an agent reads what everybody may read", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const { alice, bob, agentId } = fixture;
  const open = await createRoom(alice, ["bob", agentId], { name: "Open", visibility: "public" });
  const other = await createRoom(alice, ["bob", agentId], { name: "Other", visibility: "public" });
  await sendMessage(alice, other, "The herring is red");
  await sendMessage(alice, fixture.roomId, "The secret is swordfish");
  const calls = [fixture.roomId, other, open].map((roomId): [string, unknown] => ["message_list", { roomId }]);
  fixture.answer(({ number }) => number === 1 ? callTools(...calls) : "Done");
  await fixture.mention(bob, "What is new?", { roomId: open });
  await fixture.settled("succeeded", 1, open);
  const read = JSON.stringify(fixture.models.calls.map(({ request }) => request.messages));
  assert.doesNotMatch(read, /swordfish/);
  assert.match(read, /herring/);
});

testOnEngines("what is private to the owner of an agent is not read in a public room", async (environment) => {
  await using fixture = await AgentFixture.open(() => "Done", {
    environment,
    agent: { memoryScopes: ["principal"] },
  });
  const { alice, agentId } = fixture;
  ok(
    await alice.post("/v1/collaboration/memory/items", {
      scope: { type: "principal", id: "me" },
      text: "My secret is swordfish",
      pinned: true,
    }),
  );
  for (const visibility of ["private", "public"]) {
    const roomId = await createRoom(alice, [agentId], { visibility });
    await fixture.mention(alice, "What is my secret?", { roomId });
    await fixture.settled("succeeded", 1, roomId);
    const asked = JSON.stringify(fixture.models.calls.at(-1)?.request.messages);
    assert.equal(/swordfish/.test(asked), visibility === "private", visibility);
  }
});

testOnEngines("a run that an earlier version began keeps its texts and continues", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: TOOLS });
  const { alice, bob, gateway } = fixture;
  const board = await openBoard(fixture);
  fixture.answer(({ number }) =>
    number === 1
      ? callTools(["message_list", { roomId: board }])
      : number === 2
      ? callTools(["task_create", { roomId: board, title: "Ask the board" }])
      : "Done"
  );
  await fixture.mention(bob, "What is new?");
  const { id } = await fixture.settled("waiting_approval");
  // Versions before this one stored the rooms alone, not from which message on they were read.
  const read_rooms_json = JSON.stringify([fixture.roomId, board]);
  await gateway.app.store.write(async (tx) => {
    await (tx.db as unknown as Kysely<AgentTables>).updateTable("agent_run").set({ read_rooms_json }).execute();
  });
  const hasTexts = async (who: Caller): Promise<boolean> =>
    /swordfish/.test(JSON.stringify(ok(await who.get(`${RUNS}/${id}`))));
  assert.equal(await hasTexts(bob), true);
  const [approval] = ok(await bob.get(`/v1/collaboration/ai/approvals?roomId=${fixture.roomId}`)).items;
  ok(await bob.post(`/v1/collaboration/ai/approvals/${approval.id}/decision`, { decision: "approve" }));
  await gateway.runJobs();
  await fixture.settled();
  assert.deepEqual([await hasTexts(alice), await hasTexts(await joinCarol(fixture))], [true, false]);
});
