// For Deno 2.9.6. The next tick of the event loop, before which the runtime looks for input when it has not done so for some time.
//
// Fault: while ticks follow each other at once, the runtime looks for input in one of 61 only. With 4 ms in each, what arrives
// waits for a quarter of a second:
//
//   for (;;) { workFor(4); await new Promise((resolve) => setImmediate(resolve)); } // requests take 240 ms
//
// Delete it when tests/runtime_test.ts says that the runtime looks in each tick.
import { setImmediate } from "node:timers";

/** How long the runtime need not look. To make it look takes a millisecond or two, in which the thread has nothing to do. */
const UNSEEN_MS = 12;

let isServing = false;
let lookedAt = -Infinity;
let hasInput = false;
/** What begins once the runtime has looked. */
let waiting: (() => void)[] = [];

/** The handler of a server. In processes without one nobody waits for the runtime to look. */
export function noticingRequests<Info extends Deno.Addr>(handler: Deno.ServeHandler<Info>): Deno.ServeHandler<Info> {
  isServing = true;
  return (request, info) => {
    noteInput();
    return handler(request, info);
  };
}

/** To be called when other input arrives: the runtime has just looked. */
export function noteInput(): void {
  hasInput = true;
}

/** Calls back in the next tick. */
export function onNextTick(callback: () => void): void {
  if (!isServing) return void setImmediate(callback);
  const now = performance.now();
  if (hasInput || now < lookedAt) lookedAt = now;
  hasInput = false;
  if (waiting.length === 0 && now - lookedAt < UNSEEN_MS) return void setImmediate(callback);
  // Until a timer that starts now is due, it looks.
  if (waiting.push(callback) === 1) setTimeout(begin, 0);
}

function begin(): void {
  lookedAt = performance.now();
  const callbacks = waiting;
  waiting = [];
  for (const callback of callbacks) callback();
}
