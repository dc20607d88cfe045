// For Deno 2.9.6. Estimates the memory that messages of WebSockets use.
//
// Fault: the runtime buffers a message until its last fragment, of all sockets together without limit, and does not
// report it, neither for one socket nor for all. The buffers are outside of the JavaScript heap, so the memory outside of that heap
// is measured, and what sending uses is estimated:
//
//   socket.onmessage = () => {}; // Not called while fragments without end arrive; only `Deno.memoryUsage().rss` grows.
//
// Delete it, and transport/shared/memory_guard.ts with it, when the length of a message can be limited.
import process from "node:process";

/** The runtime retains a buffer of the largest frame of each socket, and does not release sent frames at once. */
const WRITE_COPIES = 2;

export type MemoryUsage = Pick<Deno.MemoryUsage, "rss" | "heapTotal" | "external">;

/** What JavaScript uses: its heap, and the buffers of its arrays. */
const PARTS = ["heapTotal", "external"] as const;

/**
 * Measures the bytes that a process uses outside of its heap. When the heap shrinks, the engine keeps its pages for some time, as
 * many as fit the space of young objects: they belong to neither. So does the allocator with the pages of large buffers. They are
 * counted from one measurement to the next as what each part has lost and the system has not got back, until the part takes them
 * again or the system gets them.
 */
export class MemoryOutsideHeap {
  readonly #usage: () => MemoryUsage;
  #last: MemoryUsage | undefined;
  readonly #kept = { heapTotal: 0, external: 0 };

  constructor(usage: () => MemoryUsage) {
    this.#usage = usage;
  }

  measure(): number {
    const usage = this.#usage();
    const last = this.#last ?? usage;
    let bytes = usage.rss;
    let returned = Math.max(0, last.rss - usage.rss);
    for (const part of PARTS) {
      const kept = Math.max(0, this.#kept[part] + last[part] - usage[part]);
      this.#kept[part] = Math.max(0, kept - returned);
      returned = Math.max(0, returned - kept);
      bytes -= usage[part] + this.#kept[part];
    }
    this.#last = usage;
    return bytes;
  }
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

/** How long the memory of a thread that has ended may take to be released. */
const RELEASE_MS = 1000;
/** What threads work with, each until a time. */
const work = new Set<{ bytes: number; until: number }>();

/** Counts what a thread works with besides, until a moment after it is disposed of. */
export function countWorkingBytes(bytes: number): Disposable {
  const entry = { bytes, until: Infinity };
  work.add(entry);
  return { [Symbol.dispose]: () => void (entry.until = performance.now() + RELEASE_MS) };
}

/** The part of it that threads work with. */
export function workingThreadBytes(): number {
  let sum = 0;
  for (const entry of work) {
    if (entry.until < performance.now()) work.delete(entry);
    else sum += entry.bytes;
  }
  return sum;
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
