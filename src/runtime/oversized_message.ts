// For Deno 2.9.6. Prevents the process from ending when a WebSocket sends a message longer than the longest string.
//
// Fault: frames are limited to 64 MiB, but not the sum of a message's fragments. A text of more than 512 MiB rejects a promise
// inside the runtime that no code can handle, and an unhandled rejection ends the process:
//
//   for (let n = 0; n < 9; n++) client.write(frame({ opcode: n === 0 ? "text" : "continuation", length: 64 * 2 ** 20 }));
//
// Delete it when messages can be limited, or such a message ends only its socket: tests/fault/long_message_test.ts then passes
// without it.

/** Handles those rejections from now on; `onOversized` receives the runtime's message. */
export function ignoreOversizedMessage(onOversized: (cause: string) => void): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    const { reason } = event;
    if (!(reason instanceof TypeError) || !reason.message.includes("buffer exceeds maximum length")) return;
    event.preventDefault();
    onOversized(reason.message);
  });
}
