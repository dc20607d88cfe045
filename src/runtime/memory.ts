// For Deno 2.9.6. Estimates the memory that messages of WebSockets use.
//
// Fault: the runtime buffers a message until its last fragment, of all sockets together without limit, and does not
// report it, neither for one socket nor for all. The buffers are outside of the JavaScript heap, so the memory outside of that heap
// is measured, and what sending uses is estimated:
//
//   socket.onmessage = () => {}; // Not called while fragments without end arrive; only `Deno.memoryUsage().rss` grows.
//
// Delete it, and transport/ws/memory_guard.ts with it, when the length of a message can be limited.
import process from "node:process";

/** The runtime retains a buffer of the largest frame of each socket, and does not release sent frames at once. */
const WRITE_COPIES = 2;

/** Bytes that the process uses outside of the heap. */
export function memoryOutsideHeap(): number {
  const { rss, heapTotal, external } = Deno.memoryUsage();
  return rss - heapTotal - external;
}

/** What a thread may add to it while it starts; mostly about 25 MiB. */
const THREAD_START_BYTES = 48 * 1024 * 1024;
let startingThreads = 0;

/** Counts a thread that starts, until it is disposed of. */
export function countStartingThread(): Disposable {
  startingThreads++;
  return { [Symbol.dispose]: () => void startingThreads-- };
}

/** The part of it that threads which start now may add. */
export function startingThreadBytes(): number {
  return startingThreads * THREAD_START_BYTES;
}

/** The estimated part of it for sending, for a socket whose sent frames had up to `largestFrame` bytes. */
export function estimateSendBytes(socket: WebSocket, largestFrame: number): number {
  return socket.bufferedAmount + largestFrame * WRITE_COPIES;
}

/** The memory limit of the container; `Infinity` if there is none, or the runtime may not read it. */
export function containerMemoryLimit(): number {
  try {
    return process.constrainedMemory() || Infinity;
  } catch {
    // Throws without `--allow-sys=systemMemoryInfo`.
    return Infinity;
  }
}
