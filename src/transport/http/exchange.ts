// One request and what becomes of it: ids, addresses and the headers that every answer to it carries.
import { Buffer } from "node:buffer";
import type { Fault } from "@/core/fault.ts";
import type { Answer } from "./answer.ts";
import { baseHeaders } from "./headers.ts";
import type { Meter } from "./meter.ts";

const SAFE_ID = /^[A-Za-z0-9_.-]{1,64}$/;

/** The state of one request. */
export class Exchange {
  readonly startedAt = performance.now();
  readonly request: Request;
  readonly requestId: string;
  /** The client's address, seen through trusted proxies. */
  readonly ip: string;
  readonly isHttps: boolean;
  /** Path as sent, without the query. */
  readonly path: string;
  /** Query as sent, without the question mark. */
  readonly query: string;
  /** Headers of whatever the answer will be. */
  readonly headers: Record<string, string>;
  /** Where this request is counted; set once the route is known. */
  meter: Meter | undefined;
  /** Throws where the page that calls may not for this tenant; replaced for pages that only some tenants let in. */
  assertOrigin: (tenantId: string) => void = anyTenant;
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
    // CONNECT comes without a path.
    this.path = pathAt < 0 ? "/" : url.slice(pathAt, hasQuery ? queryAt : end);
    this.query = hasQuery ? url.slice(queryAt + 1, end) : "";
    const id = request.headers.get("X-Request-Id");
    this.requestId = id !== null && SAFE_ID.test(id) ? id : crypto.randomUUID();
    this.headers = baseHeaders(this.requestId);
  }

  /** Ends when the client goes away or the time is up. Made on first use, since few calls listen and it is not free. */
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

  /** Ends the signal, for whoever listens to it. */
  abort(reason: Fault): void {
    this.#controller ??= new AbortController();
    this.#controller.abort(reason);
  }

  /** Whether somebody's work was told to stop. */
  get isAborted(): boolean {
    return this.#controller?.signal.aborted ?? false;
  }

  /** The Response of an answer, with the headers of every answer. */
  respond({ status, headers, body }: Answer): Response {
    const all: Record<string, string> = { ...this.headers, ...headers };
    const isBare = this.request.method === "HEAD" && body !== null;
    // Of what is not there the engine would say that it is empty.
    if (isBare) all["Content-Length"] = String(Buffer.byteLength(body));
    return new Response(isBare ? null : body, { status, headers: all });
  }

  /** Adds the headers of every answer to a Response made elsewhere; its own win. */
  dress(response: Response): Response {
    if (response.status === 101) return response;
    try {
      return dressed(response, this.headers);
    } catch {
      // Headers of a redirect or a fetched response cannot be changed.
      return dressed(new Response(response.body, response), this.headers);
    }
  }
}

function anyTenant(): void {}

function dressed(response: Response, headers: Record<string, string>): Response {
  for (const [name, value] of Object.entries(headers)) {
    if (name === "Vary") response.headers.append(name, value);
    else if (!response.headers.has(name)) response.headers.set(name, value);
  }
  return response;
}
