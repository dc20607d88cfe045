// Agents at work on nodes that stop: another one continues, and what left the gateway is not done twice.
import assert from "node:assert/strict";
import { type ModelCall, type ModelScript, ModelServer } from "../model_server.ts";
import type { ScriptedStep } from "../scripted_models.ts";
import { eventually, until } from "../wait.ts";
import { Cluster, type ClusterOptions, hasServers } from "./cluster.ts";

const API = "/v1/collaboration";
const WORDS = Array.from({ length: 12 }, (_, n) => `word${n} `);
const TEXT = WORDS.join("").trim();

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

const call = (name: string, input: unknown): ScriptedStep => ({
  parts: [{ kind: "tool", callId: `call_${name}`, name, input: JSON.stringify(input) }],
});
/** What the tools of the run have returned so far. */
const resultsOf = ({ body }: ModelCall): string[] =>
  body.messages.flatMap(({ role, content }: Body) => role === "tool" ? [content] : []);

/** A cluster with a room of Ann, and models that say what the script does. */
async function openRoom(
  stack: AsyncDisposableStack,
  nodes: number,
  script: ModelScript,
): Promise<{ cluster: Cluster; roomId: string; models: ModelServer }> {
  const models = stack.use(new ModelServer(script));
  const environment = { SVC_AI_MODEL: "m", SVC_OUTBOUND_ALLOW: "127.0.0.1" };
  // Each node has the models at an address of its own.
  const nodeEnvironment = (node: number) => ({ SVC_AI_BASE_URL: `http://127.0.0.1:${models.port}/${node}/v1` });
  const options: ClusterOptions = { nodes, environment, nodeEnvironment };
  const cluster = stack.use(await (nodes === 1 ? Cluster.openSingle(options) : Cluster.openShared(options)));
  return { cluster, roomId: await cluster.createRoom(["ann"]), models };
}

async function addAgent(cluster: Cluster, roomId: string, name: string, tools: string[]): Promise<string> {
  const { id } = await cluster.call(0, "ann", "POST", `${API}/agents`, { displayName: name, tools });
  await cluster.call(0, "ann", "PUT", `/v1/rooms/${roomId}/members/${id}`, {});
  return id;
}

/** Starts a run in a thread of its own. */
async function startRun(cluster: Cluster, node: number, roomId: string, agentId: string, input: string): Promise<Body> {
  const { id: threadId } = await cluster.call(node, "ann", "POST", "/v1/messages", { roomId, text: input });
  return await cluster.call(node, "ann", "POST", `${API}/ai/runs`, { roomId, threadId, agentId, input });
}

async function readRun(cluster: Cluster, node: number, id: string): Promise<Body> {
  return await cluster.call(node, "ann", "GET", `${API}/ai/runs/${id}`);
}

async function textsIn(cluster: Cluster, node: number, roomId: string, threadId: string): Promise<string[]> {
  const { items } = await cluster.call(node, "ann", "GET", `/v1/messages?roomId=${roomId}&threadId=${threadId}`);
  return items.map(({ text }: Body) => text);
}

Deno.test({ name: "SIGTERM in the middle of an answer: the other node continues", ignore: !hasServers }, async () => {
  await using stack = new AsyncDisposableStack();
  const halfSaid = Promise.withResolvers<number>();
  const hold = Promise.withResolvers<void>();
  stack.defer(() => hold.resolve());
  let answers = 0;
  const { cluster, roomId, models } = await openRoom(stack, 2, (asked) => {
    if (resultsOf(asked).length === 0) return call("task_create", { roomId, title: "once" });
    if (answers++ > 0) return { parts: WORDS };
    return { parts: ["Half of ", () => halfSaid.resolve(Number(asked.path.split("/")[1])), () => hold.promise] };
  });
  const agentId = await addAgent(cluster, roomId, "Agent", ["task.create"]);
  const { id, threadId } = await startRun(cluster, 0, roomId, agentId, "Do it");
  const stopped = await halfSaid.promise;
  const other = 1 - stopped;
  await cluster.node(stopped).stop("SIGTERM");
  await eventually(async () => assert.equal((await readRun(cluster, other, id)).status, "succeeded"));
  assert.deepEqual(await textsIn(cluster, other, roomId, threadId), [TEXT]);
  const { items } = await cluster.call(other, "ann", "GET", `${API}/tasks?roomId=${roomId}`);
  assert.equal(items.length, 1);
  // The steps before are not repeated.
  assert.equal(models.calls.length, 3);
});

/** A server of tools with one, that counts its calls. */
function openMailServer(onAnswer: () => void) {
  let sent = 0;
  const answer = (id: unknown, result: unknown) => Response.json({ jsonrpc: "2.0", id, result });
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { id, method } = await request.json();
    const serverInfo = { name: "mail", version: "1" };
    if (method === "initialize") {
      return answer(id, { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo });
    }
    const inputSchema = { type: "object" };
    if (method === "tools/list") {
      return answer(id, { tools: [{ name: "send", description: "Send a mail", inputSchema }] });
    }
    if (method === "server/discover") {
      return Response.json({ jsonrpc: "2.0", id, error: { code: -32601, message: "no such method" } });
    }
    if (method !== "tools/call") return new Response(null, { status: 202 });
    sent++;
    onAnswer();
    return answer(id, { content: [{ type: "text", text: "sent" }] });
  });
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  return { url, sent: () => sent, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("a mail that was sent before its node died is not sent again, and the model learns it", async () => {
  await using stack = new AsyncDisposableStack();
  const { cluster, roomId } = await openRoom(stack, 1, (asked) => {
    const [result] = resultsOf(asked);
    return result === undefined ? call("mail_send", { to: "bob" }) : { parts: [`It says: ${result}`] };
  });
  // The node is frozen while the response is on its way, so it never records it.
  const mail = stack.use(openMailServer(() => {
    Deno.kill(cluster.node(0).pid, "SIGSTOP");
  }));
  const boss = await cluster.token("boss", { role: "admin" });
  const allowed = await fetch(`${cluster.node(0).url}${API}/mcp/servers/mail`, {
    method: "PUT",
    headers: { authorization: `Bearer ${boss}`, "content-type": "application/json" },
    body: JSON.stringify({ url: mail.url, needsApproval: false }),
  });
  assert.equal(allowed.status, 201, await allowed.text());
  const agentId = await addAgent(cluster, roomId, "Agent", ["mail.send"]);
  const { id, threadId } = await startRun(cluster, 0, roomId, agentId, "Mail it");
  await until(() => mail.sent() === 1);
  await cluster.node(0).stop("SIGKILL");
  await cluster.node(0).start();
  const run = await eventually(async () => {
    const found = await readRun(cluster, 0, id);
    assert.equal(found.status, "succeeded", JSON.stringify(found));
    return found;
  });
  assert.deepEqual(run.steps.map(({ status }: Body) => status), ["succeeded", "outcome_unknown", "succeeded"]);
  assert.match((await textsIn(cluster, 0, roomId, threadId)).join(), /^It says: The outcome of this call is unknown/);
  assert.equal(mail.sent(), 1);
});
