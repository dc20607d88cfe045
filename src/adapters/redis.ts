// A connection to Redis or Valkey that fails fast, comes back by itself, and says once why it is away and once that it is back.
import { Redis } from "ioredis";
import { logOf } from "@/core/log.ts";

const CONNECT_TIMEOUT_MS = 2000;
const RETRY_STEP_MS = 50;
const RETRY_MAX_MS = 1000;
const WATCH_MS = 1000;
const QUIET_MAX = 3;
/** Nobody's key. To delete it changes nothing, needs no memory, and is refused by a server that takes no writes. */
const PROBE_KEY = "svc:probe";
/** A server that was made a replica, has lost its master or is still loading. Which one is to be used, its name may say. */
const UNFIT = /^(READONLY|MASTERDOWN|LOADING)\b/;
/** A server that does not let us in. */
const SHUT = /^(NOAUTH|WRONGPASS|ERR invalid password)\b/;

/** A server that lives and lets us in, but not do what we need: for want of memory, of its disk or of a right. */
const UNABLE = /^(OOM|MISCONF|NOPERM)\b/;
/** Told again after so long. */
const UNABLE_TOLD_MS = 300_000;

/** Who misses the server at a URL, and why, as far as the log has it: of several connections it is told once. */
const absences = new Map<string, Absence>();

const log = logOf("redis");

type Absence = {
  connections: Set<RedisConnection>;
  causes: Set<string>;
  /** When it was last told that the server does not do what it is asked, by the reason. */
  refusals: Map<string, number>;
};

export type RedisConnectionOptions = {
  /** Longest wait for one reply; absent = until the connection is given up. */
  commandTimeoutMs?: number;
  /** How often a sign of life is asked for; a connection without one for four times as long is given up. */
  watchMs?: number;
  /** For subscriptions. Such a connection can ask for a sign of life only, not whether its server still is the master. */
  isListener?: boolean;
  onReady?: () => void;
  /** `isUnfit`: the server is there, but whatever it was sent lately may have gone to waste. */
  onAway?: (isUnfit: boolean) => void;
};

/**
 * One client. Commands fail at once while the connection is away; none is queued or sent twice. A server that takes no
 * writes is left as if it were gone: of a replica, `PUBLISH` reaches the few listeners there without any failure.
 */
export class RedisConnection {
  readonly client: Redis;
  /** Settles when the first attempt to connect has succeeded or failed. */
  readonly tried: Promise<void>;
  readonly #absence: Absence;
  readonly #watch: ReturnType<typeof setInterval>;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #failedAttempts = 0;
  #isClosed = false;
  #quietTicks = 0;
  readonly #isListener: boolean;
  /** Whether the server took a write over this connection, and refused none since. */
  #isServing = false;
  #isLeaving = false;
  #lastError: Error | undefined;

  constructor(url: string, options: RedisConnectionOptions = {}) {
    const watchMs = options.watchMs ?? WATCH_MS;
    const tried = Promise.withResolvers<void>();
    this.#absence = absences.get(url) ?? { connections: new Set(), causes: new Set(), refusals: new Map() };
    absences.set(url, this.#absence);
    this.tried = tried.promise;
    this.#isListener = options.isListener ?? false;
    this.client = new Redis(url, {
      connectTimeout: CONNECT_TIMEOUT_MS,
      disconnectTimeout: watchMs,
      enableOfflineQueue: false,
      // Whether the server is fit is asked below; ended while it asks by itself as well, the client forgets one of its timers.
      enableReadyCheck: false,
      // Nor may it introduce itself: given up before that is answered, it would end, then call itself ready, and connect no more.
      disableClientInfo: true,
      // Who subscribes does so itself, once the server has turned out to be fit.
      autoResubscribe: false,
      // Reconnecting is ours: a client that waits to do it by itself cannot be closed cleanly.
      retryStrategy: () => null,
      reconnectOnError: (error) => {
        this.#tellRefusal(error);
        if (!UNFIT.test(error.message)) return false;
        this.#lastError = error;
        this.#isServing = false;
        const isFirst = !this.#isLeaving;
        this.#isLeaving = true;
        return isFirst;
      },
      ...options.commandTimeoutMs === undefined ? {} : { commandTimeout: options.commandTimeoutMs },
    });
    // Each failed attempt is an `error`; without a listener ioredis prints it. `end` below tells the operator.
    this.client.on("error", (error: Error) => this.#lastError = error);
    this.client.on("ready", async () => {
      this.#isServing = await this.#takesWrites();
      if (!this.#isServing) return this.renew();
      this.#failedAttempts = 0;
      if (this.#endAbsence()) log.info("redis is back");
      options.onReady?.();
      tried.resolve();
    });
    this.client.on("end", () => {
      this.#isServing = this.#isLeaving = false;
      if (!this.#isClosed) {
        const cause = reasonOf(this.#lastError);
        if (!this.#absence.causes.has(cause)) log.warn("redis is away", { cause });
        this.#absence.causes.add(cause);
        this.#absence.connections.add(this);
        this.#failedAttempts += 1;
        const delayMs = Math.min(this.#failedAttempts * RETRY_STEP_MS, RETRY_MAX_MS);
        this.#retry = setTimeout(() => this.client.connect().catch(() => {}), delayMs);
      }
      const isUnfit = this.#lastError !== undefined && UNFIT.test(this.#lastError.message);
      this.#lastError = undefined;
      options.onAway?.(isUnfit);
      tried.resolve();
    });
    this.#watch = setInterval(() => this.#lookForLife(), watchMs);
  }

  get isReady(): boolean {
    return this.#isServing && this.client.status === "ready";
  }

  /** Drops the connection, if there is one, for a new one to whichever server has the name by now. */
  renew(): void {
    this.#isServing = false;
    if (this.client.status === "ready") this.#leave();
  }

  /** Sends what was written, then ends the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endAbsence();
    clearInterval(this.#watch);
    clearTimeout(this.#retry);
    if (this.client.status === "end") return;
    const ended = new Promise<void>((resolve) => this.client.once("end", () => resolve()));
    this.#leave();
    await ended;
  }

  /** Whether this was the last of the connections that missed the server. */
  #endAbsence(): boolean {
    const { connections, causes } = this.#absence;
    if (!connections.delete(this) || connections.size > 0) return false;
    causes.clear();
    return true;
  }

  /** Each node then counts and knows who is there by itself, which is not to be seen from outside. */
  #tellRefusal(error: Error): void {
    const cause = UNABLE.exec(error.message)?.[0];
    if (cause === undefined) return;
    const { refusals } = this.#absence;
    const now = performance.now();
    if (now - (refusals.get(cause) ?? -Infinity) < UNABLE_TOLD_MS) return;
    refusals.set(cause, now);
    log.warn("redis refuses what nodes share through it: limits and presence are each node's own", { cause });
  }

  /** Once a connection: the client, told twice, forgets one of its timers. */
  #leave(): void {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    this.client.disconnect();
  }

  /** A server that hangs or a network that swallows packets never closes the socket, so silence closes it. */
  #lookForLife(): void {
    if (this.client.status !== "ready" && this.client.status !== "connect") {
      this.#quietTicks = 0;
      return;
    }
    if (++this.#quietTicks > QUIET_MAX) {
      this.#quietTicks = 0;
      this.#leave();
    } else if (this.isReady) {
      const sign = this.#isListener ? this.client.ping().then(() => true, () => false) : this.#takesWrites();
      sign.then((isAlive) => isAlive && (this.#quietTicks = 0));
    }
  }

  /** Any other refusal, such as for want of memory or of a right, is an answer of a master that lives. */
  async #takesWrites(): Promise<boolean> {
    return await this.client.del(PROBE_KEY).then(
      () => true,
      (error: Error) => {
        const isShut = SHUT.test(error.message);
        if (isShut) this.#lastError ??= error;
        return error.name === "ReplyError" && !UNFIT.test(error.message) && !isShut;
      },
    );
  }
}

/** The code where there is one, such as WRONGPASS at the start of a reply: a message could quote the URL. */
function reasonOf(error: Error | undefined): string {
  if (error === undefined) return "the connection ended";
  if (error.name === "ReplyError") {
    const code = /^[A-Z]+/.exec(error.message)?.[0] ?? error.name;
    return SHUT.test(error.message) ? `${code}: SVC_REDIS_URL has no user and password that are let in` : code;
  }
  return "code" in error ? String(error.code) : error.name;
}
