// A connection to Redis or Valkey that fails fast, reconnects, and logs each outage and each recovery once.
import { Redis } from "ioredis";
import { logOf } from "@/core/log.ts";
import { inThisContext } from "@/runtime/root_context.ts";

const CONNECT_TIMEOUT_MS = 2000;
const RETRY_STEP_MS = 50;
const RETRY_MAX_MS = 1000;
const LIVENESS_CHECK_MS = 500;
const SILENT_CHECKS_MAX = 7;
/** An unused key. Deleting it changes nothing, needs no memory, and is rejected by a server that accepts no writes. */
const PROBE_KEY = "svc:probe";
/** A server that became a replica, has lost its master or is still loading. Its name may resolve to another one. */
const NOT_PRIMARY = /^(READONLY|MASTERDOWN|LOADING)\b/;
/** A server that rejects the credentials. */
const AUTH_REFUSED = /^(NOAUTH|WRONGPASS|ERR invalid password)\b/;

/** A server that does not have the database of the URL. Its connection would use database 0, possibly that of another deployment. */
const DATABASE_REFUSED = /^ERR (?:invalid )?DB index|^ERR SELECT is not|'select' command/i;

const LOGIN_REFUSED = [AUTH_REFUSED, DATABASE_REFUSED];

/** A server that is alive but rejects writes: it lacks memory or disk, or the user lacks a permission. */
const WRITE_REFUSED = /^(OOM|MISCONF|NOPERM)\b/;
/** Interval of repeated log entries. */
const WRITE_REFUSED_LOG_MS = 300_000;

/** An outage of the server at a URL: its connections and logged causes, so that several connections log it once. */
const outages = new Map<string, Outage>();

const log = logOf("redis");

type Outage = {
  connections: Set<RedisConnection>;
  causes: Set<string>;
  /** When a write refusal was last logged, by cause. */
  refusals: Map<string, number>;
};

type RedisConnectionOptions = {
  /** Longest wait for one reply; absent = until the connection is dropped. */
  commandTimeoutMs?: number;
  /** Interval of liveness checks; a connection without a response for eight times as long is dropped. */
  livenessCheckMs?: number;
  /** For subscriptions. Such a connection can only ping, not check whether its server still is the master. */
  isSubscriber?: boolean;
  onReady?: () => void;
  /** Called when a liveness check is answered, with what `silentMs` was before. */
  onResponse?: (silentMs: number) => void;
  /** `isUnfit`: the server is reachable, but recent commands may be lost. */
  onUnavailable?: (isUnfit: boolean) => void;
};

/**
 * One client. Commands fail at once while disconnected; none is queued or sent twice. A server that accepts no writes is treated
 * as unavailable: on a replica, `PUBLISH` succeeds but reaches only the listeners there.
 */
export class RedisConnection {
  readonly client: Redis;
  /** Settles when the first attempt to connect has succeeded or failed. */
  readonly firstAttempt: Promise<void>;
  readonly #outage: Outage;
  readonly #livenessTimer: ReturnType<typeof setInterval>;
  readonly #notifyResponse: (silentMs: number) => void;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #failedAttempts = 0;
  #isClosed = false;
  #silentChecks = 0;
  /** When the last command was sent that the server responded to. */
  #respondedAt = -Infinity;
  readonly #isSubscriber: boolean;
  /** Whether the server accepted a write over this connection, and has rejected none since. */
  #isUsable = false;
  #isDisconnecting = false;
  #lastError: Error | undefined;

  constructor(url: string, options: RedisConnectionOptions = {}) {
    const watchMs = options.livenessCheckMs ?? LIVENESS_CHECK_MS;
    const tried = Promise.withResolvers<void>();
    this.#outage = outages.get(url) ?? { connections: new Set(), causes: new Set(), refusals: new Map() };
    outages.set(url, this.#outage);
    this.firstAttempt = tried.promise;
    this.#isSubscriber = options.isSubscriber ?? false;
    this.client = new Redis(url, {
      connectTimeout: CONNECT_TIMEOUT_MS,
      disconnectTimeout: watchMs,
      enableOfflineQueue: false,
      // Whether the server is fit is asked below; ended while it asks by itself as well, the client forgets one of its timers.
      enableReadyCheck: false,
      // No handshake commands either: aborted before their reply, the client would end, then report ready, and never reconnect.
      disableClientInfo: true,
      // Who subscribes does so itself, once the server has turned out to be fit.
      autoResubscribe: false,
      // Reconnecting is ours: a client that waits to do it by itself cannot be closed cleanly.
      retryStrategy: () => null,
      reconnectOnError: (error) => {
        this.#logWriteRefusal(error);
        if (!NOT_PRIMARY.test(error.message)) return false;
        this.#lastError = error;
        this.#isUsable = false;
        const isFirst = !this.#isDisconnecting;
        this.#isDisconnecting = true;
        return isFirst;
      },
      ...options.commandTimeoutMs === undefined ? {} : { commandTimeout: options.commandTimeoutMs },
    });
    // Each failed attempt is an `error`; without a listener ioredis prints it. The handler of `end` below logs it for the operator.
    this.client.on("error", (error: Error) => this.#lastError = error);
    const { onReady, onUnavailable, onResponse } = options;
    this.#notifyResponse = inThisContext((silentMs: number) => onResponse?.(silentMs));
    const notifyReady = inThisContext(() => onReady?.());
    const notifyUnavailable = inThisContext((isUnfit: boolean) => onUnavailable?.(isUnfit));
    this.client.on("ready", async () => {
      this.#isUsable = await this.#acceptsWrites();
      if (!this.#isUsable) return this.reconnect();
      this.#failedAttempts = 0;
      if (this.#endOutage()) log.info("redis reconnected");
      notifyReady();
      tried.resolve();
    });
    this.client.on("end", () => {
      this.#isUsable = this.#isDisconnecting = false;
      if (!this.#isClosed) {
        const cause = reasonOf(this.#lastError);
        if (!this.#outage.causes.has(cause)) log.warn("redis unavailable", { cause });
        this.#outage.causes.add(cause);
        this.#outage.connections.add(this);
        this.#failedAttempts += 1;
        const delayMs = Math.min(this.#failedAttempts * RETRY_STEP_MS, RETRY_MAX_MS);
        // A failure is an `end` again, which logs and retries.
        this.#retry = setTimeout(() => this.client.connect().catch(() => {}), delayMs);
      }
      const isUnfit = this.#lastError !== undefined && NOT_PRIMARY.test(this.#lastError.message);
      this.#lastError = undefined;
      notifyUnavailable(isUnfit);
      tried.resolve();
    });
    this.#livenessTimer = setInterval(() => this.#checkLiveness(), watchMs);
  }

  get isReady(): boolean {
    return this.#isUsable && this.client.status === "ready";
  }

  /** How old what was received may be: a subscription has everything that was published before its last check was sent. */
  get silentMs(): number {
    return performance.now() - this.#respondedAt;
  }

  /** Replaces the connection, if there is one, by a new one to the server that the name resolves to now. */
  reconnect(): void {
    this.#isUsable = false;
    if (this.client.status === "ready") this.#disconnect();
  }

  /** Sends what was written, then ends the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endOutage();
    clearInterval(this.#livenessTimer);
    clearTimeout(this.#retry);
    if (this.client.status === "end") return;
    const ended = new Promise<void>((resolve) => this.client.once("end", () => resolve()));
    this.#disconnect();
    await ended;
  }

  /** Whether this was the last of the disconnected connections. */
  #endOutage(): boolean {
    const { connections, causes } = this.#outage;
    if (!connections.delete(this) || connections.size > 0) return false;
    causes.clear();
    return true;
  }

  /** Logs that limits and presence are local to each node, which is not visible otherwise. */
  #logWriteRefusal(error: Error): void {
    const cause = WRITE_REFUSED.exec(error.message)?.[0];
    if (cause === undefined) return;
    const { refusals } = this.#outage;
    const now = performance.now();
    if (now - (refusals.get(cause) ?? -Infinity) < WRITE_REFUSED_LOG_MS) return;
    refusals.set(cause, now);
    log.warn("redis rejects writes: rate limits and presence are local to each node", { cause });
  }

  /** Once per connection: called twice, the client leaks one of its timers. */
  #disconnect(): void {
    if (this.#isDisconnecting) return;
    this.#isDisconnecting = true;
    this.client.disconnect();
  }

  /** A server that hangs or a network that drops packets never closes the socket, so silence closes it. */
  #checkLiveness(): void {
    if (this.client.status !== "ready" && this.client.status !== "connect") {
      this.#silentChecks = 0;
      return;
    }
    if (++this.#silentChecks > SILENT_CHECKS_MAX) {
      this.#silentChecks = 0;
      this.#disconnect();
    } else if (this.isReady) {
      const sentAt = performance.now();
      // Without a response the silent checks add up until the connection is dropped.
      const sign = this.#isSubscriber ? this.client.ping().then(() => true, () => false) : this.#acceptsWrites();
      sign.then((isAlive) => isAlive && this.#onResponse(sentAt));
    }
  }

  #onResponse(sentAt: number): void {
    const { silentMs } = this;
    this.#silentChecks = 0;
    this.#respondedAt = sentAt;
    this.#notifyResponse(silentMs);
  }

  /** Any other rejection, such as missing memory or permissions, is a response of a live master. */
  async #acceptsWrites(): Promise<boolean> {
    return await this.client.del(PROBE_KEY).then(
      // The client signs in and selects the database before that. After an error it continues, as another user or with another one.
      () => !LOGIN_REFUSED.some((form) => form.test(this.#lastError?.message ?? "")),
      (error: Error) => {
        const isShut = AUTH_REFUSED.test(error.message);
        if (isShut) this.#lastError ??= error;
        return error.name === "ReplyError" && !NOT_PRIMARY.test(error.message) && !isShut;
      },
    );
  }
}

/** The code where there is one, such as WRONGPASS at the start of a reply: a message could quote the URL. */
function reasonOf(error: Error | undefined): string {
  if (error === undefined) return "connection closed";
  if (error.name === "ReplyError") {
    const code = /^[A-Z]+/.exec(error.message)?.[0] ?? error.name;
    if (AUTH_REFUSED.test(error.message)) return `${code}: check the user and password in SVC_REDIS_URL`;
    return DATABASE_REFUSED.test(error.message) ? `${code}: check the database number in SVC_REDIS_URL` : code;
  }
  return "code" in error ? String(error.code) : error.name;
}
