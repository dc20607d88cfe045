// For Deno 2.9.6. Ends a request whose body is not wanted.
//
// Fault: after the response, the runtime reads a body of known length to its end, however long it is, and discards it. A stranger
// can keep a core busy with that:
//
//   Deno.serve(() => new Response(null, { status: 401 })); // `curl --data-binary @10GB` is read for ten seconds.
//
// Delete it when tests/runtime_test.ts says that the connection is closed instead.

/**
 * Call it before the response is returned, for a body that nobody has read. Of what the client sends, no more is read than fits
 * the buffers of its connection, which is closed after `lingerMs`: a client that is still sending can read the response until
 * then. Resolves when it has been closed.
 */
export async function closeUnread(body: ReadableStream<Uint8Array>, lingerMs: number): Promise<void> {
  // A reader that does not read keeps the runtime from reading.
  const reader = body.getReader();
  await new Promise<void>((resolve) => Deno.unrefTimer(setTimeout(resolve, lingerMs)));
  // It fails where the client has closed the connection itself.
  await reader.cancel().catch(() => {});
}
