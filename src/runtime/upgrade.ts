// For Deno 2.9.6. Upgrades a request to a WebSocket, and reports reliably when that socket has ended.
//
// Faults:
// 1. If the client disconnects before `Deno.upgradeWebSocket` is called, the socket never has an event, and its descriptor
//    leaks. So nothing may be awaited between the arrival of the request and this call:
//
//      Deno.serve(async (request) => {
//        await new Promise((resolve) => setTimeout(resolve, 50)); // The client disconnects meanwhile.
//        const { socket, response } = Deno.upgradeWebSocket(request);
//        socket.onopen = socket.onclose = socket.onerror = () => {}; // None is called.
//        return response;
//      });
//
//    A disconnect between the call and the response is not always reported either; hence the timeout here.
// 2. A socket that fails has an `error` event, not always followed by `close`.
//
// Delete it when tests/runtime_test.ts says that such a socket has its events; then upgrades may wait (see `handle` in
// transport/http/server.ts), and listening to `close` is enough.

type UpgradeOptions = {
  /** The subprotocol of the response. */
  protocol?: string | undefined;
  /** Seconds without traffic after which the runtime pings; 0 = never. */
  idleTimeout?: number | undefined;
  /** A socket that is not open by then has ended. */
  openTimeoutMs: number;
  onOpen(): void;
  /** The socket has closed or failed, or has not opened in time; may be called several times. */
  onEnd(): void;
};

const ONCE = { once: true };

/** The socket, and the response that upgrades. To be called in the tick in which the request arrived. */
export function upgradeWebSocket(
  request: Request,
  { protocol, idleTimeout, openTimeoutMs, onOpen, onEnd }: UpgradeOptions,
): { socket: WebSocket; response: Response } {
  const { socket, response } = Deno.upgradeWebSocket(request, {
    ...(idleTimeout === undefined ? {} : { idleTimeout }),
    ...(protocol === undefined ? {} : { protocol }),
  });
  const end = (): void => {
    clearTimeout(timer);
    onEnd();
  };
  let timer: ReturnType<typeof setTimeout> | undefined = setTimeout(end, openTimeoutMs);
  Deno.unrefTimer(timer);
  // Handlers such as `onopen` take more memory than listeners, since the runtime wraps each; this one ends with its event.
  const open = (): void => {
    clearTimeout(timer);
    timer = undefined;
    onOpen();
  };
  socket.addEventListener("open", open, ONCE);
  socket.addEventListener("close", end);
  socket.addEventListener("error", end);
  return { socket, response };
}
