// Bounds the memory of input that the runtime buffers without limit: fragments of messages, of all sockets together (see
// runtime/memory.ts), and what clients send before they have a response (see runtime/sent_ahead.ts). So the memory of the process is
// sampled, sockets are closed, and responses that last are cut off.
import { MINUTE_MS } from "@/core/time/clock.ts";
import { logOf } from "@/core/log.ts";
import type { Metrics } from "@/core/metrics.ts";
import { MemoryOutsideHeap, type MemoryUsage, startingThreadBytes, workingThreadBytes } from "@/runtime/memory.ts";

/** A socket as the guard sees it. */
export type GuardedSocket = {
  readonly isAuthenticated: boolean;
  /** Whom its calls are charged to, once it is authenticated. */
  readonly owner: string | undefined;
  /** Whether it has received a complete message. */
  readonly hasReceived: boolean;
  /** Time of its last complete message, by `performance.now()`. */
  readonly lastReceivedAt: number;
  /** Memory of outgoing data, which is outside of the heap too, and bounded elsewhere. */
  readonly writeBytes: number;
  /** Requests a message from the peer, which cannot send it in the middle of another one. */
  probe(): void;
  /** Closes it and frees its memory in the runtime, whatever the peer does. */
  shed(): void;
};

/** A response that is not sent for some time. */
export type GuardedResponse = {
  /** Ends it, and its connection with it. */
  shed(): void;
};

type MemoryGuardOptions = {
  /** Growth at which unresponsive sockets are closed; unauthenticated ones are closed at an eighth of it. */
  budgetBytes: number;
  metrics: Pick<Metrics, "connectionErrors">;
  /** Bytes of the process. The runtime buffers incomplete messages outside of the heap. */
  usage?: () => MemoryUsage;
  /** What threads of the process that start now may add to them. */
  startingBytes?: () => number;
  /** What threads work with, such as the pixels of an image. */
  workingBytes?: () => number;
  now?: () => number;
};

/** The listening time at which a socket was accepted, and the memory of messages then. */
type Acceptance = { at: number; level: number };

/** A part of the time in which the lowest level counts, and how many sockets had been accepted when it began. */
type Window = { lowest: number; accepted: number };

/** A period of shedding: from the first socket closed until memory stops growing. */
type Episode = { peak: number; grewAt: number; closed: number };

const SAMPLE_MS = 25;
/** Interval of samples while memory has grown so far that sockets may soon be closed. */
const ALERT_SAMPLE_MS = 2;
/** To measure takes as long as a part of what a socket does when it is accepted, and often many are in a row. */
const ACCEPT_SAMPLE_MS = 1;
/** Growth is counted from the lowest level of the last one to two windows. Slower growth is bounded by deadlines of sockets. */
const WINDOW_MS = 30_000;
/** Allowance per accepted socket, so that many new connections are not taken for an attack. Freed memory may not be returned. */
const SOCKET_BYTES = 32 * 1024;
/**
 * Time for a peer to respond to a probe; it shrinks as memory grows. Samples are late while the runtime reads: up to 128 reads
 * of all sockets between two samples, which may be 128 MiB.
 */
const PROBE_TIMEOUT = { ms: 250, samples: 2 };
/** The share of unresponsive sockets closed each time that memory has grown further, for each budget that it has grown by. */
const SHED_BATCH = { part: 8, least: 8 };
/**
 * One owner of so many unresponsive sockets, nearly all of its own, is not merely slow: they are closed together. What others
 * have is not closed in their place.
 */
const CROWD = { least: 4, part: 3 / 4 };
const CALM_MS = 300;
/** A continuing attack causes many episodes, but few log entries. */
const WARN_EVERY_MS = MINUTE_MS;
/**
 * The part of the budget at which each step starts. It is small for sockets that are silent, which never sent a complete message:
 * the runtime may read more than 100 MiB before the next sample. It is large for responses, whose clients cannot be probed.
 */
const STEP = { silent: 1 / 32, unauthenticated: 1 / 8, alert: 1 / 4, probe: 1 / 2, responses: 2 };
/**
 * How long a socket may take to send its first message. Before that it is not called silent: in a crowd that comes back, the
 * process grows by 15 MiB at once for its own needs, such as compiling. While it does that it reads nothing: only so much of the
 * time between two samples counts as listening.
 */
const SILENT_MS = 250;
const LISTENING_MAX_MS = SAMPLE_MS;
const NOISE_BYTES = 1024 * 1024;
/** What may remain of the memory that a thread has worked with. */
const WORK_REMAINS_BYTES = 48 * 1024 * 1024;
const MIB = 1024 * 1024;

const log = logOf("ws");

/** Samples memory while there are sockets. When it grows, closes unauthenticated sockets first, then unresponsive ones. */
export class MemoryGuard {
  readonly #options: Required<MemoryGuardOptions>;
  /** A new one whenever sampling starts: it compares what it measures in a row. */
  #memory: MemoryOutsideHeap;
  readonly #sockets = new Map<GuardedSocket, Acceptance>();
  readonly #responses = new Set<GuardedResponse>();
  /** Those that were not authenticated at the last sample. */
  readonly #unauthenticated = new Set<GuardedSocket>();
  #accepted = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #windows = openWindows(Infinity, 0, 0);
  #probe: { at: number; samples: number; grown: number } | undefined;
  /** How far memory had grown when responses were last cut off. */
  #cutOffAt = 0;
  #episode: Episode | undefined;
  #warnedAt = -Infinity;
  /** What was measured for the last socket, and when. */
  #lastMeasured = { at: -Infinity, level: 0 };
  /** Time in which sockets were listened to, and that of the last sample. */
  #listenedMs = 0;
  #sampledAt = Infinity;
  /** What threads that were starting at the last sample may have added. */
  #startingBytes = 0;
  /** The same of what they work with. */
  #workingBytes = 0;

  constructor(options: MemoryGuardOptions) {
    this.#options = {
      usage: () => Deno.memoryUsage(),
      startingBytes: startingThreadBytes,
      workingBytes: workingThreadBytes,
      now: () => performance.now(),
      ...options,
    };
    this.#memory = new MemoryOutsideHeap(this.#options.usage);
  }

  /** Whether no further socket should be accepted now. */
  get isShedding(): boolean {
    return this.#episode !== undefined;
  }

  /** Number of sockets, including those whose peer has not closed them yet. */
  get size(): number {
    return this.#sockets.size;
  }

  add(socket: GuardedSocket): void {
    if (this.#timer === undefined) this.#memory = new MemoryOutsideHeap(this.#options.usage);
    this.#accepted++;
    const at = this.#options.now();
    if (at - this.#lastMeasured.at >= ACCEPT_SAMPLE_MS) {
      const bytes = this.#memory.measure();
      // What threads work with is released again.
      const withoutWork = Math.max(bytes - this.#options.workingBytes(), Math.min(bytes, this.#floor));
      this.#lastMeasured = { at, level: this.#withoutAllowance(withoutWork) };
    }
    this.#sockets.set(socket, { at: this.#listenedMs, level: this.#lastMeasured.level });
    this.#unauthenticated.add(socket);
    this.#start();
  }

  addResponse(response: GuardedResponse): void {
    if (this.#timer === undefined) this.#memory = new MemoryOutsideHeap(this.#options.usage);
    this.#responses.add(response);
    this.#start();
  }

  delete(socket: GuardedSocket): void {
    this.#remove(socket);
    if (!this.#isNeeded) this.close();
  }

  deleteResponse(response: GuardedResponse): void {
    if (this.#responses.delete(response) && !this.#isNeeded) this.close();
  }

  /** Growth over the lowest level of the last minute, without outgoing data, in bytes. */
  grownBytes(): number {
    return Math.max(0, this.#memory.measure() - this.#floor - this.#writeBytes());
  }

  /** Samples memory and closes sockets if needed; runs periodically while there are sockets. */
  sample(): void {
    const startedAt = performance.now();
    const { budgetBytes, now } = this.#options;
    const time = now();
    this.#listenedMs += Math.min(Math.max(0, time - this.#sampledAt), LISTENING_MAX_MS);
    this.#sampledAt = time;
    const grown = this.#measure(time);
    if (grown > budgetBytes * STEP.silent) this.#shed(this.#unauthenticatedSuspects(grown), grown, time);
    if (grown > budgetBytes * STEP.probe) this.#probeAll(time);
    else this.#probe = undefined;
    if (grown > budgetBytes) this.#shed(this.#unresponsive(grown, time), grown, time);
    if (grown > budgetBytes * STEP.responses) this.#shed(this.#newestResponses(grown), grown, time);
    else this.#cutOffAt = 0;
    this.#endEpisodeWhenCalm(grown, time);
    if (this.#isNeeded) {
      // Checking many sockets takes time; this bounds its share.
      const delayMs = (performance.now() - startedAt) * 20;
      this.#schedule(Math.max(delayMs, this.#mayMatter(grown, STEP.alert) ? ALERT_SAMPLE_MS : SAMPLE_MS));
    } else this.close();
  }

  /** Stops sampling until the next socket is added. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The level above which memory has grown: the lowest one, and what the sockets accepted since then may use, also later. */
  get #floor(): number {
    const { current, previous } = this.#windows;
    return Math.min(current.lowest, previous.lowest) + SOCKET_BYTES * (this.#accepted - previous.accepted);
  }

  get #isNeeded(): boolean {
    return this.#sockets.size > 0 || this.#responses.size > 0 || this.isShedding;
  }

  #start(): void {
    if (this.#timer !== undefined) return;
    this.#windows = openWindows(Infinity, this.#accepted, 0);
    this.#schedule(0);
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.sample(), delayMs);
    Deno.unrefTimer(this.#timer);
  }

  /** Memory of messages: what was measured, without the allowance of accepted sockets. */
  #withoutAllowance(bytes: number): number {
    return bytes - SOCKET_BYTES * this.#accepted;
  }

  #measure(time: number): number {
    const bytes = this.#memory.measure();
    this.#allowThreads(bytes, time);
    const { current, endsAt } = this.#windows;
    if (time >= endsAt) {
      this.#windows = {
        previous: current,
        current: { lowest: bytes, accepted: this.#accepted },
        endsAt: time + WINDOW_MS,
      };
    }
    this.#windows.current.lowest = Math.min(this.#windows.current.lowest, bytes);
    const grown = bytes - this.#floor - this.#startingBytes - this.#workingBytes;
    return this.#mayMatter(grown, STEP.probe) ? grown - this.#writeBytes() : grown;
  }

  /**
   * Whether sockets might be closed now; those that are authenticated, from a step on. A busy node often grows by the smallest step,
   * and this runs at each sample.
   */
  #mayMatter(grown: number, authenticatedStep: number): boolean {
    const { budgetBytes } = this.#options;
    if (grown <= budgetBytes * STEP.silent) return false;
    for (const socket of this.#unauthenticated) if (socket.isAuthenticated) this.#unauthenticated.delete(socket);
    return this.isShedding || this.#unauthenticated.size > 0 || grown > budgetBytes * authenticatedStep;
  }

  #remove(socket: GuardedSocket): void {
    this.#sockets.delete(socket);
    this.#unauthenticated.delete(socket);
  }

  /** Growth while threads start is not that of messages. It is bounded, so that an attack does not hide behind it. */
  #allowThreads(bytes: number, time: number): void {
    const [starting, working] = [this.#options.startingBytes(), this.#options.workingBytes()];
    const remaining = working < this.#workingBytes ? WORK_REMAINS_BYTES : 0;
    const hasEnded = starting < this.#startingBytes || working < this.#workingBytes;
    if (hasEnded && bytes - this.#floor <= Math.max(this.#startingBytes, remaining)) {
      this.#windows = openWindows(bytes, this.#accepted, time + WINDOW_MS);
      const level = this.#withoutAllowance(bytes);
      for (const acceptance of this.#sockets.values()) acceptance.level = Math.max(acceptance.level, level);
    }
    this.#startingBytes = starting;
    this.#workingBytes = working;
  }

  #writeBytes(): number {
    let sum = 0;
    for (const { writeBytes } of this.#sockets.keys()) sum += writeBytes;
    return sum;
  }

  #probeAll(time: number): void {
    if (this.#probe !== undefined) {
      this.#probe.samples++;
      return;
    }
    this.#probe = { at: time, samples: 0, grown: 0 };
    for (const socket of this.#sockets.keys()) socket.probe();
  }

  /** Unauthenticated sockets since whose acceptance memory has grown too far. */
  #unauthenticatedSuspects(grown: number): GuardedSocket[] {
    const { budgetBytes } = this.#options;
    // Also without what is sent and what threads use.
    const bytes = this.#withoutAllowance(grown + this.#floor);
    return [...this.#unauthenticated].filter((socket) => {
      const { at = Infinity, level = bytes } = this.#sockets.get(socket) ?? {};
      const isSilent = !socket.hasReceived && this.#listenedMs - at >= SILENT_MS;
      return bytes - level > budgetBytes * (isSilent ? STEP.silent : STEP.unauthenticated);
    });
  }

  /** A share of the sockets that did not respond in time; newest first, since older ones have been harmless for longer. */
  #unresponsive(grown: number, time: number): GuardedSocket[] {
    const probe = this.#probe;
    const timeoutMs = PROBE_TIMEOUT.ms * this.#options.budgetBytes / grown;
    if (probe === undefined || time - probe.at < timeoutMs || probe.samples < PROBE_TIMEOUT.samples) return [];
    if (grown < probe.grown + NOISE_BYTES) {
      probe.grown = Math.min(probe.grown, grown);
      return [];
    }
    const silent = [...this.#sockets.keys()].filter(({ lastReceivedAt }) => lastReceivedAt < probe.at);
    if (silent.length === 0) this.#probe = undefined;
    else probe.grown = grown;
    return this.#withCrowds(this.#batchOf(silent, grown), silent);
  }

  /** A share of the responses each time that memory has grown further. */
  #newestResponses(grown: number): GuardedResponse[] {
    if (grown < this.#cutOffAt + NOISE_BYTES) return [];
    this.#cutOffAt = grown;
    return this.#batchOf([...this.#responses], grown);
  }

  /** The newest ones of what is in the order of insertion. */
  #batchOf<Item>(items: Item[], grown: number): Item[] {
    const part = Math.floor(grown / this.#options.budgetBytes) / SHED_BATCH.part;
    return items.reverse().slice(0, Math.max(SHED_BATCH.least, Math.ceil(items.length * part)));
  }

  /** Adds the other unresponsive sockets of owners with a crowd of them. */
  #withCrowds(batch: readonly GuardedSocket[], silent: readonly GuardedSocket[]): GuardedSocket[] {
    const [all, unresponsive] = [[...this.#sockets.keys()], silent].map((some) =>
      Map.groupBy(some, ({ owner }) => owner)
    );
    const owners = new Set(batch.flatMap(({ owner }) => owner ?? []));
    const crowds = [...owners].map((owner) => unresponsive?.get(owner) ?? []).filter((crowd) =>
      crowd.length >= CROWD.least && crowd.length >= CROWD.part * (all?.get(crowd[0]?.owner)?.length ?? 0)
    );
    return [...new Set([...batch, ...crowds.flat()])];
  }

  #shed(some: readonly (GuardedSocket | GuardedResponse)[], grown: number, time: number): void {
    if (some.length === 0) return;
    if (this.#episode === undefined) {
      this.#episode = { peak: grown, grewAt: time, closed: 0 };
      const level = time - this.#warnedAt < WARN_EVERY_MS ? "debug" : "warn";
      if (level === "warn") this.#warnedAt = time;
      log[level]("unfinished input uses too much memory: closing connections and rejecting new sockets", {
        grownMib: Math.round(grown / MIB),
        sockets: this.#sockets.size,
        responses: this.#responses.size,
        closing: some.length,
      });
    }
    this.#episode.closed += some.length;
    this.#options.metrics.connectionErrors.inc({ type: "memory" }, some.length);
    for (const one of some) {
      this.#responses.delete(one);
      if ("probe" in one) this.#remove(one);
      one.shed();
    }
  }

  /** Ends the episode once memory has stopped growing; the remaining growth becomes the new floor. */
  #endEpisodeWhenCalm(grown: number, time: number): void {
    const episode = this.#episode;
    if (episode === undefined) return;
    if (grown > episode.peak + NOISE_BYTES) Object.assign(episode, { peak: grown, grewAt: time });
    if (time - episode.grewAt < CALM_MS) return;
    this.#episode = undefined;
    if (grown > this.#options.budgetBytes * STEP.silent) {
      this.#windows = openWindows(this.#memory.measure(), this.#accepted, time + WINDOW_MS);
    }
    log.debug("memory use of inbound messages is back to normal", {
      closed: episode.closed,
      peakMib: Math.round(episode.peak / MIB),
    });
  }
}

function openWindows(lowest: number, accepted: number, endsAt: number) {
  const window = (): Window => ({ lowest, accepted });
  return { previous: window(), current: window(), endsAt };
}
