// How many bytes of rows one principal with its agents may write, and a whole tenant: per minute on each node, and per day on all
// nodes. How much a call writes is known only afterwards: a call may start while anything is left, and an excess delays the next.
import { type Actor, chargedTo } from "../actor.ts";
import { type Clock, DAY_MS } from "../time/clock.ts";
import { Fault } from "../fault.ts";
import { LruMap } from "../lru_map.ts";
import { TokenBucket } from "./token_bucket.ts";

const BUCKETS_MAX = 10_000;

export type WriteLimits = {
  /** For one principal and its agents. */
  bytesPerMinute: number;
  bytesPerDay: number;
  /** For a whole tenant. */
  tenantBytesPerDay: number;
};

/** Bytes written on a day by one principal and its agents, or with an empty `ownerId` by the whole tenant. */
export type WrittenBytes = { tenantId: string; ownerId: string; day: string; bytes: number };

/** The sums of all nodes. */
export type WrittenBytesSums = {
  /** Adds to them; resolves to the new sums. */
  add(written: readonly WrittenBytes[]): Promise<WrittenBytes[]>;
  /** Those of a principal and its tenant. */
  read(tenantId: string, ownerId: string, day: string): Promise<WrittenBytes[]>;
};

/** Bytes of one day: the sum of all nodes when it was last known, and what this node wrote since its last flush. */
type Tally = { stored: number; pending: number };

export class WriteBudget {
  readonly #clock: Clock;
  /** `undefined` when limits are off; bytes are counted all the same. */
  readonly #limits: WriteLimits | undefined;
  readonly #sums: WrittenBytesSums;
  readonly #buckets = new LruMap<string, TokenBucket>(BUCKETS_MAX);
  #tallies = new Map<string, Tally>();
  /** Days since 1970. */
  #day: number;
  #totalBytes = 0;

  constructor(clock: Clock, limits: WriteLimits | undefined, sums: WrittenBytesSums) {
    this.#clock = clock;
    this.#limits = limits;
    this.#sums = sums;
    this.#day = this.#today();
  }

  /** Bytes written on behalf of principals since the start. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Counts bytes written on behalf of a principal; `key` as returned by `chargedTo`. */
  charge(key: string, bytes: number): void {
    this.#totalBytes += bytes;
    if (this.#limits !== undefined) {
      this.#bucketOf(key, this.#limits.bytesPerMinute).reserve(this.#clock.now(), bytes, Infinity);
    }
    this.#startNewDay();
    this.#tallyOf(key).pending += bytes;
    this.#tallyOf(tenantKey(key)).pending += bytes;
  }

  /** Throws when nothing is left to write. */
  assertAvailable(key: string): void {
    if (this.#limits === undefined) return;
    const { bytesPerMinute, bytesPerDay, tenantBytesPerDay } = this.#limits;
    const resetMs = this.#bucketOf(key, bytesPerMinute).waitMs(this.#clock.now());
    if (resetMs > 0) {
      const detail = `This principal and its agents may write at most ${bytesPerMinute} bytes a minute`;
      throw new Fault("rate_limited", detail, { limit: { limit: bytesPerMinute, remaining: 0, resetMs } });
    }
    this.#startNewDay();
    if (this.#sum(key) >= bytesPerDay) {
      throw this.#quotaExceeded(`This principal and its agents may write at most ${bytesPerDay} bytes a day (UTC)`);
    }
    if (this.#sum(tenantKey(key)) >= tenantBytesPerDay) {
      throw this.#quotaExceeded(`This tenant may write at most ${tenantBytesPerDay} bytes a day (UTC)`);
    }
  }

  /** What an actor with its agents, and its tenant, have written today on all nodes until their last flush, and their limits. */
  async usageOf(actor: Actor): Promise<Record<"member" | "tenant", { bytes: number; limit: number | null }>> {
    this.#startNewDay();
    const day = this.#day;
    const key = chargedTo(actor);
    const sums = await this.#sums.read(...partsOf(key), dateOf(day));
    this.#startNewDay();
    for (const { tenantId, ownerId, bytes } of day === this.#day ? sums : []) {
      const tally = this.#tallyOf(`${tenantId}/${ownerId}`);
      // A flush may have found more meanwhile.
      tally.stored = Math.max(tally.stored, bytes);
    }
    return {
      member: { bytes: this.#sum(key), limit: this.#limits?.bytesPerDay ?? null },
      tenant: { bytes: this.#sum(tenantKey(key)), limit: this.#limits?.tenantBytesPerDay ?? null },
    };
  }

  /** Adds what was written since the last flush to the sums of all nodes, and reads these. */
  async flush(): Promise<void> {
    this.#startNewDay();
    const flushedDay = this.#day;
    const day = dateOf(flushedDay);
    const written = [...this.#tallies].flatMap(([key, { pending }]) => {
      const [tenantId, ownerId] = partsOf(key);
      return pending === 0 ? [] : [{ tenantId, ownerId, day, bytes: pending }];
    });
    if (written.length === 0) return;
    const sums = await this.#sums.add(written);
    if (flushedDay !== this.#day) return;
    for (const { tenantId, ownerId, bytes } of sums) this.#tallyOf(`${tenantId}/${ownerId}`).stored = bytes;
    for (const { tenantId, ownerId, bytes } of written) this.#tallyOf(`${tenantId}/${ownerId}`).pending -= bytes;
  }

  #quotaExceeded(detail: string): Fault {
    const now = this.#clock.now();
    return new Fault("quota_exceeded", detail, { retryAfterMs: DAY_MS - now % DAY_MS });
  }

  #bucketOf(key: string, perMinute: number): TokenBucket {
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = new TokenBucket({ perSecond: perMinute / 60, burst: perMinute }, this.#clock.now());
      this.#buckets.set(key, bucket);
    }
    return bucket;
  }

  #tallyOf(key: string): Tally {
    let tally = this.#tallies.get(key);
    if (tally === undefined) this.#tallies.set(key, tally = { stored: 0, pending: 0 });
    return tally;
  }

  #sum(key: string): number {
    const { stored, pending } = this.#tallies.get(key) ?? { stored: 0, pending: 0 };
    return stored + pending;
  }

  /** A new day starts at 0; unflushed bytes of the last one no longer matter. */
  #startNewDay(): void {
    const today = this.#today();
    if (today === this.#day) return;
    this.#day = today;
    this.#tallies = new Map();
  }

  #today(): number {
    return Math.floor(this.#clock.now() / DAY_MS);
  }
}

/** The key of a whole tenant. */
function tenantKey(key: string): string {
  return key.slice(0, key.indexOf("/") + 1);
}

/** Tenant and owner of a key. */
function partsOf(key: string): [tenantId: string, ownerId: string] {
  const at = key.indexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
}

/** The date of a number of days since 1970. */
function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
