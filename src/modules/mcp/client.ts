// Calls of an MCP server: one connection a call, like all outbound calls bounded in address, time and size. The SDK is loaded
// with the first one.
import type { Client } from "@modelcontextprotocol/client";
import { JSON_VALUES_MAX } from "@/core/text.ts";
import { type JsonBounds, type Outbound, OutboundError } from "@/ports/outbound.ts";

type Sdk = typeof import("@modelcontextprotocol/client");

export type Target = { url: string; headers: Readonly<Record<string, string>> };
export type RemoteTool = { name: string; description?: string | undefined; inputSchema: Record<string, unknown> };
type RemoteResult = { text: string; isError: boolean };
/** What the last request of a connection failed with. */
type Failure = { code: string | undefined };

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

  callTool(target: Target, name: string, input: Record<string, unknown>, signal?: AbortSignal): Promise<RemoteResult> {
    return this.#connected(target, signal, async (client, options) => {
      const { content, isError } = await client.callTool({ name, arguments: input }, options);
      const texts = content.map((part) => part.type === "text" ? part.text : `(${part.type})`);
      const text = texts.join("\n");
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
    const options = { signal: signal === undefined ? limit : AbortSignal.any([limit, signal]), timeout: this.#callMs };
    const failure: Failure = { code: undefined };
    const client = new sdk.Client({ name: "collaboration-gateway", version: this.#version }, {
      versionNegotiation: { mode: "auto" },
      listMaxPages: PAGES_MAX,
      // Its schemas are for the model; compiling what a server sends would run its code or take its time.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
    });
    const transport = new sdk.StreamableHTTPClientTransport(new URL(target.url), {
      fetch: (url, init) => this.#fetch(target, failure, url, init, options.signal),
    });
    try {
      await client.connect(transport, options);
      return await work(client, options);
    } catch (cause) {
      const code = failure.code ??
        (limit.aborted ? "timed_out" : signal?.aborted === true ? "cancelled" : "protocol_error");
      throw new ServerError(code, { cause });
    } finally {
      await client.close();
    }
  }

  async #fetch(
    { url: known, headers }: Target,
    failure: Failure,
    url: string | URL,
    init: RequestInit | undefined,
    signal: AbortSignal,
  ): Promise<Response> {
    // A stream of its own would stay open after the call; what the server says meanwhile is not waited for.
    if ((init?.method ?? "GET") !== "POST" || String(url) !== known) return new Response(null, { status: 405 });
    failure.code = undefined;
    try {
      const all = new Headers(init?.headers);
      for (const [name, value] of Object.entries(headers)) all.set(name, value);
      const options = { totalMs: this.#callMs, bodyMaxBytes: RESPONSE_BOUNDS.bytesMax, json: RESPONSE_BOUNDS };
      const response = await this.#outbound(url, { ...init, headers: all, signal }, options);
      const { ok, status } = response;
      if (!ok) failure.code = AUTHENTICATION.includes(status) ? "not_authorized" : `http_${status}`;
      return response;
    } catch (error) {
      if (error instanceof OutboundError) failure.code = error.code;
      throw error;
    }
  }
}
