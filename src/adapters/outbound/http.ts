// Outbound calls over node:http(s), which can connect to a given address and still verify the certificate of a name; `fetch` cannot.
import { lookup } from "node:dns/promises";
import http from "node:http";
import https from "node:https";
import ipaddr from "ipaddr.js";
import {
  hostOf,
  type Outbound,
  OutboundError,
  type OutboundErrorCode,
  type OutboundOptions,
} from "@/ports/outbound.ts";
import { AddressPolicy, type Resolve } from "./address_policy.ts";
import { boundConnection } from "./connection_bounds.ts";
import { type BodyOptions, createBodyStream } from "./response_body.ts";

const CONNECT_MS = 5000;
/** Limit for an address of a name that has further ones: where IPv6 leads nowhere, its packets are often just lost. */
const NEXT_ADDRESS_MS = 1000;
/** Unless a caller says otherwise. */
export const TOTAL_MS = 15_000;
const BODY_MAX_BYTES = 64 * 1024;
const NULL_BODY_STATUSES: ReadonlySet<number> = new Set([204, 205, 304]);
/** Set by this adapter: what a caller says here would contradict it. */
const OWN_HEADERS = ["host", "connection", "content-length", "transfer-encoding", "accept-encoding"];

/** A stream is sent in chunks, whose number of bytes nobody knows before. */
type Body = Uint8Array | ReadableStream<Uint8Array> | undefined;
type Init = NonNullable<Parameters<Outbound>[1]>;

export type OutboundDeps = {
  /** Private services that the operator allows everybody to call: names, addresses and networks. */
  allow: readonly string[];
  resolve?: Resolve;
  /** Limit of resolving and connecting. */
  connectMs?: number;
  /** Certificates that are trusted besides those of the host. */
  ca?: string;
  /** Counts a call when its response begins, or when it fails before: `responded`, `cancelled` or the code of the error. */
  count?: (outcome: string) => void;
};

/** Creates the one `fetch` of the gateway. */
export function createOutbound(
  { allow, resolve = resolveName, connectMs = CONNECT_MS, ca, count = () => {} }: OutboundDeps,
): Outbound {
  const policy = new AddressPolicy(allow, resolve);
  let jsonBodies = 0;

  async function outbound(input: string | URL, init: Init = {}, options: OutboundOptions = {}): Promise<Response> {
    try {
      const response = await call(input, init, options);
      count("responded");
      return response;
    } catch (thrown) {
      // Nobody reads it now. A body that was sent has a reader, which ends with its request.
      if (init.body instanceof ReadableStream && !init.body.locked) void init.body.cancel(thrown);
      count(thrown instanceof OutboundError ? thrown.code : init.signal?.aborted ? "cancelled" : "failed");
      throw thrown;
    }
  }

  async function call(input: string | URL, init: Init = {}, options: OutboundOptions = {}): Promise<Response> {
    const { allow: own = [], totalMs = TOTAL_MS, bodyMaxBytes = BODY_MAX_BYTES, json } = options;
    const url = new URL(input);
    policy.assertUrl(url, own);
    const { signal } = init;
    signal?.throwIfAborted();
    const body = init.body instanceof ReadableStream ? init.body : await bytesOf(init.body);
    const call = new AbortController();
    const timer = totalMs === Infinity
      ? undefined
      : setTimeout(() => call.abort(timedOut(`No response within ${totalMs} ms`)), totalMs);
    const cancel = (): void => call.abort(signal?.reason);
    signal?.addEventListener("abort", cancel, { once: true });
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
    };
    try {
      const response = await connectToAny(
        await policy.find(hostOf(url), own, { signal: call.signal, ms: connectMs }),
        (address, isLast) =>
          openConnection(url, address, {
            ...init,
            body,
            call,
            bodyMaxBytes,
            connectMs: isLast ? connectMs : Math.min(connectMs, NEXT_ADDRESS_MS),
            ca,
          }),
      );
      return toResponse(response, {
        maxBytes: bodyMaxBytes,
        json,
        call: call.signal,
        end,
        n: json === undefined ? 0 : jsonBodies++,
      });
    } catch (thrown) {
      end();
      throw thrown;
    }
  }

  return Object.assign(outbound, {
    assertAllowed: (url: string | URL, { allow: own = [] }: OutboundOptions = {}) => policy.assertUrl(url, own),
  });
}

/** Connects to the address and sends the request; resolves to the response when that begins. */
function openConnection(
  url: URL,
  address: string,
  { method = "GET", headers, body, call, bodyMaxBytes, connectMs, ca }: Omit<Init, "body"> & {
    body: Body;
    /** Aborted when the call ends. */
    call: AbortController;
    bodyMaxBytes: number;
    connectMs: number;
    ca: string | undefined;
  },
): Promise<http.IncomingMessage> {
  const { promise, resolve: respond, reject } = Promise.withResolvers<http.IncomingMessage>();
  const isTls = url.protocol === "https:";
  const host = hostOf(url);
  const request = (isTls ? https : http).request({
    // No name is looked up after the check.
    host: address,
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    method,
    // The name in the certificate.
    ...(isTls && !ipaddr.isValid(host) ? { servername: host } : {}),
    headers: headersOf(url, headers, body),
    agent: false,
    ...(ca === undefined ? {} : { ca }),
  });
  let isConnected = false;
  const abort = (): void => fail(call.signal.reason);
  const timer = setTimeout(
    () => fail(new ConnectionError("timed_out", `No connection within ${connectMs} ms`, false)),
    connectMs,
  );
  const fail = (reason: unknown): void => {
    clearTimeout(timer);
    call.signal.removeEventListener("abort", abort);
    request.destroy();
    reject(reason);
  };
  call.signal.addEventListener("abort", abort, { once: true });
  boundConnection(request, bodyMaxBytes, (reason) => call.abort(reason));
  request.on("socket", (socket) => {
    socket.once(isTls ? "secureConnect" : "connect", () => {
      isConnected = true;
      clearTimeout(timer);
      // Not before: it can be read only once, and another address may be tried.
      if (body instanceof ReadableStream) void sendStream(request, body).catch(fail);
    });
  });
  request.on("error", (cause: NodeJS.ErrnoException) => {
    const code = cause.code ?? "failed";
    const what = isConnected ? "The connection ended before a response" : "The connection failed";
    fail(new ConnectionError("connection_failed", `${what}: ${code}`, isConnected, { cause }));
  });
  request.on("response", (response) => {
    clearTimeout(timer);
    call.signal.removeEventListener("abort", abort);
    respond(response);
  });
  if (!(body instanceof ReadableStream)) request.end(body);
  return promise;
}

/** A connection that failed; another address may be tried unless this one was connected. */
class ConnectionError extends OutboundError {
  readonly isConnected: boolean;

  constructor(code: OutboundErrorCode, message: string, isConnected: boolean, options?: ErrorOptions) {
    super(code, message, options);
    this.isConnected = isConnected;
  }
}

/** Tries the addresses until one is connected: a host without IPv6 reaches a name that has it, too. */
async function connectToAny<Result>(
  addresses: readonly string[],
  connect: (address: string, isLast: boolean) => Promise<Result>,
): Promise<Result> {
  let failure: unknown;
  for (const [n, address] of addresses.entries()) {
    try {
      return await connect(address, n === addresses.length - 1);
    } catch (thrown) {
      if (!(thrown instanceof ConnectionError) || thrown.isConnected) throw thrown;
      failure = thrown;
    }
  }
  throw failure;
}

/** Sends a body as fast as the connection takes it. */
async function sendStream(request: http.ClientRequest, body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  request.once("close", () => void reader.cancel());
  for (let next = await reader.read(); !next.done && !request.destroyed; next = await reader.read()) {
    if (!request.write(next.value)) await drained(request);
  }
  if (!request.destroyed) request.end();
}

/** Resolves once the connection takes more, or has closed. */
function drained(request: http.ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      request.off("drain", end).off("close", end);
      resolve();
    };
    request.once("drain", end).once("close", end);
  });
}

/** The body in bytes; those that are given as bytes are not copied. */
async function bytesOf(body: Init["body"]): Promise<Uint8Array | undefined> {
  if (body === undefined || body === null || body instanceof Uint8Array) return body ?? undefined;
  return await new Response(body).bytes();
}

/** The response with its body as a stream, which ends the connection when it is cancelled, aborted or too long. */
function toResponse(incoming: http.IncomingMessage, options: BodyOptions): Response {
  const status = incoming.statusCode ?? 0;
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const body = createBodyStream(incoming, options);
  if (!NULL_BODY_STATUSES.has(status)) return new Response(body, { status, headers });
  void body.cancel();
  return new Response(null, { status, headers });
}

function headersOf(url: URL, given: HeadersInit | undefined, body: Body): Record<string, string> {
  const headers = new Headers(given);
  for (const name of OWN_HEADERS) headers.delete(name);
  return {
    ...Object.fromEntries(headers),
    host: url.host,
    connection: "close",
    "accept-encoding": "identity",
    ...(body instanceof Uint8Array ? { "content-length": String(body.length) } : {}),
  };
}

function timedOut(message: string): OutboundError {
  return new OutboundError("timed_out", message);
}

async function resolveName(name: string): Promise<string[]> {
  return (await lookup(name, { all: true })).map(({ address }) => address);
}
