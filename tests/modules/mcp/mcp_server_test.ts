// MCP servers whose tools agents use: what an admin allows, what is sent to them, and what a server of ill will can do.
import assert from "node:assert/strict";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { MINUTE_MS } from "@/core/time/clock.ts";
import { RemoteServers, ServerError } from "@/modules/mcp/client.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { WAIT_MS } from "../../wait.ts";
import { AgentFixture, callTools } from "../agent/agent_fixture.ts";
import { assertProblem, createRoom, ok, sendMessage } from "../fixtures.ts";
import { serveGateway } from "../http_server.ts";

const SERVERS = "/v1/collaboration/mcp/servers";
const WIKI = { url: "https://wiki.example.com/mcp", headers: { Authorization: "Bearer hush" } };
const LOOPBACK = { SVC_OUTBOUND_ALLOW: "127.0.0.1" };

const admin = (gateway: Harness) => gateway.as("boss", { role: "admin" });

Deno.test("an admin allows servers, whose headers are never returned", async () => {
  await using gateway = await openGateway();
  const boss = await admin(gateway);
  const created = await boss.put(`${SERVERS}/wiki`, { ...WIKI, tools: ["search"] });
  assert.equal(created.status, 201);
  assert.deepEqual(created.body.headerNames, ["Authorization"]);
  assert.equal(created.body.needsApproval, true);
  const all = await boss.get(SERVERS);
  assert.equal(all.body.items.length, 1);
  assert.ok(!JSON.stringify([created.body, all.body]).includes("hush"));
  const rows = await gateway.app.store.db.selectFrom("mcp_server").selectAll().execute();
  assert.ok(!JSON.stringify(rows).includes("hush"));

  assertProblem(await boss.put(`${SERVERS}/wiki`, { url: WIKI.url }, { "if-match": '"7"' }), 412, "version_mismatch");
  const changed = ok(await boss.put(`${SERVERS}/wiki`, { url: WIKI.url, version: 1 }));
  assert.deepEqual(changed.headerNames, ["Authorization"]);
  const moved = await boss.put(`${SERVERS}/wiki`, { url: "https://evil.example/mcp", version: 2 });
  assertProblem(moved, 422, "validation_failed");
  assert.match(moved.body.detail, /^\/headers/);
  assert.deepEqual(ok(await boss.put(`${SERVERS}/wiki`, { ...WIKI, headers: null, version: 2 })).headerNames, []);

  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  assert.deepEqual(ok(await stranger.get(SERVERS)).items, []);
  assertProblem(await stranger.delete(`${SERVERS}/wiki`), 404, "not_found");
  assertProblem(await (await gateway.as("alice")).get(SERVERS), 403, "forbidden");
  assert.equal((await boss.delete(`${SERVERS}/wiki`)).status, 204);
});

Deno.test("what cannot be a server is refused when it is named", async () => {
  await using gateway = await openGateway({ SVC_PUBLIC_URL: "https://team.example.com" });
  const boss = await admin(gateway);
  const put = (id: string, body: Record<string, unknown>) => boss.put(`${SERVERS}/${id}`, { ...WIKI, ...body });
  for (
    const url of ["https://127.0.0.1/mcp", "https://169.254.169.254/", "https://[::1]/", "http://wiki.example.com/mcp"]
  ) {
    assertProblem(await put("wiki", { url }), 422, "address_not_allowed");
  }
  for (const url of ["ftp://wiki.example.com", "no address", "https://team.example.com/mcp?toolsets=core"]) {
    assertProblem(await put("wiki", { url }), 422, "validation_failed");
  }
  for (const name of ["Host", "content-length", "Mcp-Session-Id", "a b", "x:y", ""]) {
    assertProblem(await put("wiki", { headers: { [name]: "x" } }), 422, "validation_failed");
  }
  assertProblem(await put("wiki", { headers: { "X-A": "a\r\nb" } }), 422, "validation_failed");
  for (const id of ["task", "message", "room", "Wiki", "w", "wiki1"]) {
    assertProblem(await put(id, {}), 422, "validation_failed");
  }
  for (let n = 0; n < 10; n++) ok(await put(`wiki_${"abcdefghij"[n]}`, {}));
  assertProblem(await put("wiki_k", {}), 409, "limit_reached");
});

Deno.test("an agent uses the tools of a server, with the rights of the token that the admin gave", async () => {
  await using other = await serveGateway();
  const carol = await other.gateway.as("carol");
  const otherRoom = await createRoom(carol, []);
  await sendMessage(carol, otherRoom, "the code is 4711");
  const token = ok(
    await carol.post("/v1/collaboration/tokens", {
      name: "agent",
      scopes: ["room.read", "message.read", "message.write"],
    }),
  );
  const server = {
    url: `${other.url.replace("ws:", "http:")}/mcp`,
    headers: { Authorization: `Bearer ${token.token}` },
    tools: ["room_list", "message_list", "message_send"],
  };
  await using fixture = await AgentFixture.open(() => "Hello", { environment: LOOPBACK });
  const boss = await admin(fixture.gateway);
  ok(await boss.put(`${SERVERS}/team`, { ...server, needsApproval: false }));
  const agent = `/v1/collaboration/agents/${fixture.agentId}`;
  ok(await fixture.alice.patch(agent, { tools: ["team.message_list", "team.message_send"] }));
  const tested = ok(await boss.post(`${SERVERS}/team/test`));
  assert.equal(tested.code, null);
  assert.deepEqual(
    tested.tools.map(({ name }: { name: string }) => name).toSorted(),
    ["team.message_list", "team.message_send", "team.room_list"],
  );

  let offered: string[] = [];
  fixture.answer(({ number, last, toolNames }) => {
    if (number === 1) offered = toolNames;
    return number === 1
      ? callTools(
        ["team_message_send", { roomId: otherRoom, text: "An agent asks" }],
        ["team_message_list", { roomId: otherRoom }],
      )
      : `It says: ${last}`;
  });
  await fixture.mention(fixture.bob, "What is the code?");
  await fixture.settled();
  assert.ok(offered.includes("team_message_list") && !offered.includes("team_room_list"), offered.join());
  assert.match((await fixture.texts()).at(-1) ?? "", /the code is 4711/);

  // What it says there counts it, as does what programs say who pass on their baggage.
  const { items } = ok(await carol.get(`/v1/messages?roomId=${otherRoom}`));
  assert.deepEqual(items.at(-1).metadata, { agentHops: 1 });
  const more = { roomId: otherRoom, text: "Go on", metadata: { a: 1 } };
  const passedOn = ok(await carol.post("/v1/messages", more, { baggage: "user=1,agent-hops=2" }));
  assert.deepEqual(passedOn.metadata, { a: 1, agentHops: 2 });

  // With an approval, nothing leaves before somebody decides.
  ok(await boss.put(`${SERVERS}/team`, { ...server, needsApproval: true, version: 1 }));
  fixture.answer(() => callTools(["team_message_list", { roomId: otherRoom }]));
  await fixture.mention(fixture.bob, "And again?");
  await fixture.settled("waiting_approval", 2);

  // Neither does it where the agent asks first.
  ok(await boss.put(`${SERVERS}/team`, { ...server, needsApproval: false, version: 2 }));
  for (const [at, name] of ["team.message_list", "team.*", "team_message_list"].entries()) {
    ok(await fixture.alice.patch(agent, { askFirst: [name] }));
    await fixture.mention(fixture.bob, "And now?");
    await fixture.settled("waiting_approval", 3 + at);
  }

  // Without the server there is no tool.
  ok(await boss.delete(`${SERVERS}/team`));
  fixture.answer(({ toolNames }) => toolNames.join() || "none");
  await fixture.mention(fixture.bob, "Which tools?", {});
  await fixture.settled("succeeded", 6);
  assert.ok(!(await fixture.texts()).at(-1)?.includes("team_"));
});

type Handler = (message: { id?: number; method?: string }) => Response | Promise<Response>;

/** A server that responds as a test says, and a client that waits for it for so long. */
function remote(handle: Handler, callMs = WAIT_MS) {
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const server = Deno.serve(options, async (request) => await handle(await request.json()));
  const outbound = createOutbound({ allow: ["127.0.0.1"], connectMs: WAIT_MS });
  const servers = new RemoteServers(outbound, "1", { callMs });
  const target = { url: `http://127.0.0.1:${server.addr.port}/mcp`, headers: {} };
  return { servers, target, [Symbol.asyncDispose]: () => server.shutdown() };
}

const result = (id: number | undefined, value: unknown) => Response.json({ jsonrpc: "2.0", id, result: value });
const initialized: Handler = ({ id, method }) => {
  if (method === "initialize") {
    const capabilities = { tools: {} };
    return result(id, { protocolVersion: "2025-06-18", capabilities, serverInfo: { name: "x", version: "1" } });
  }
  if (method === "server/discover") {
    return Response.json({ jsonrpc: "2.0", id, error: { code: -32601, message: "no such method" } });
  }
  return new Response(null, { status: 202 });
};

/** A server with these tools, each of which returns `done`, and what `call` adds to that. */
function serveTools(tools: unknown[], call: (input: unknown) => Promise<unknown> = () => Promise.resolve()) {
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const server = Deno.serve(options, async (request) => {
    const message = await request.json();
    if (message.method === "tools/list") return result(message.id, { tools });
    if (message.method !== "tools/call") return await initialized(message);
    const more = await call(message.params.arguments);
    return result(message.id, { content: [{ type: "text", text: "done" }], ...Object(more) });
  });
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  return { url, [Symbol.asyncDispose]: () => server.shutdown() };
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof ServerError, String(error));
    return error.code;
  }
  return "none";
}

Deno.test("a server that hangs, is huge, redirects, refuses or talks nonsense fails within its bounds", async () => {
  const never = Promise.withResolvers<Response>();
  const cases: [string, Handler, number?][] = [
    ["timed_out", () => never.promise, 300],
    [
      "response_too_large",
      () => new Response("x".repeat(600_000), { headers: { "content-type": "application/json" } }),
    ],
    ["not_authorized", () => new Response("no", { status: 401 })],
    ["http_302", () => new Response(null, { status: 302, headers: { location: "http://127.0.0.1:1/" } })],
    ["http_404", () => new Response("<html>", { status: 404, headers: { "content-type": "text/html" } })],
    ["protocol_error", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
    ["protocol_error", () => new Response("[".repeat(100_000), { headers: { "content-type": "application/json" } })],
    ["protocol_error", ({ id }) => result(id, { nonsense: true })],
    ["protocol_error", ({ id }) => result(Number(id) + 1000, {})],
    ["protocol_error", () => Response.json({ jsonrpc: "2.0", id: null, error: { code: -32700, message: "what?" } })],
    ["protocol_error", () => new Response(null, { status: 202 })],
  ];
  for (const [code, handle, callMs] of cases) {
    await using at = remote(handle, callMs);
    const actual = await codeOf(at.servers.listTools(at.target));
    never.resolve(new Response());
    assert.equal(actual, code);
  }
});

Deno.test("a call of which the tool says that it failed is a failed step, whose text the model reads", async () => {
  const failure = { content: [{ type: "text", text: "no such page" }], isError: true };
  await using server = serveTools([{ name: "find", inputSchema: { type: "object" } }], () => Promise.resolve(failure));
  await using fixture = await AgentFixture.open(
    ({ number, last }) => number === 1 ? callTools(["wiki_find", {}]) : `It says: ${last}`,
    { environment: LOOPBACK },
  );
  const { gateway, alice, agentId } = fixture;
  ok(await (await admin(gateway)).put(`${SERVERS}/wiki`, { url: server.url, needsApproval: false }));
  ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { tools: ["wiki.find"] }));
  await fixture.mention(fixture.bob, "Find it");
  const { steps } = await fixture.settled();
  assert.deepEqual([steps[1].status, steps[1].result], ["failed", "The tool failed: no such page"]);
  assert.equal((await fixture.texts()).at(-1), "It says: The tool failed: no such page");
});

Deno.test("a tool of a server is not called once a requester lost the room, nor without a request for a token without run.write", async () => {
  const called: unknown[] = [];
  let onCall: () => Promise<void> = () => Promise.resolve();
  await using server = serveTools([{ name: "act", inputSchema: { type: "object" } }], async (input) => {
    called.push(input);
    await onCall();
  });
  await using fixture = await AgentFixture.open(() => "Hello", { environment: LOOPBACK });
  const { alice, bob, gateway, roomId, agentId } = fixture;
  ok(await (await admin(gateway)).put(`${SERVERS}/ext`, { url: server.url, needsApproval: false }));
  ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { tools: ["ext.*"] }));

  onCall = async () => assert.equal((await alice.delete(`/v1/rooms/${roomId}/members/bob`)).status, 204);
  fixture.answer(() => callTools(["ext_act", { n: 1 }], ["ext_act", { n: 2 }]));
  await fixture.mention(bob, "Twice, please");
  assert.equal((await fixture.settled("failed")).error.code, "not_found");
  assert.deepEqual(called, [{ n: 1 }]);

  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  onCall = () => Promise.resolve();
  for (const [scope, status] of [["run.write", "succeeded"], ["", "waiting_approval"]] as const) {
    called.length = 0;
    fixture.answer(({ last }) => last.includes("done") ? "Done" : callTools(["ext_act", { n: 3 }]));
    await fixture.mention(await gateway.as("bob", { scope: `room.read message.* ${scope}` }), "Once more");
    await fixture.settled(status, status === "succeeded" ? 2 : 3);
    assert.equal(called.length, status === "succeeded" ? 1 : 0);
  }
});

Deno.test("an agent learns that a server whose tools it had does not respond", async () => {
  let isDown = false;
  await using server = remote(async (message) => {
    if (isDown) return new Response(null, { status: 503 });
    if (message.method !== "tools/list") return await initialized(message);
    // Providers refuse a request with half a character.
    const description = `${"x".repeat(999)}🔎`;
    return result(message.id, { tools: [{ name: "find", description, inputSchema: { type: "object" } }] });
  });
  await using fixture = await AgentFixture.open(() => "Ready", { environment: LOOPBACK });
  const { gateway, alice, agentId } = fixture;
  ok(await (await admin(gateway)).put(`${SERVERS}/wiki`, { url: server.target.url, needsApproval: false }));
  ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { tools: ["wiki.find"] }));
  await fixture.mention(fixture.bob, "Are you there?");
  await fixture.settled();
  const { tools = [] } = fixture.models.calls[0]?.request ?? {};
  assert.ok(tools.find(({ name }) => name === "wiki_find")?.description.isWellFormed());
  isDown = true;
  // Longer than the tools of a server are cached.
  gateway.clock.advance(6 * MINUTE_MS);
  fixture.answer(({ last }) => last.includes("wiki failed") ? `It says: ${last}` : callTools(["wiki_find", {}]));
  await fixture.mention(fixture.bob, "Find it");
  await fixture.settled("succeeded", 2);
  assert.match((await fixture.texts()).at(-1) ?? "", /The server wiki failed: http_503/);
});

Deno.test("an agent does not wait in each step for a server that failed after a long time", async () => {
  await using fixture = await AgentFixture.open(() => "Hello", { environment: LOOPBACK });
  const { alice, bob, gateway, agentId } = fixture;
  let lists = 0;
  await using server = remote(async (message) => {
    if (message.method !== "tools/list") return await initialized(message);
    lists++;
    gateway.clock.advance(40_000);
    return new Response(null, { status: 503 });
  });
  ok(await (await admin(gateway)).put(`${SERVERS}/slow`, { url: server.target.url }));
  ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { tools: ["slow.*", "member.list"] }));
  fixture.answer(({ number }) => number <= 3 ? callTools(["member_list", {}]) : "Done");
  await fixture.mention(bob, "Who is here?");
  await fixture.settled();
  assert.equal(lists, 1);
});

Deno.test("tools with names and schemas that no model takes are renamed or left out", async () => {
  const tool = (name: string, inputSchema: unknown = { type: "object" }) => ({ name, inputSchema, description: name });
  const tools = [
    tool("read-file"),
    tool("read.file"),
    tool("READ FILE"),
    tool("x".repeat(120)),
    tool("big", { type: "object", properties: { a: { description: "x".repeat(9000) } } }),
    ...Array.from({ length: 80 }, (_, n) => tool(`z${n}`)),
  ];
  await using server = serveTools(tools);
  await using gateway = await openGateway(LOOPBACK);
  const boss = await admin(gateway);
  ok(await boss.put(`${SERVERS}/disk`, { url: server.url }));
  const tested = ok(await boss.post(`${SERVERS}/disk/test`));
  const names: string[] = tested.tools.map(({ name }: { name: string }) => name);
  assert.equal(tested.code, null);
  assert.equal(names.length, 50);
  assert.equal(new Set(names).size, 50);
  assert.ok(names.every((name) => /^disk\.[a-z_]{1,60}$/.test(name)), names.join());
  assert.ok(["disk.read_file", "disk.read_file_a", "disk.read_file_aa"].every((name) => names.includes(name)));
  assert.ok(!names.includes("disk.big"));
});
