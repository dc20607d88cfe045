// For Deno 2.9.6. Closes a WebSocket so that the peer reads why.
//
// Fault: a message that arrives after `close()` ends the connection at once, instead of being ignored until the peer replies
// with a close frame of its own. The reset overtakes the close frame, so a peer that was sending never reads it:
//
//   socket.close(3000, "shutdown"); // The peer sends a message that was on its way.
//   socket.onclose = () => {};      // Called with that message; no close frame of the peer has arrived.
//
// Delete it when tests/runtime_test.ts says that `close` alone does so, and call `socket.close` instead.
import { internalKey } from "./drop_socket.ts";

/** Closes, and continues to read until the peer has closed as well. Messages still arrive, and are for the caller to ignore. */
export function closeSocket(socket: WebSocket, code: number | undefined, reason: string | undefined): void {
  const wasOpen = socket.readyState === WebSocket.OPEN;
  socket.close(code, reason);
  const key = internalKey(socket, "[[readyState]]");
  // The runtime reads while its state is open.
  if (wasOpen && key !== undefined) Reflect.set(socket, key, WebSocket.OPEN);
}
