// Commands: what a room offers, who may run what, and the responses.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { FIELDS, ScriptedCommands } from "./command_fixture.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, readTexts } from "../fixtures.ts";

const COMMANDS = "/v1/collaboration/commands";
const INTERACTIONS = "/v1/collaboration/interactions";

type Fixture = AsyncDisposable & {
  gateway: Harness;
  alice: Caller;
  robot: Caller;
  roomId: string;
  commands: ScriptedCommands;
  run: (body: Record<string, unknown>, who?: Caller) => ReturnType<Caller["post"]>;
};

async function openFixture(
  environment: Record<string, string> = {},
  commands = new ScriptedCommands("toy", { name: "poll", fields: FIELDS }, { name: "kick", least: "moderator" }),
  ...others: ScriptedCommands[]
): Promise<Fixture> {
  const modules = [commands, ...others].map((source) => () => source.module());
  const gateway = await openGateway(environment, { modules });
  const { alice } = await createCallers(gateway, "alice", "bob");
  const robot = await createCaller(gateway, "robot", { kind: "service" });
  const roomId = await createRoom(alice, ["bob", "robot"]);
  return {
    gateway,
    alice,
    robot,
    roomId,
    commands,
    run: (body, who = alice) => who.post(`${COMMANDS}/run`, { roomId, ...body }),
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

Deno.test("command.list shows the commands that the caller can run in the room", async () => {
  await using fixture = await openFixture();
  const { gateway, alice, roomId } = fixture;
  const bob = await gateway.as("bob");
  const names = async (who: Caller) =>
    ok(await who.get(`${COMMANDS}?roomId=${roomId}`)).items.map((one: { name: string }) => one.name);
  assert.deepEqual(await names(alice), ["kick", "poll"]);
  assert.deepEqual(await names(bob), ["poll"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" }));
  assert.deepEqual(await names(bob), []);
  const carol = await gateway.as("carol");
  assertProblem(await carol.get(`${COMMANDS}?roomId=${roomId}`), 404, "not_found");
});

Deno.test("command.run passes the text, or values that fit the fields", async () => {
  await using fixture = await openFixture();
  const { commands, run, gateway } = fixture;
  assert.deepEqual(ok(await run({ text: "  /POLL  Lunch at noon? " })).response, {
    kind: "ephemeral",
    text: "alice: Lunch at noon?",
    format: "markdown",
  });
  ok(await run({ name: "poll", args: { title: "Lunch", days: 2, loud: true, colour: "red" } }));
  assert.deepEqual(commands.calls.map(({ text, args }) => ({ text, args })), [
    { text: "Lunch at noon?", args: {} },
    { text: "", args: { title: "Lunch", days: 2, loud: true, colour: "red" } },
  ]);
  const bad: [Record<string, unknown>, string[]][] = [
    [{}, ["/args/title"]],
    [{ title: "x".repeat(21), days: 9 }, ["/args/title", "/args/days"]],
    [{ title: "a", loud: "yes", colour: "green" }, ["/args/loud", "/args/colour"]],
    [{ title: 1, other: 2 }, ["/args/other", "/args/title"]],
  ];
  for (const [args, pointers] of bad) {
    const refused = await run({ name: "poll", args });
    assertProblem(refused, 422, "validation_failed");
    assert.deepEqual(refused.body.errors.map((error: { pointer: string }) => error.pointer), pointers);
  }
  for (const text of ["poll", "/", "/Ünfug", "/po!l", `/${"a".repeat(33)}`]) {
    assertProblem(await run({ text }), 422, "validation_failed");
  }
  assertProblem(await run({ text: "/nothing" }), 404, "not_found");
  assertProblem(await run({ text: "/kick" }, await gateway.as("bob")), 403, "forbidden");
  assertProblem(await run({ text: "/poll", name: "poll" }), 422, "validation_failed");
  assert.equal(commands.calls.length, 2);
});

Deno.test("command.run refuses an Idempotency-Key, as it takes a clientMessageId", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const key = { "Idempotency-Key": "once" };
  const run = await alice.call("POST", "/v1/collaboration/commands/run", { roomId: "room_1", text: "/x" }, key);
  assertProblem(run, 400, "bad_request");
  assert.match(run.body.detail, /clientMessageId instead/);
});

Deno.test("command.run asks for the source where two offer one name", async () => {
  const other = new ScriptedCommands("other", { name: "poll" });
  await using fixture = await openFixture({}, undefined, other);
  const { alice, run, roomId } = fixture;
  const refused = await run({ text: "/poll x" });
  assertProblem(refused, 409, "command_ambiguous");
  assert.match(refused.body.detail, /other:one, toy:one/);
  ok(await run({ text: "/poll x", source: "other:one" }));
  assert.equal(other.calls.length, 1);
  const { items } = ok(await alice.get(`${COMMANDS}?roomId=${roomId}`));
  assert.deepEqual(
    items.map((one: Record<string, unknown>) => [one["name"], one["source"], one["ambiguous"]]),
    [["kick", "toy:one", false], ["poll", "other:one", true], ["poll", "toy:one", true]],
  );
});

Deno.test("command.run refuses a muted agent, an archived room and a token without the scope", async () => {
  await using fixture = await openFixture();
  const { gateway, alice, roomId, run } = fixture;
  const agent = await createCaller(gateway, "helper", { kind: "agent", owner: "alice" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/helper`, { role: "member" }));
  ok(await run({ text: "/poll x" }, agent));
  ok(await alice.patch(`/v1/rooms/${roomId}`, { agentPolicy: { mode: "off" } }));
  assertProblem(await run({ text: "/poll x" }, agent), 403, "agent_muted");
  const scoped = await gateway.as("alice", { scope: "message.write room.read" });
  assertProblem(await run({ text: "/poll x" }, scoped), 403, "scope_missing");
  ok(await alice.patch(`/v1/rooms/${roomId}`, { state: "archived" }));
  assertProblem(await run({ text: "/poll x" }), 409, "room_archived");
});

testOnEngines(
  "a response of kind message is sent by the responder, in the thread of the command",
  async (environment) => {
    await using fixture = await openFixture(environment);
    const { alice, roomId, run, commands } = fixture;
    const root = ok(await alice.post("/v1/messages", { roomId, text: "Root" })).id;
    commands.respond = ({ text }) => ({ kind: "message", text: `Poll: ${text}` });
    const { response } = ok(await run({ text: "/poll Lunch?", threadId: root, clientMessageId: "one" }));
    const message = ok(await alice.get(`/v1/messages/${response.messageId}`));
    assert.deepEqual([message.senderId, message.threadId, message.text], ["robot", root, "Poll: Lunch?"]);
    // Repeated, it returns the same and calls nothing.
    const again = ok(await run({ text: "/poll Lunch?", threadId: root, clientMessageId: "one" }));
    assert.deepEqual(again.response, response);
    assert.equal(commands.calls.length, 1);
    assertProblem(await run({ text: "/poll Dinner?", clientMessageId: "one" }), 409, "client_message_id_conflict");
    assertProblem(await run({ text: "/poll x", threadId: response.messageId }), 422, "validation_failed");
    // What may not write in the room cannot respond there.
    ok(await alice.delete(`/v1/rooms/${roomId}/members/robot`));
    assertProblem(await run({ text: "/poll x", clientMessageId: "two" }), 502, "command_failed");
    assertProblem(await run({ text: "/poll x", clientMessageId: "two" }), 502, "command_failed");
    assert.equal(commands.calls.length, 3);
  },
);

testOnEngines(
  "a command that is accepted has its response later, once, by its responder alone",
  async (environment) => {
    await using fixture = await openFixture(environment);
    const { gateway, alice, robot, roomId, run, commands } = fixture;
    commands.respond = () => ({ kind: "accepted" });
    const answer = await run({ text: "/poll Lunch?" });
    assert.equal(answer.status, 202);
    const { id, response } = answer.body;
    assert.deepEqual(response, { kind: "accepted", expiresAt: "2026-03-01T12:15:00.000Z" });
    const path = `${INTERACTIONS}/${id}/response`;
    const body = { response: { kind: "message", text: "Noodles" } };
    assertProblem(await alice.post(path, body), 404, "not_found");
    const delivered = ok(await robot.post(path, body));
    assertProblem(await robot.post(path, body), 409, "conflict");
    const [stored] = await gateway.app.store.log.readBackward("default", "principal:alice", 1e9, 1);
    assert.equal(stored?.type, "interaction.responded");
    assert.deepEqual(JSON.parse(stored?.json ?? "").data, {
      id,
      kind: "command",
      roomId,
      name: "poll",
      messageId: null,
      response: delivered,
    });
    assert.equal(ok(await alice.get(`/v1/messages/${delivered.messageId}`)).text, "Noodles");
    // Too late.
    const { id: other } = (await run({ text: "/poll Dinner?" })).body;
    gateway.clock.advance(15 * 60_000);
    assertProblem(await robot.post(`${INTERACTIONS}/${other}/response`, body), 410, "gone");
  },
);

testOnEngines("a repeat waits for the first call, and calls again if that one was lost", async (environment) => {
  await using fixture = await openFixture(environment);
  const { gateway, alice, roomId, run, commands } = fixture;
  const body = { text: "/poll Lunch?", clientMessageId: "one" };
  // The first runs still.
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  commands.respond = async ({ id }) => {
    await held;
    return { kind: "message", text: id };
  };
  const first = run(body);
  await until(() => commands.calls.length === 1);
  const second = run(body);
  release();
  const { id, response } = ok(await first);
  assert.deepEqual(ok(await second), { id, response });
  assert.equal(commands.calls.length, 1);

  // The first fails meanwhile: the repeat is the first then.
  const { promise: failing, reject: fail } = Promise.withResolvers<never>();
  commands.respond = () => failing;
  const failed = run({ ...body, clientMessageId: "two" });
  await until(() => commands.calls.length === 2);
  commands.respond = () => ({ kind: "ephemeral", text: "Second" });
  const repeated = run({ ...body, clientMessageId: "two" });
  fail(new Fault("command_failed", "No"));
  assertProblem(await failed, 502, "command_failed");
  assert.equal(ok(await repeated).response.text, "Second");

  // The node of the first ended: the clock says that it must have, whatever it does.
  const { promise: lost, resolve: wakeUp } = Promise.withResolvers<void>();
  commands.respond = async () => {
    await lost;
    return { kind: "message", text: "First" };
  };
  const silent = run({ ...body, clientMessageId: "three" });
  await until(() => commands.calls.length === 4);
  gateway.clock.advance(16_000);
  commands.respond = () => ({ kind: "message", text: "Again" });
  const again = ok(await run({ ...body, clientMessageId: "three" }));
  const [before, after] = commands.calls.slice(-2);
  assert.equal(before?.id, after?.id, "what is called twice has one id");
  wakeUp();
  // It was not dead, only slow: it returns what was delivered, and delivers nothing more.
  assert.deepEqual(ok(await silent), again);
  assert.deepEqual((await readTexts(alice, roomId)).toSorted(), ["Again", id].toSorted());
});

Deno.test("a command that fails or says nothing is an error of the command, and can be run again", async () => {
  await using fixture = await openFixture();
  const { gateway, run, commands } = fixture;
  const fails: [() => never, number, string][] = [
    [
      () => {
        throw new Fault("unavailable", "Try later");
      },
      503,
      "unavailable",
    ],
    [
      () => {
        throw new Error("secret of the source");
      },
      500,
      "internal",
    ],
  ];
  for (const [fail, status, code] of fails) {
    commands.respond = fail;
    const refused = await run({ text: "/poll x", clientMessageId: "same" });
    assertProblem(refused, status, code);
    assert.doesNotMatch(JSON.stringify(refused.body), /secret/);
  }
  commands.respond = () => ({ kind: "ephemeral", text: "Done" });
  assert.equal(ok(await run({ text: "/poll x", clientMessageId: "same" })).response.text, "Done");
  const metrics = await gateway.app.fetchMetrics(new Request("http://gateway.test/metrics"));
  const text = await metrics.text();
  assert.match(text, /svc_interactions_total\{source="toy",outcome="ephemeral"\} 1/);
  assert.match(text, /svc_interactions_total\{source="toy",outcome="unavailable"\} 1/);
});

Deno.test("interactions are deleted a day after their time, and not before", async () => {
  await using fixture = await openFixture();
  const { gateway, run } = fixture;
  const { id } = ok(await run({ text: "/poll x", clientMessageId: "a" }));
  assert.equal(ok(await run({ text: "/poll x", clientMessageId: "a" })).id, id);
  gateway.clock.advance(25 * 60 * 60_000);
  await gateway.app.runMaintenance();
  const later = await gateway.as("alice");
  assert.notEqual(ok(await run({ text: "/poll x", clientMessageId: "a" }, later)).id, id);
});
