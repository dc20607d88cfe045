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
const PORTS = 65_536;
/** What a connection does, by the port of its client. Clients on several hosts may have the same port, but hardly in one tick. */
const IDLE = 0;
const PENDING = 1;
const ANSWERED = 2;

const SWITCHING_PROTOCOLS = 101;

type Info = Deno.ServeHandlerInfo<Deno.NetAddr>;
type Handler = (request: Request, info: Info) => Response | Promise<Response>;

/** The handler, for connections whose requests await the responses before them. */
export function withoutPipelines(handler: Handler): Handler {
  const states = new Uint8Array(PORTS);
  /** How many requests in a row have come too early. */
  const early = new Uint8Array(PORTS);
  /** Those with a response since the last tick. */
  let answered: number[] = [];

  function forget(): void {
    for (const port of answered) if (states[port] === ANSWERED) states[port] = IDLE;
    answered = [];
  }

  function onAnswered(port: number): void {
    states[port] = ANSWERED;
    if (answered.push(port) === 1) setImmediate(forget);
  }

  return function handle(request, info) {
    const { port } = info.remoteAddr;
    // Only HTTP/2 sends the next one while one is pending.
    const count = states[port] === ANSWERED ? Math.min((early[port] ?? 0) + 1, AHEAD_MAX + 1) : 0;
    early[port] = count;
    // The response before has announced it.
    if (count > AHEAD_MAX) return closingResponse();
    states[port] = PENDING;
    const response = handler(request, info);
    if (response instanceof Promise) {
      const mark = (): void => onAnswered(port);
      response.then(mark, mark);
    } else onAnswered(port);
    return count === AHEAD_MAX ? announceEnd(response) : response;
  };
}

async function announceEnd(pending: Response | Promise<Response>): Promise<Response> {
  const response = await pending;
  return response.status === SWITCHING_PROTOCOLS ? response : announcingEnd(response);
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
