// Elements of messages: buttons, selects, links and forms, and the actions that they invoke.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import {
  assertProblem,
  createCaller,
  createCallers,
  createRoom,
  ok,
  readRoomEvents,
  sendMessage,
} from "../fixtures.ts";
import { exportTenant, importArchive } from "../transfer/transfer_fixture.ts";

const ELEMENTS = [
  { kind: "button", id: "yes", label: "Yes", style: "primary", value: "y", confirm: "Sure?" },
  {
    kind: "select",
    id: "size",
    label: "Size",
    options: [{ value: "s", label: "Small" }, { value: "l", label: "Large" }],
  },
  { kind: "link", id: "more", label: "More", url: "https://example.com/more" },
  {
    kind: "form",
    id: "order",
    label: "Order",
    submit: "Order",
    fields: [
      { kind: "text", name: "address", label: "Address", required: true, maxLength: 100, multiline: false },
      { kind: "number", name: "count", label: "Count", required: false, min: 1, max: 9 },
    ],
  },
];
const actionPath = (id: string, elementId: string) => `/v1/messages/${id}/elements/${elementId}/action`;

async function openFixture(gateway: Harness): Promise<{ alice: Caller; robot: Caller; roomId: string }> {
  const { alice } = await createCallers(gateway, "alice", "bob");
  const robot = await createCaller(gateway, "robot", { kind: "service" });
  return { alice, robot, roomId: await createRoom(alice, ["bob", "robot"]) };
}

/** The newest event of a principal. */
// deno-lint-ignore no-explicit-any -- data of every shape
async function lastEvent({ app }: Harness, principalId: string): Promise<{ type: string; data: any }> {
  const [event] = await app.store.log.readBackward("default", `principal:${principalId}`, 1e9, 1);
  assert.ok(event);
  return { type: event.type, data: JSON.parse(event.json).data };
}

testOnEngines("elements are stored with a message, changed with it and deleted with it", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, robot, roomId } = await openFixture(gateway);
  const plain = await sendMessage(robot, roomId, "None");
  assert.ok(!("elements" in plain));
  const { id, elements } = await sendMessage(robot, roomId, "Pizza?", { elements: ELEMENTS, clientMessageId: "one" });
  assert.deepEqual(elements, ELEMENTS);
  const again = await sendMessage(robot, roomId, "Pizza?", { elements: ELEMENTS, clientMessageId: "one" });
  assert.deepEqual([again.id, again.elements], [id, ELEMENTS]);
  const read = async () => ok(await alice.get(`/v1/messages/${id}`));
  assert.deepEqual((await read()).elements, ELEMENTS);
  const [button] = ELEMENTS;
  ok(await robot.patch(`/v1/messages/${id}`, { elements: [button] }));
  assert.deepEqual((await read()).elements, [button]);
  const events = async () =>
    (await readRoomEvents(alice, roomId)).filter(({ data }) => JSON.stringify(data).includes(id));
  assert.deepEqual((await events()).at(-1)?.data.changes.elements, [button]);
  ok(await robot.patch(`/v1/messages/${id}`, { elements: [] }));
  assert.deepEqual((await read()).elements, []);
  ok(await robot.patch(`/v1/messages/${id}`, { elements: ELEMENTS }));
  ok(await robot.delete(`/v1/messages/${id}`));
  assert.ok(!("elements" in await read()));
  assert.doesNotMatch(JSON.stringify(await events()), /Pizza|Sure|Small|example\.com/);
});

Deno.test("elements are bounded, and people send links only", async () => {
  await using gateway = await openGateway();
  const { alice, robot, roomId } = await openFixture(gateway);
  const send = (elements: unknown, who = robot) => who.post("/v1/messages", { roomId, text: "x", elements });
  const button = (id: string, more = {}) => ({ kind: "button", id, label: "Go", ...more });
  const field = { kind: "text", name: "a", label: "A" };
  const form = (fields: unknown) => ({ kind: "form", id: "f", label: "F", fields });
  const refused: unknown[] = [
    [button("a"), button("a")],
    Array.from({ length: 21 }, (_, n) => button(`b${n}`)),
    [button("no spaces")],
    [button("a", { label: "x".repeat(81) })],
    [button("a", { onclick: "alert(1)" })],
    [{ kind: "script", id: "a", label: "x" }],
    [{ kind: "link", id: "a", label: "x", url: "javascript:alert(1)" }],
    [{ kind: "link", id: "a", label: "x", url: "data:text/html,x" }],
    [{ kind: "select", id: "a", label: "x", options: [] }],
    [{ kind: "select", id: "a", label: "x", options: [{ value: "1", label: "1" }, { value: "1", label: "2" }] }],
    [form([])],
    [form(Array.from({ length: 11 }, (_, n) => ({ ...field, name: `a${n}` })))],
    [form([field, field])],
    [form([{ ...field, name: "__proto__" }])],
    Array.from({ length: 20 }, (_, n) => button(`b${n}`, { value: "é".repeat(500) })),
    "text",
    { 0: button("a") },
  ];
  for (const elements of refused) {
    const { status } = await send(elements);
    assert.equal(status, 422, JSON.stringify(elements).slice(0, 200));
  }
  ok(await send(Array.from({ length: 20 }, (_, n) => button(`b${n}`))));
  for (const element of ELEMENTS) {
    const { status } = await send([element], alice);
    assert.equal(status, element.kind === "link" ? 201 : 403, element.kind);
  }
  const own = await sendMessage(alice, roomId, "Mine");
  assertProblem(await alice.patch(`/v1/messages/${own.id}`, { elements: [button("a")] }), 403, "forbidden");
});

testOnEngines("action.invoke reaches the sender of the message, which responds", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, robot, roomId } = await openFixture(gateway);
  const { id } = await sendMessage(robot, roomId, "Pizza?", { elements: ELEMENTS });
  const bob = await gateway.as("bob");
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" }));
  const invoked = await bob.post(actionPath(id, "yes"), { clientMessageId: "one" });
  assert.equal(invoked.status, 202);
  const { id: interactionId } = invoked.body;
  assert.equal((await bob.post(actionPath(id, "yes"), { clientMessageId: "one" })).body.id, interactionId);
  const { type, data } = await lastEvent(gateway, "robot");
  assert.equal(type, "action.invoked");
  assert.deepEqual(data, {
    id: interactionId,
    roomId,
    messageId: id,
    elementId: "yes",
    value: "y",
    values: {},
    callerId: "bob",
    expiresAt: "2026-03-01T12:15:00.000Z",
  });
  const response = { kind: "update", text: "Pizza: 1 vote", elements: [] };
  const path = `/v1/collaboration/interactions/${interactionId}/response`;
  assertProblem(await alice.post(path, { response }), 404, "not_found");
  assert.deepEqual(ok(await robot.post(path, { response })), { kind: "message", messageId: id });
  const changed = ok(await alice.get(`/v1/messages/${id}`));
  assert.deepEqual([changed.text, changed.elements], ["Pizza: 1 vote", []]);
  const responded = await lastEvent(gateway, "bob");
  assert.equal(responded.type, "interaction.responded");
  assert.deepEqual(responded.data, {
    id: interactionId,
    kind: "action",
    roomId,
    name: "yes",
    messageId: id,
    response: { kind: "message", messageId: id },
  });
});

Deno.test("action.invoke checks the element, what is sent with it, and who may read the message", async () => {
  await using gateway = await openGateway();
  const { alice, robot, roomId } = await openFixture(gateway);
  const { id } = await sendMessage(robot, roomId, "Pizza?", { elements: ELEMENTS });
  const invoke = (elementId: string, body = {}, who = alice) => who.post(actionPath(id, elementId), body);
  const refused: [string, Record<string, unknown>, number][] = [
    ["nothing", {}, 404],
    ["more", {}, 422],
    ["yes", { value: "n" }, 422],
    ["yes", { values: {} }, 422],
    ["size", {}, 422],
    ["size", { value: "xl" }, 422],
    ["order", {}, 422],
    ["order", { values: { address: "Here", count: 10 } }, 422],
    ["order", { values: { address: "Here", other: 1 } }, 422],
  ];
  for (const [elementId, body, status] of refused) {
    assert.equal((await invoke(elementId, body)).status, status, elementId);
  }
  assert.equal((await invoke("size", { value: "l" })).status, 202);
  assert.equal((await invoke("order", { values: { address: "Here", count: 2 } })).status, 202);
  assert.deepEqual((await lastEvent(gateway, "robot")).data.values, { address: "Here", count: 2 });
  assertProblem(await invoke("yes", {}, await gateway.as("carol")), 404, "not_found");
  const boss = await gateway.as("boss", { role: "owner" });
  ok(await boss.patch("/v1/collaboration/principals/robot", { disabled: true }));
  assertProblem(await invoke("yes"), 410, "gone");
});

testOnEngines("a sender that left the room learns nothing that is entered there", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, robot, roomId } = await openFixture(gateway);
  const helper = await gateway.as("helper", { kind: "agent", owner: "bob" });
  ok(await helper.get("/v1/collaboration/me"));
  const member = (name: string) => `/v1/rooms/${roomId}/members/${name}`;
  ok(await alice.put(member("helper"), {}));
  const messages = [
    await sendMessage(robot, roomId, "Pizza?", { elements: ELEMENTS }),
    await sendMessage(helper, roomId, "Pasta?", { elements: ELEMENTS }),
  ];
  // A public room shows itself to all, but not what somebody enters for one of its members.
  ok(await alice.patch(`/v1/rooms/${roomId}`, { visibility: "public" }));
  // An agent can do what its owner can.
  for (const name of ["robot", "bob"]) ok(await alice.delete(member(name)));
  const before = [await lastEvent(gateway, "robot"), await lastEvent(gateway, "helper")];
  for (const { id } of messages) {
    const values = { address: "Here", count: 2 };
    assertProblem(await alice.post(actionPath(id, "order"), { values }), 410, "gone");
  }
  assert.deepEqual([await lastEvent(gateway, "robot"), await lastEvent(gateway, "helper")], before);
  ok(await alice.put(member("robot"), {}));
  assert.equal((await alice.post(actionPath(messages[0]?.id ?? "", "yes"))).status, 202);
});

Deno.test("elements travel in archives; those that no message can have are left out", async () => {
  await using gateway = await openGateway();
  const { robot, roomId } = await openFixture(gateway);
  await sendMessage(robot, roomId, "Pizza?", { elements: ELEMENTS });
  await sendMessage(robot, roomId, "Broken", {
    elements: [{ kind: "link", id: "a", label: "x", url: "https://one.test" }],
  });
  const boss = await gateway.as("boss", { role: "owner" });
  const archive = (await exportTenant(gateway, boss)).replace("https://one.test", "javascript:alert(1)");
  await using other = await openGateway();
  const admin = await other.as("admin", { role: "owner" });
  const done = await importArchive(other, admin, "gateway", archive);
  assert.equal(done.state, "done", JSON.stringify(done));
  assert.deepEqual(done.report.filter((item: { code: string }) => item.code === "elements_invalid").length, 1);
  const reader = await other.as("alice");
  const [room] = ok(await reader.get("/v1/rooms")).items;
  const { items } = ok(await reader.get(`/v1/messages?roomId=${room.id}`));
  assert.deepEqual(items.map((message: { elements?: unknown }) => message.elements), [ELEMENTS, undefined]);
});
