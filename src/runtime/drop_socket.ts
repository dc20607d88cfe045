// For Deno 2.9.6. Drops the connection of a WebSocket at once, whatever its peer does.
//
// Fault: there is no public way to do so. `close()` waits for the peer's close frame forever, reads all that it sends
// meanwhile, and buffers each message until its last fragment, however long it grows:
//
//   const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
//   socket.onopen = () => socket.close(); // A peer that does not answer keeps the connection, and may go on sending.
//
// Delete it when sockets have a `terminate()` or an equal. tests/runtime_test.ts fails when the internal names change.

/** The runtime's internals. */
type Internals = {
  internal?: symbol;
  [internal: symbol]: { core?: { tryClose?(resource: number): void } } | undefined;
};

/** Drops the connection and the buffer of an unfinished message. If the internals are missing, it waits for the peer. */
export function dropSocket(socket: WebSocket): void {
  // A message completed in the same tick would arrive without its data.
  socket.onmessage = null;
  const runtime = Deno as unknown as Internals; // Not in its types.
  const core = runtime.internal === undefined ? undefined : runtime[runtime.internal]?.core;
  const key = internalKey(socket, "[[rid]]");
  const resource: unknown = key === undefined ? undefined : Reflect.get(socket, key);
  if (typeof resource !== "number") return;
  // The runtime takes the socket for open until it has noticed, and panics if something is sent meanwhile.
  const state = internalKey(socket, "[[readyState]]");
  if (state !== undefined && socket.readyState === WebSocket.OPEN) Reflect.set(socket, state, WebSocket.CLOSING);
  core?.tryClose?.(resource);
}

/** The symbol of one of the runtime's own properties of a socket. */
export function internalKey(socket: WebSocket, name: string): symbol | undefined {
  return Object.getOwnPropertySymbols(socket).find(({ description }) => description === name);
}
