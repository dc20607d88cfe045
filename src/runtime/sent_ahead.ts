// For Deno 2.9.6. Closes connections that go on sending requests ahead.
//
// Fault: until a response has left, the runtime reads all that its client sends, without limit, and moves it for each request that
// it takes from it. So one connection of a stranger takes all memory, and the time of the thread:
//
//   Deno.serve(async () => (await delay(1), new Response())); // `yes $'GET / HTTP/1.1\r\nHost: x\r\n\r' | nc 127.0.0.1 8000`
//
// Delete it when tests/runtime_test.ts says that what is sent ahead waits in the buffers of its connection (denoland/deno#36869).

/**
 * Requests in a row that arrived before the next tick after a response. A client on the same core may be as fast as one that sends
 * ahead; then it learns that the connection ends, and opens another one.
 */
const AHEAD_MAX = 20;
/** Connections that are remembered. */
const CONNECTIONS_MAX = 10_000;

const SWITCHING_PROTOCOLS = 101;

type Info = Deno.ServeHandlerInfo<Deno.NetAddr>;
type Handler = (request: Request, info: Info) => Response | Promise<Response>;

/** The handler, for connections whose requests await the responses before them. */
export function withoutPipelines(handler: Handler): Handler {
  /** Connections with a request, from its arrival until the tick after its response. */
  const busy = new Map<string, "pending" | "answered">();
  /** How many requests in a row have come too early. */
  const ahead = new Map<string, number>();

  /** Counts a request; returns how many of its connection have come too early. */
  function count(connection: string): number {
    // Only HTTP/2 sends the next one while one is pending.
    if (busy.get(connection) !== "answered") {
      if (ahead.size > 0) ahead.delete(connection);
      return 0;
    }
    const early = (ahead.get(connection) ?? 0) + 1;
    if (ahead.size >= CONNECTIONS_MAX) ahead.clear();
    ahead.set(connection, early);
    return early;
  }

  return function handle(request, info) {
    const { hostname, port } = info.remoteAddr;
    const connection = `${hostname} ${port}`;
    const early = count(connection);
    // The response before has announced it.
    if (early > AHEAD_MAX) return closingResponse();
    busy.set(connection, "pending");
    return respond(connection, request, info, early === AHEAD_MAX);
  };

  async function respond(connection: string, request: Request, info: Info, isLast: boolean): Promise<Response> {
    try {
      const response = await handler(request, info);
      return isLast && response.status !== SWITCHING_PROTOCOLS ? announcingEnd(response) : response;
    } finally {
      busy.set(connection, "answered");
      setImmediate(() => busy.delete(connection));
    }
  }
}

function announcingEnd(response: Response): Response {
  const last = new Response(response.body, response);
  last.headers.set("Connection", "close");
  return last;
}

/** A response that is shorter than it says ends its connection. */
export function closingResponse(): Response {
  return new Response(new Blob([]).stream(), { status: 429, headers: { "Content-Length": "1" } });
}
