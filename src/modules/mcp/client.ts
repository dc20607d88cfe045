// Calls of an MCP server: one connection a call, like all outbound calls bounded in address, time and size. The SDK is loaded
// with the first one.
import type { CallToolResult, Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { baggageOf } from "@/core/agent_hops.ts";
import { JSON_VALUES_MAX } from "@/core/text/text.ts";
import { type JsonBounds, type Outbound, OutboundError } from "@/ports/outbound.ts";

type Sdk = typeof import("@modelcontextprotocol/client");

export type Target = { url: string; headers: Readonly<Record<string, string>> };
export type RemoteTool = { name: string; description?: string | undefined; inputSchema: Record<string, unknown> };
type RemoteResult = { text: string; isError: boolean };
/**
 * A connection: what its last request failed with, whether the reply to it is a stream, how many it may still send, and what ends
 * it once those are sent.
 */
type Connection = { code: string | undefined; isStream: boolean; postsLeft: number; end: AbortController };

/** Why a server did not answer; its message names no secret. */
export class ServerError extends Error {
  override readonly name = "ServerError";
  readonly code: string;

  constructor(code: string, options?: ErrorOptions) {
    super(`The server failed: ${code}`, options);
    this.code = code;
  }
}

const CALL_MS = 30_000;
const RESPONSE_BOUNDS: JsonBounds = { bytesMax: 512 * 1024, depthMax: 64, valuesMax: JSON_VALUES_MAX };
const PAGES_MAX = 4;
const RESULT_MAX_CHARS = 24_000;
const AUTHENTICATION = [401, 403];
/** A call takes less than ten; the others answer what the server asks, each in a connection of its own. */
const POSTS_MAX = 32;
/** Shortest pause before a stream is resumed, whatever the server says: it decides how often that happens. */
const RESUME_MIN_MS = 500;
/** How long the end of a session is waited for: the result of the call is there already. */
const END_SESSION_MS = 1_000;

/** In the range of codes that JSON-RPC leaves to implementations. */
const UNANSWERED = { code: -32000, message: "The reply has no response to the request" };

let loading: Promise<Sdk> | undefined;

export class RemoteServers {
  readonly #outbound: Outbound;
  readonly #version: string;
  readonly #callMs: number;

  constructor(outbound: Outbound, version: string, { callMs = CALL_MS }: { callMs?: number } = {}) {
    this.#outbound = outbound;
    this.#version = version;
    this.#callMs = callMs;
  }

  /** Its tools, as it names them. */
  listTools(target: Target, signal?: AbortSignal): Promise<RemoteTool[]> {
    return this.#connected(target, signal, async (client, options) => {
      const { tools } = await client.listTools(undefined, options);
      return tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
    });
  }

  callTool(
    target: Target,
    name: string,
    input: Record<string, unknown>,
    { signal, agentHops = 0 }: { signal?: AbortSignal; agentHops?: number } = {},
  ): Promise<RemoteResult> {
    return this.#connected(target, signal, async (client, options) => {
      const call = { name, arguments: input, _meta: baggageOf(agentHops) };
      const { content, structuredContent, isError } = await client.callTool(call, options);
      const isStructured = content.length === 0 && structuredContent !== undefined;
      const text = isStructured ? JSON.stringify(structuredContent) : content.map(textOf).join("\n");
      const isLong = text.length > RESULT_MAX_CHARS;
      return {
        text: isLong ? `${text.slice(0, RESULT_MAX_CHARS).toWellFormed()}\n… cut` : text.toWellFormed(),
        isError: isError === true,
      };
    });
  }

  async #connected<Result>(
    target: Target,
    signal: AbortSignal | undefined,
    work: (client: Client, options: { signal: AbortSignal; timeout: number }) => Promise<Result>,
  ): Promise<Result> {
    const sdk = await (loading ??= import("@modelcontextprotocol/client"));
    const limit = AbortSignal.timeout(this.#callMs);
    const connection: Connection = {
      code: undefined,
      isStream: false,
      postsLeft: POSTS_MAX,
      end: new AbortController(),
    };
    const signals = [limit, connection.end.signal, ...signal === undefined ? [] : [signal]];
    const options = { signal: AbortSignal.any(signals), timeout: this.#callMs };
    const client = new sdk.Client({ name: "collaboration-gateway", version: this.#version }, {
      versionNegotiation: { mode: "auto" },
      listMaxPages: PAGES_MAX,
      // Its schemas are for the model; compiling what a server sends would run its code or take its time.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
    });
    const transport = new sdk.StreamableHTTPClientTransport(new URL(target.url), {
      fetch: (url, init) => this.#fetch(target, connection, url, init),
      reconnectionScheduler(resume, delayMs) {
        const timer = setTimeout(resume, Math.max(delayMs, RESUME_MIN_MS));
        return () => clearTimeout(timer);
      },
    });
    endUnanswered(transport, connection);
    try {
      await client.connect(transport, options);
      return await work(client, options);
    } catch (cause) {
      const code = connection.code ??
        (limit.aborted ? "timed_out" : signal?.aborted === true ? "cancelled" : "protocol_error");
      throw new ServerError(code, { cause });
    } finally {
      await transport.terminateSession().catch(() => {}); // not every server lets its clients do that
      await client.close();
    }
  }

  async #fetch(
    { url: known, headers }: Target,
    connection: Connection,
    url: string | URL,
    init: RequestInit | undefined,
  ): Promise<Response> {
    const { method = "GET" } = init ?? {};
    const all = new Headers(init?.headers);
    // A stream of its own would stay open after the call; only that of a call is resumed.
    const isUnasked = method === "GET" && !all.has("last-event-id");
    if (isUnasked || String(url) !== known) return new Response(null, { status: 405 });
    if (method === "POST" && connection.postsLeft-- <= 0) {
      const reason = new Error("The server asked for too many responses");
      connection.end.abort(reason);
      throw reason;
    }
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    const totalMs = method === "DELETE" ? END_SESSION_MS : this.#callMs;
    const options = { totalMs, bodyMaxBytes: RESPONSE_BOUNDS.bytesMax, json: RESPONSE_BOUNDS };
    connection.code = undefined;
    try {
      const response = await this.#outbound(url, { ...init, headers: all }, options);
      const { ok, status } = response;
      connection.isStream ||= response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      if (!ok) connection.code = AUTHENTICATION.includes(status) ? "not_authorized" : `http_${status}`;
      return response;
    } catch (thrown) {
      if (thrown instanceof OutboundError) connection.code = thrown.code;
      throw thrown;
    }
  }
}

/**
 * Fails a request if the reply to it ends without a response and cannot be resumed, or if a response to another one arrives
 * meanwhile: the SDK waits for it until the call takes too long.
 */
function endUnanswered(transport: StreamableHTTPClientTransport, connection: Connection): void {
  const send = transport.send.bind(transport);
  let pending: { id: string | number; fail: () => void } | undefined;
  // The SDK calls it before its own.
  transport.onmessage = (message) => {
    const isResponse = "result" in message || "error" in message;
    if (isResponse && pending !== undefined && String(message.id) !== String(pending.id)) pending.fail();
  };
  transport.send = async (message, options) => {
    if (Array.isArray(message) || !("method" in message) || !("id" in message)) return await send(message, options);
    // To the SDK, a second response to a request is one to none.
    const onRequestStreamEnd = (): void => transport.onmessage?.({ jsonrpc: "2.0", id: message.id, error: UNANSWERED });
    // Requests follow each other; what is sent meanwhile has no reply.
    pending = { id: message.id, fail: onRequestStreamEnd };
    connection.isStream = false;
    await send(message, { ...options, onRequestStreamEnd });
    if (!connection.isStream) onRequestStreamEnd();
  };
}

/** What a model reads of a part of a result. */
function textOf(part: CallToolResult["content"][number]): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "resource":
      return "text" in part.resource
        ? `${part.resource.uri}:\n${part.resource.text}`
        : `(resource ${part.resource.uri})`;
    case "resource_link":
      return `${part.title ?? part.name}: ${part.uri}`;
    default:
      // A model that reads nothing of it describes what it expects.
      return `(${part.type}, not shown)`;
  }
}
