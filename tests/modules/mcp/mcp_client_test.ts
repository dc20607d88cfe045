// What a gateway says to an MCP server besides calls: it resumes streams that end early, ends its session, and takes every
// kind of content.
import assert from "node:assert/strict";
import { createOutbound } from "@/adapters/outbound/http.ts";
import { RemoteServers, type ServerError } from "@/modules/mcp/client.ts";
import { eventually, WAIT_MS } from "../../wait.ts";

type Message = { id?: number; method?: string };
type Tool = (request: Request, message: Message) => Response;

const SESSION = "session-1";
const event = (id: string, data: string) => new TextEncoder().encode(`id: ${id}\nretry: 0\ndata: ${data}\n\n`);
const stream = (...events: Uint8Array<ArrayBuffer>[]) =>
  new Response(ReadableStream.from(events), { headers: { "content-type": "text/event-stream" } });
const reply = (id: number | undefined, result: unknown) => ({ jsonrpc: "2.0", id, result });
const content = (...parts: unknown[]) => ({ content: parts });

/** A server with sessions whose tool calls, and requests without a body, are answered as a test says. */
function serve(call: Tool, other: (request: Request) => Response = () => new Response(null, { status: 405 })) {
  const seen: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const message: Message = request.method === "POST" ? await request.json() : {};
    seen.push([request.method, message.method, request.headers.get("mcp-session-id")].filter(Boolean).join(" "));
    if (request.method !== "POST") return other(request);
    if (message.method === "tools/call") return call(request, message);
    if (message.method === "initialize") {
      const result = {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {} },
        serverInfo: { name: "x", version: "1" },
      };
      return Response.json(reply(message.id, result), { headers: { "mcp-session-id": SESSION } });
    }
    if (message.id === undefined) return new Response(null, { status: 202 });
    return Response.json({ jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "no such method" } });
  });
  const servers = new RemoteServers(createOutbound({ allow: ["127.0.0.1"], connectMs: WAIT_MS }), "1", {
    callMs: WAIT_MS,
  });
  const target = { url: `http://127.0.0.1:${server.addr.port}/mcp`, headers: {} };
  return { seen, servers, target, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("a call whose stream the server closes before the response is resumed", async () => {
  let callId: number | undefined;
  const resumedAfter: (string | null)[] = [];
  await using at = serve((_request, { id }) => {
    callId = id;
    return stream(event("e1", ""));
  }, (request) => {
    if (request.method !== "GET") return new Response(null, { status: 405 });
    resumedAfter.push(request.headers.get("last-event-id"));
    if (resumedAfter.length === 1) return stream(event("e2", ""));
    return stream(event("e3", JSON.stringify(reply(callId, content({ type: "text", text: "late" })))));
  });
  assert.deepEqual(await at.servers.callTool(at.target, "work", {}), { text: "late", isError: false });
  assert.deepEqual(resumedAfter, ["e1", "e2"]);
});

Deno.test("a call whose stream ends before the response fails at once where it cannot be resumed", async () => {
  const note = JSON.stringify({
    jsonrpc: "2.0",
    method: "notifications/message",
    params: { level: "info", data: "x" },
  });
  const streams: [Tool, string][] = [
    [() => stream(), "protocol_error"],
    [() => stream(new TextEncoder().encode(`data: ${note}\n\n`)), "protocol_error"],
    // It says that it can be resumed, and refuses that.
    [() => stream(event("e1", "")), "http_405"],
  ];
  for (const [end, code] of streams) {
    await using at = serve(end);
    await assert.rejects(at.servers.callTool(at.target, "work", {}), { code });
  }
});

Deno.test("a response to no request, in a stream that stays open, fails the call at once", async () => {
  for (const wrong of [0, 99]) {
    const open = Promise.withResolvers<void>();
    await using at = serve(() => {
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(event("e1", JSON.stringify(reply(wrong, content())))),
        cancel: () => open.resolve(),
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    });
    await assert.rejects(at.servers.callTool(at.target, "work", {}), { code: "protocol_error" });
    await open.promise;
  }
});

Deno.test("a session is ended after its call, also when the server refuses that or the call fails", async () => {
  for (const status of [200, 405, 500]) {
    await using at = serve(
      (_request, { id }) => Response.json(reply(id, content())),
      () => new Response(null, { status }),
    );
    await at.servers.callTool(at.target, "work", {});
    assert.equal(at.seen.at(-1), `DELETE ${SESSION}`);
  }
  await using at = serve(() => new Response(null, { status: 503 }), () => new Response());
  await assert.rejects(at.servers.callTool(at.target, "work", {}), { code: "http_503" });
  assert.equal(at.seen.at(-1), `DELETE ${SESSION}`);
});

Deno.test("a server is notified that a call was cancelled", async () => {
  const cancel = new AbortController();
  await using at = serve(() => {
    setTimeout(() => cancel.abort());
    return stream(event("e1", "")); // and then nothing: it is resumed, and refused
  });
  await assert.rejects(at.servers.callTool(at.target, "work", {}, cancel), (error: ServerError) => {
    assert.equal(error.code, "cancelled");
    return true;
  });
  await eventually(() => assert.ok(at.seen.includes(`POST notifications/cancelled ${SESSION}`), at.seen.join()));
});

Deno.test("a server that asks for responses without end gets few, and the call fails at once", async () => {
  const pings = Array.from(
    { length: 1000 },
    (_, id) => event("", JSON.stringify({ jsonrpc: "2.0", id, method: "ping" })),
  );
  await using at = serve(() => stream(...pings, new Uint8Array()));
  await assert.rejects(at.servers.callTool(at.target, "work", {}), { code: "protocol_error" });
  const posts = at.seen.filter((one) => one.startsWith("POST")).length;
  assert.ok(posts <= 32, `${posts} requests of one call`);
});

Deno.test("a tool's texts, resources, links and structured results reach the model", async () => {
  const cases: [unknown, string][] = [
    [content({ type: "text", text: "a" }, { type: "text", text: "b" }), "a\nb"],
    [content({ type: "resource", resource: { uri: "repo://x/a.md", text: "# A" } }), "repo://x/a.md:\n# A"],
    [content({ type: "resource", resource: { uri: "repo://x/a.png", blob: "AAAA" } }), "(resource repo://x/a.png)"],
    [content({ type: "resource_link", uri: "repo://x/b.md", name: "b.md" }), "b.md: repo://x/b.md"],
    [content({ type: "image", mimeType: "image/png", data: "AAAA" }), "(image, not shown)"],
    [{ content: [], structuredContent: { degrees: 21 } }, '{"degrees":21}'],
    [{ ...content({ type: "text", text: "21 degrees" }), structuredContent: { degrees: 21 } }, "21 degrees"],
    [content(), ""],
  ];
  for (const [result, text] of cases) {
    await using at = serve((_request, { id }) => Response.json(reply(id, result)));
    assert.deepEqual(await at.servers.callTool(at.target, "work", {}), { text, isError: false });
  }
});
