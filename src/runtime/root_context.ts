// For Deno 2.9.6. Has the runtime's callbacks run in the async context in which they were made.
//
// Requests begin outside of calls and transactions for the same reason, in `app.ts`: the span of a request is in its context.
//
// Fault: requests and what arrives on sockets of `node:net` are handed over in whatever context is current, which under load may be
// that of another request. A write of it would then be part of that request's transaction, and acknowledged before its commit:
//
//   Deno.serve(() => new Response(String(storage.getStore()))); // storage is an AsyncLocalStorage
//   storage.enterWith("of another"); // The response to a later request is "of another".
//
// Delete it when tests/runtime_test.ts says that such a request has no context.
import { AsyncLocalStorage } from "node:async_hooks";

/** The callback, always called in the context that calls this. */
export function inThisContext<Args extends unknown[], Result>(
  callback: (...args: Args) => Result,
): (...args: Args) => Result {
  const run = AsyncLocalStorage.snapshot();
  return (...args) => run(callback, ...args);
}
