// The share of a node's CPU time that one tenant may use while others are served. Each of its principals has a share of its own
// (see cpu_budget.ts), but a tenant makes as many principals as it likes.
import { TurnTaker } from "./cpu_turns.ts";
import { LruMap } from "../lru_map.ts";

/** Enough for a team that opens its applications at the same time. */
const BURST_MS = 1000;
/** Time that is left to light members, so that a few who take what they can do not keep all others of their tenant waiting. */
const LIGHT_RESERVE_MS = 400;
/** A light member has used at most this part of what its tenant has used of late. */
const LIGHT_PART = 0.05;
/** What was used so long ago counts little. */
const RECENT_MS = 10_000;
/** Largest debt of a tenant: all of its principals wait for what one of them took at once. */
const DEBT_MAX_MS = 500;
/** What a running call counts for until its time is known. */
const CALL_RESERVE_MS = 20;
/** Others count as served when another one called within this time. */
const CONTENTION_WINDOW_MS = 10_000;
/** Longest pause after a slice. */
const PAUSE_MAX_MS = 250;
const TENANTS_MAX = 10_000;

/** Remembers the last one that was served, to know whether others are served at the same time. */
export class Activity<Key> {
  #last: Key | undefined;
  #lastAt = -Infinity;
  /** When another one than the last was active. */
  #othersAt = -Infinity;

  /** Notes that one is served now. */
  mark(key: Key, now: number): void {
    if (this.#last !== key) {
      this.#othersAt = this.#lastAt;
      this.#last = key;
    }
    this.#lastAt = now;
  }

  /** Whether another one is served at this time. */
  isContended(key: Key, now: number): boolean {
    return now - (this.#last === key ? this.#othersAt : this.#lastAt) < CONTENTION_WINDOW_MS;
  }
}

/** Time that was used of late: the longer ago, the less it counts. */
export class RecentUse {
  #sumMs = 0;
  #at = -Infinity;

  add(ms: number, now: number): void {
    this.#sumMs = Math.max(0, this.at(now) + ms);
    this.#at = now;
  }

  at(now: number): number {
    return this.#sumMs === 0 ? 0 : this.#sumMs * Math.exp((this.#at - now) / RECENT_MS);
  }
}

/** The CPU time of all tenants. */
export class TenantCpus {
  readonly #share: number;
  readonly #turns: TurnTaker;
  readonly #tenants = new LruMap<string, TenantCpu>(TENANTS_MAX);
  readonly #activity = new Activity<TenantCpu>();

  /** `percent` of the node's time for one tenant; they take turns as members of `turns`. */
  constructor(percent: number, turns: TurnTaker) {
    this.#share = percent / 100;
    this.#turns = turns;
  }

  of(tenantId: string, now: number): TenantCpu {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    const tenant = new TenantCpu(this.#activity, this.#share, now, new TurnTaker(this.#turns));
    this.#tenants.set(tenantId, tenant);
    return tenant;
  }
}

/** The CPU time that one tenant has left on this node. */
export class TenantCpu {
  /** Its turns, in which its principals take theirs. */
  readonly turns: TurnTaker;
  readonly #activity: Activity<TenantCpu>;
  readonly #share: number;
  #remainingMs = BURST_MS;
  #filledAt: number;
  readonly #recent = new RecentUse();
  #inFlight = 0;
  #restsUntil = -Infinity;

  constructor(activity: Activity<TenantCpu>, share: number, now: number, turns: TurnTaker) {
    this.turns = turns;
    this.#activity = activity;
    this.#share = share;
    this.#filledAt = now;
  }

  /** Notes that one of its principals is served now. */
  markActive(now: number): void {
    this.#activity.mark(this, now);
  }

  beginCall(): void {
    this.#inFlight++;
  }

  endCall(): void {
    this.#inFlight--;
  }

  /** Whether another tenant is served at this time. */
  isContended(now: number): boolean {
    return this.#activity.isContended(this, now);
  }

  /** Whether there is time for one more call of a member beside the running ones, or for a slice of one; or no other tenant needs it. */
  hasTime(now: number, isNewCall: boolean, member: RecentUse): boolean {
    this.#fill(now);
    const leftMs = this.#remainingMs - (isNewCall ? this.#inFlight * CALL_RESERVE_MS : 0);
    if (leftMs > LIGHT_RESERVE_MS || leftMs > 0 && this.#isLight(member, now)) return true;
    return !this.#activity.isContended(this, now);
  }

  /** Time in ms until it has time again for a member; 0 while it has, and while no other tenant needs it. */
  waitMs(now: number, member: RecentUse): number {
    this.#fill(now);
    const missingMs = (this.#isLight(member, now) ? 0 : LIGHT_RESERVE_MS) - this.#remainingMs;
    if (missingMs < 0 || !this.#activity.isContended(this, now)) return 0;
    return Math.ceil(1 + missingMs / this.#share);
  }

  /** Time in ms until the next slice of any of its members that are not light. */
  restMs(now: number, member: RecentUse): number {
    return this.#activity.isContended(this, now) && !this.#isLight(member, now) ? this.#restsUntil - now : 0;
  }

  /** Charges so much time; a negative value gives it back. */
  consume(ms: number, now: number): void {
    this.#fill(now);
    const isContended = this.#activity.isContended(this, now);
    // Time that no other tenant needs is free: it causes no debt.
    const least = isContended ? -DEBT_MAX_MS : Math.min(this.#remainingMs, 0);
    this.#remainingMs = Math.max(least, this.#remainingMs - ms);
    this.#restsUntil = now + Math.min(ms, PAUSE_MAX_MS);
    this.#recent.add(ms, now);
  }

  /** Whether a member has used little, compared with the others. */
  #isLight(member: RecentUse, now: number): boolean {
    return member.at(now) <= this.#recent.at(now) * LIGHT_PART;
  }

  #fill(now: number): void {
    this.#remainingMs = Math.min(BURST_MS, this.#remainingMs + Math.max(0, now - this.#filledAt) * this.#share);
    this.#filledAt = Math.max(this.#filledAt, now);
  }
}
