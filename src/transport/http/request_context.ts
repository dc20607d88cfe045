// The context of one request: ids, addresses, response headers, cancellation.
import { Buffer } from "node:buffer";
import { Fault } from "@/core/fault.ts";
import type { RouteForm } from "@/core/http/route.ts";
import { TimeoutQueue } from "@/core/time/timeout_queue.ts";
import { baseHeaders, type ResponseData } from "./response.ts";
import type { Meter } from "./meter.ts";

const SAFE_ID = /^[A-Za-z0-9_.-]{1,64}$/;
const BEARER = /^Bearer +[^ ]/i;

export class RequestContext {
  readonly startedAt = performance.now();
  readonly request: Request;
  readonly requestId: string;
  /** The client's address as seen through trusted proxies. */
  readonly ip: string;
  readonly isHttps: boolean;
  /** Path as sent, without the query. */
  readonly path: string;
  /** Query as sent, without the question mark. */
  readonly query: string;
  /** Headers of the response. */
  readonly headers: Record<string, string>;
  /** The meter of the route; set once the route is known. */
  meter: Meter | undefined;
  /** Whether it runs on the account of its caller. */
  isServed = false;
  /** Parameters of `WWW-Authenticate`, besides an error code. */
  challenge: string | undefined;
  /** How the route describes a failure, if not as a problem. */
  form: RouteForm | undefined;
  /** Throws if the tenant does not allow the web origin; set for origins that only some tenants allow. */
  assertOrigin: (tenantId: string) => void = allowAnyTenant;
  #controller: AbortController | undefined;

  constructor(request: Request, ip: string, isHttps: boolean) {
    this.request = request;
    this.ip = ip;
    this.isHttps = isHttps;
    const url = request.url;
    const pathAt = url.indexOf("/", url.indexOf("://") + 3);
    const queryAt = url.indexOf("?", pathAt);
    const hashAt = url.indexOf("#", pathAt);
    const end = hashAt < 0 ? url.length : hashAt;
    const hasQuery = queryAt >= 0 && queryAt < end;
    // CONNECT has no path.
    this.path = pathAt < 0 ? "/" : url.slice(pathAt, hasQuery ? queryAt : end);
    this.query = hasQuery ? url.slice(queryAt + 1, end) : "";
    const id = request.headers.get("X-Request-Id");
    this.requestId = id !== null && SAFE_ID.test(id) ? id : crypto.randomUUID();
    this.headers = baseHeaders(this.requestId);
  }

  /** Whether the request has a bearer token, valid or not. */
  get hasToken(): boolean {
    return BEARER.test(this.request.headers.get("Authorization") ?? "");
  }

  /** Aborted when the client disconnects or the request times out. Created at first use, since it is costly. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      const client = this.request.signal;
      if (client.aborted) controller.abort(client.reason);
      else client.addEventListener("abort", () => controller.abort(client.reason), { once: true });
    }
    return this.#controller.signal;
  }

  abort(reason: Fault): void {
    this.#controller ??= new AbortController();
    this.#controller.abort(reason);
  }

  get isAborted(): boolean {
    return this.#controller?.signal.aborted ?? false;
  }

  /** The Response of response data, with the common headers. `toBody` replaces a long body by one in pieces. */
  toResponse(
    { status, headers, body }: ResponseData,
    toBody: (text: string) => { body: BodyInit; length?: number } = (text) => ({ body: text }),
  ): Response {
    const all: Record<string, string> = { ...this.headers, ...headers };
    const isHead = this.request.method === "HEAD" && body !== null;
    // Without it the runtime would send a length of 0.
    if (isHead) all["Content-Length"] = String(Buffer.byteLength(body));
    if (isHead || body === null) return new Response(null, { status, headers: all });
    const sent = toBody(body);
    if (sent.length !== undefined) all["Content-Length"] = String(sent.length);
    return new Response(sent.body, { status, headers: all });
  }

  /** Adds the common headers to a Response of a route; its own have precedence. */
  withHeaders(response: Response): Response {
    if (response.status === 101) return response;
    try {
      return addHeaders(response, this.headers);
    } catch {
      // Headers of a redirect or a fetched response are immutable.
      return addHeaders(new Response(response.body, response), this.headers);
    }
  }
}

/** The timeout of requests: work that exceeds it is aborted. */
export class RequestTimeouts {
  readonly #timeoutMs: number;
  readonly #queue: TimeoutQueue;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#queue = new TimeoutQueue(timeoutMs);
  }

  /** The result of `work`; `unavailable` after the timeout. */
  run<Result>(context: RequestContext, work: Promise<Result>): Promise<Result> {
    return this.#queue.run(work, () => {
      const fault = new Fault("unavailable", `The request took longer than ${Math.round(this.#timeoutMs / 1000)} s`);
      context.abort(fault);
      return fault;
    });
  }
}

function allowAnyTenant(): void {}

function addHeaders(response: Response, headers: Record<string, string>): Response {
  for (const [name, value] of Object.entries(headers)) {
    if (name === "Vary") response.headers.append(name, value);
    else if (!response.headers.has(name)) response.headers.set(name, value);
  }
  return response;
}
