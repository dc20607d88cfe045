// One budget per person: calls of all its agents and tokens are counted together.
import assert from "node:assert/strict";
import { type Caller, openGateway } from "../harness.ts";
import { allEnded } from "../wait.ts";

const ME = "/v1/collaboration/me";
const PRINCIPALS = "/v1/collaboration/principals";
const READ_ALL = "/v1/collaboration/notifications/read";
const TOKENS = "/v1/collaboration/tokens";

/** How many of so many calls were not refused for their rate: at once, since it is refilled as time passes. */
async function allowed(calls: readonly (() => Promise<{ status: number }>)[]): Promise<number> {
  const answers = await allEnded(calls.map((call) => call()));
  return answers.filter(({ status }) => status !== 429).length;
}

Deno.test("requests of agents and of all tokens count for the owner, and for no other principal", async () => {
  await using gateway = await openGateway({
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_REQUESTS_PER_MINUTE: "20",
    SVC_LIMIT_REQUESTS_BURST: "20",
  });
  const alice = await gateway.as("alice");
  const { body: made } = await alice.post(TOKENS, { name: "script", scopes: ["*"] });
  const callers: Caller[] = [alice, await gateway.as("alice", { jti: "another" }), gateway.withToken(made.token)];
  for (let n = 0; n < 5; n++) callers.push(await gateway.as(`bot${n}`, { kind: "agent", owner: "alice" }));
  const calls = Array.from({ length: 40 }, (_, n) => () => (callers[n % callers.length] ?? alice).get(ME));
  assert.equal(await allowed(calls), 19);
  const refused = await (callers.at(-1) ?? alice).get(ME);
  assert.equal(refused.body.code, "rate_limited");
  assert.match(refused.body.detail, /this principal and its agents/);
  assert.equal((await (await gateway.as("bob")).get(ME)).status, 200);
});

Deno.test("writes and operations with a rate of their own count for the owner", async () => {
  await using gateway = await openGateway({
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_WRITES_PER_MINUTE: "10",
    SVC_LIMIT_WRITES_BURST: "10",
    SVC_LIMIT_AGENT_MESSAGES_PER_SECOND: "1",
    SVC_LIMIT_AGENT_MESSAGES_BURST: "30",
    SVC_LIMIT_REQUESTS_BURST: "1000",
  });
  const alice = await gateway.as("alice");
  const { body: room } = await alice.post("/v1/rooms", { name: "Here" });
  const bots = await Promise.all(
    [1, 2, 3].map((n) => gateway.as(`bot${n}`, { kind: "agent", owner: "alice" })),
  );
  for (const n of [1, 2, 3]) {
    const id = (await bots[n - 1]?.get(ME))?.body.principal.id;
    assert.equal((await alice.put(`/v1/rooms/${room.id}/members/${id}`, { role: "member" })).status, 201);
  }
  const sends = Array.from(
    { length: 40 },
    (_, n) => () => (bots[n % 3] ?? alice).post("/v1/messages", { roomId: room.id, text: `message ${n}` }),
  );
  assert.equal(await allowed(sends), 30);
  const writes = Array.from({ length: 20 }, (_, n) => () => ([alice, ...bots][n % 4] ?? alice).post(READ_ALL));
  assert.equal(await allowed(writes), 10);
});

Deno.test("a service has its own budget, a multiple of a person's, and only admins can create one", async () => {
  await using gateway = await openGateway({
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_REQUESTS_BURST: "1000",
    SVC_LIMIT_SERVICE_FACTOR: "3",
  });
  // One after the other: so many at once would wait for their share of the processor, or be refused for it.
  const created = async (caller: Caller): Promise<number> => {
    let count = 0;
    for (let n = 0; n < 100; n++) count += await allowed([() => caller.post("/v1/rooms", { name: `Room ${n}` })]);
    return count;
  };
  assert.equal(await created(await gateway.as("alice")), 30);
  assert.equal(await created(await gateway.as("onboarding", { kind: "service" })), 90);
  const service = { kind: "service", displayName: "Sync" };
  assert.equal((await (await gateway.as("bob")).post(PRINCIPALS, service)).status, 403);
  assert.equal((await (await gateway.as("root", { role: "admin" })).post(PRINCIPALS, service)).status, 201);
});

Deno.test("the number of enabled agents of an owner is limited, however they are created", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_AGENTS_PER_OWNER: "3" });
  const root = await gateway.as("root", { role: "admin" });
  const alice = await gateway.as("alice");
  const agent = { kind: "agent", displayName: "Bot" };
  const made = await Promise.all(Array.from({ length: 6 }, () => alice.post(PRINCIPALS, agent)));
  assert.deepEqual(made.map(({ status }) => status).sort(), [201, 201, 201, 409, 409, 409]);
  assert.equal(made.find(({ status }) => status === 409)?.body.code, "limit_reached");
  assert.equal((await root.post(PRINCIPALS, { ...agent, ownerId: "alice" })).status, 409);
  const late = await (await gateway.as("late", { kind: "agent", owner: "alice" })).get(ME);
  assert.equal(late.status, 401);
  assert.match(late.body.detail, /may own at most 3 enabled agents/);
  // Disabling one makes room, and enabling it again would take it back.
  const id = made.find(({ status }) => status === 201)?.body.id;
  assert.equal((await root.delete(`${PRINCIPALS}/${id}`)).status, 204);
  assert.equal((await (await gateway.as("late", { kind: "agent", owner: "alice" })).get(ME)).status, 200);
  const again = await root.patch(`${PRINCIPALS}/${id}`, { disabled: false });
  assert.equal(again.status, 409);
  assert.equal(again.body.code, "limit_reached");
});

Deno.test("a first token cannot create an agent owned by an agent or by an unknown principal", async () => {
  await using gateway = await openGateway();
  await (await gateway.as("alice")).get(ME);
  await (await gateway.as("bot", { kind: "agent", owner: "alice" })).get(ME);
  const chained = await (await gateway.as("bot2", { kind: "agent", owner: "bot" })).get(ME);
  assert.equal(chained.status, 401);
  assert.match(chained.body.detail, /an agent cannot own agents/);
  assert.equal(
    (await (await gateway.as("bot3", { kind: "agent", owner: "nobody" })).get(ME)).body.code,
    "token_revoked",
  );
  const root = await gateway.as("root", { role: "admin" });
  assert.equal((await root.get(`${PRINCIPALS}/bot3`)).status, 404);
});
