// `POST /mcp`: the Model Context Protocol, in its stateless revision and in the one before it. A request has its own server, so no
// session exists; only a request that listens to resources stays open.
import { z } from "@zod/zod";
import { type Actor, chargedTo } from "@/core/actor.ts";
import { hopsOf } from "@/core/agent_hops.ts";
import type { Clock } from "@/core/time/clock.ts";
import { beginCharge } from "@/core/caller.ts";
import type { Dispatch } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import { objectOf } from "@/core/json.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Operation } from "@/core/operation.ts";
import { clientOf } from "@/core/http/request.ts";
import { jsonBody, jsonResponse, parseQuery, type Route, type RouteCall } from "@/core/http/route.ts";
import { Places } from "@/core/limit/slots.ts";
import type { Bus } from "@/ports/bus.ts";
import { originNotAllowed, type OriginRules, tenantOriginCheck } from "../shared/origin.ts";
import { acceptsType } from "../shared/static_asset.ts";
import { ResourceListener } from "./listener.ts";
import { createServer, loadSdk } from "./protocol.ts";
import { Resources } from "./resources.ts";
import { type ToolContext, Tools } from "./tools.ts";
import { TOOLSETS } from "./verbs.ts";

const BODY_MAX_BYTES = 256 * 1024;
const MEDIA_TYPES = ["application/json", "text/event-stream"];
const FIELDS_MAX = 200;
const LISTENERS = { perOwner: 10, perTenant: 1000, perNode: 2000 };
const TARGETS_MAX = 50;
/** Labels of the metric; others are one. */
const METHODS: ReadonlySet<string> = new Set([
  "initialize",
  "server/discover",
  "tools/list",
  "tools/call",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "prompts/list",
  "prompts/get",
  "subscriptions/listen",
]);

const Query = z.strictObject({
  toolsets: z.string().max(100).transform((text) => text.split(",")).pipe(z.array(z.enum(TOOLSETS)))
    .default([...TOOLSETS]),
  readonly: z.enum(["true", "false"]).default("false"),
});

type McpDeps = {
  operations: ReadonlyMap<string, Operation>;
  dispatch: Dispatch;
  /** The caller of a token that is for this address: one of the API, or one of an authorized application. */
  authenticate: (token: string, request: Request) => Promise<Actor>;
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  /** Parameters of `WWW-Authenticate` for a request without a valid token. */
  challenge: (request: Request) => string | undefined;
  origins: OriginRules;
  bus: Bus;
  clock: Clock;
  metrics: Metrics;
  version: string;
};

const log = logOf("mcp");

export class McpEndpoint {
  readonly #deps: McpDeps;
  readonly #tools: Tools;
  readonly #resources: Resources;
  readonly #listeners = new Set<ResourceListener>();
  readonly #places = new Places("requests that listen", LISTENERS, "limit_reached");

  constructor(deps: McpDeps) {
    this.#deps = deps;
    this.#tools = new Tools(deps);
    this.#resources = new Resources(this.#tools);
    deps.metrics.onScrape(deps.metrics.mcpListeners, (gauge) => gauge.set(this.#listeners.size));
  }

  get route(): Route {
    const { authenticate, challenge } = this.#deps;
    return {
      name: "mcp.call",
      summary: "Call the Model Context Protocol: tools, resources and prompts for language models",
      description:
        "JSON-RPC 2.0, one message a request, in the revisions 2026-07-28, 2025-11-25 and before. Takes API tokens and " +
        "the tokens of authorized applications. Tools are those of the token's scopes.",
      tag: "mcp",
      method: "POST",
      path: "/mcp",
      auth: "bearer",
      scope: null,
      authenticate,
      challenge,
      bodyMaxBytes: BODY_MAX_BYTES,
      hasNoTimeout: true,
      countsWrites: "itself",
      faults: ["validation_failed", "limit_reached"],
      document: {
        parameters: [
          {
            name: "toolsets",
            in: "query",
            description: "Which tools to list, separated by commas; default all",
            style: "form",
            explode: false,
            schema: {
              type: "array",
              minItems: 1,
              maxItems: TOOLSETS.length,
              items: { type: "string", enum: TOOLSETS },
            },
          },
          {
            name: "readonly",
            in: "query",
            description: "Whether to offer only what changes nothing; default no",
            schema: { type: "boolean" },
          },
        ],
        requestBody: jsonBody(MESSAGE, { jsonrpc: "2.0", id: 1, method: "tools/list" }),
        responses: {
          "200": {
            description: "The result, as JSON or as a stream",
            content: { "application/json": { schema: MESSAGE }, "text/event-stream": { schema: { type: "string" } } },
          },
          "202": { description: "A notification was accepted" },
          "400": jsonResponse("The message is not valid, with the protocol's own error where it is a message", MESSAGE),
          "406": jsonResponse("The Accept header excludes JSON or a stream; both are needed", MESSAGE),
        },
      },
      handle: (request, call) => this.#handle(request, call),
    };
  }

  /** Checks the listeners of a principal and its agents after a change of its rights or tokens. */
  revalidatePrincipal(tenantId: string, principalId: string): void {
    for (const listener of this.#listeners) {
      const { actor } = listener;
      const concerns = actor.principalId === principalId || actor.ownerId === principalId;
      if (actor.tenantId === tenantId && concerns) listener.check();
    }
  }

  /** Ends what stays open. */
  close(): void {
    for (const listener of [...this.#listeners]) listener.end();
  }

  async #handle(request: Request, call: RouteCall & { actor: Actor }): Promise<Response> {
    const { origins, metrics } = this.#deps;
    const mayUse = tenantOriginCheck(request, origins, metrics);
    if (mayUse?.(call.actor.tenantId) === false) throw originNotAllowed(request.headers.get("Origin") ?? "");
    const { toolsets, readonly } = parseQuery(request, Query);
    const named = withNamedTypes(request);
    const message = requireMessage(call.body);
    const context: ToolContext = {
      endCharge: once(beginCharge()),
      actor: call.actor,
      client: clientOf(request, call.ip),
      requestId: call.requestId,
      agentHops: Math.max(hopsOf(metaOf(message)["baggage"]), hopsOf(request.headers.get("baggage"))),
      signal: call.signal,
      isReadOnly: readonly === "true",
      toolsets: new Set(toolsets),
    };
    const method = typeof message.method === "string" && METHODS.has(message.method) ? message.method : "other";
    const response = method === "subscriptions/listen"
      ? await this.#listen(named, message, context)
      : await this.#answer(named, message, context);
    context.endCharge();
    metrics.mcpRequests.inc({ method, status: String(response.status) });
    return response;
  }

  async #answer(request: Request, message: Message, context: ToolContext): Promise<Response> {
    const sdk = await loadSdk();
    const parts = { tools: this.#tools, resources: this.#resources, version: this.#deps.version };
    const handler = sdk.createMcpHandler(() => createServer(sdk, parts, context), { onerror: logError });
    return await handler.fetch(request, { parsedBody: message });
  }

  async #listen(request: Request, message: Message, context: ToolContext): Promise<Response> {
    const sdk = await loadSdk();
    const place = this.#places.enter(chargedTo(context.actor));
    const parts = { tools: this.#tools, resources: this.#resources, version: this.#deps.version };
    let end = (): void => {};
    const listener = new ResourceListener(context.actor, {
      ...this.#deps,
      canRead: (actor, uri) => this.#canRead({ ...context, actor }, uri),
      onEnd: () => {
        place[Symbol.dispose]();
        this.#listeners.delete(listener);
        end();
      },
    });
    this.#listeners.add(listener);
    try {
      const narrowed = await this.#narrow(message, context, listener);
      const handler = sdk.createMcpHandler(() => createServer(sdk, parts, context), {
        bus: listener,
        onerror: logError,
      });
      end = () => void handler.close();
      const response = await handler.fetch(request, { parsedBody: narrowed });
      if (response.headers.get("Content-Type") !== "text/event-stream") listener.end();
      else listener.start();
      return countReads(response, listener);
    } catch (thrown) {
      listener.end();
      throw thrown;
    }
  }

  /** The message without resources that the caller may not read: they look like those that do not exist. */
  async #narrow(message: Message, context: ToolContext, listener: ResourceListener): Promise<Message> {
    const params = objectOf(message.params);
    const filter = objectOf(params.notifications);
    const asked = Array.isArray(filter.resourceSubscriptions) ? filter.resourceSubscriptions : [];
    const allowed: string[] = [];
    for (const uri of new Set(asked.slice(0, TARGETS_MAX))) {
      if (typeof uri !== "string") continue;
      try {
        await listener.add(await this.#resources.target(context, uri));
        allowed.push(uri);
      } catch (thrown) {
        if (Fault.from(thrown).spec.status >= 500) throw thrown;
        // Not acknowledged.
      }
    }
    const notifications = { ...filter, resourceSubscriptions: allowed };
    return { ...message, params: { ...params, ...params.notifications === undefined ? {} : { notifications } } };
  }

  async #canRead(context: ToolContext, uri: string): Promise<boolean> {
    try {
      await this.#resources.assertReadable(context, uri);
      return true;
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (fault.spec.status >= 500 || fault.code === "rate_limited") throw fault;
      return false;
    }
  }
}

type Message = Record<string, unknown>;

const MESSAGE = {
  type: "object",
  properties: {
    jsonrpc: { type: "string", const: "2.0", description: "Version of JSON-RPC" },
    id: { anyOf: [{ type: "string" }, { type: "number" }, { type: "null" }], description: "Id of the request" },
    method: { type: "string", description: "Method of a request or notification" },
  },
  additionalProperties: true,
};

function metaOf({ params }: Message): Record<string, unknown> {
  return objectOf(objectOf(params)._meta);
}

/**
 * One message: a list of them would be as many calls at the price of one. The SDK takes much longer for an object of many fields
 * than it takes to read it, so messages and their parts have only so many.
 */
function requireMessage(body: unknown): Message {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new Fault("validation_failed", "Expected one JSON-RPC message");
  }
  const message = body as Message;
  const params = objectOf(message.params);
  const parts = [
    message,
    params,
    ...Object.values(params).map(objectOf),
    ...Object.values(metaOf(message)).map(objectOf),
  ];
  if (parts.some((part) => Object.keys(part).length > FIELDS_MAX)) {
    throw new Fault("validation_failed", `Expected objects of at most ${FIELDS_MAX} fields`);
  }
  return message;
}

/** The request with both types named, if its `Accept` includes them: the SDK does not match wildcards, as curl sends. */
function withNamedTypes(request: Request): Request {
  if (!MEDIA_TYPES.every((type) => acceptsType(request.headers, type))) return request;
  const headers = new Headers(request.headers);
  headers.set("Accept", MEDIA_TYPES.join(", "));
  return new Request(request.url, { method: request.method, headers, signal: request.signal });
}

/** The function, which does nothing when it is called again. */
function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) work();
    isDone = true;
  };
}

/** The response, whose listener learns what its client has read, and that it has left. */
function countReads(response: Response, listener: ResourceListener): Response {
  if (response.body === null) return response;
  const reader = response.body.getReader();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      listener.markRead();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      listener.end();
      await reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
  return new Response(body, response);
}

function logError(error: Error): void {
  log.debug("request refused", failureOf(error));
}
