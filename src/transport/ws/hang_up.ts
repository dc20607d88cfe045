// The end of a socket whose peer does not let go of it: the runtime waits for such a peer for ever, reads all it sends, and
// keeps each message until its last fragment, however long it grows.

/** What the runtime has for its own use: there is no public way to drop a connection. */
type Runtime = { internal?: symbol; [internal: symbol]: { core?: { tryClose?(resource: number): void } } | undefined };

/** Closes; drops the connection when the peer has not let go of it in time, and calls `gone` then. */
export function hangUp(
  socket: WebSocket,
  code: number | undefined,
  reason: string | undefined,
  gone: () => void,
  lingerMs: number,
): void {
  socket.close(code, reason);
  const timer = setTimeout(() => {
    drop(socket);
    gone();
  }, lingerMs);
  // A process that ends does not wait for it.
  Deno.unrefTimer(timer);
  socket.addEventListener("close", () => clearTimeout(timer), { once: true });
}

/** Without these insides, in another version of the runtime, the peer is waited for as before; a test would tell. */
function drop(socket: WebSocket): void {
  const runtime = Deno as unknown as Runtime; // undeclared, as said
  const core = runtime.internal === undefined ? undefined : runtime[runtime.internal]?.core;
  const key = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "[[rid]]");
  const resource: unknown = key === undefined ? undefined : Reflect.get(socket, key);
  if (typeof resource === "number") core?.tryClose?.(resource);
}
