// Wall times and instants: the one place that asks the time-zone database.
import { isTimeZone } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { RecentMap } from "@/core/recent_map.ts";
import type { When } from "./schema.ts";

const CLOCKS_MAX = 600;
const EDGE_MS = 2 * 86_400_000;

/** Throws `invalid_time_zone` unless the runtime knows the zone by this IANA name. */
export function checkZone(name: string, pointer: string): void {
  if (isTimeZone(name)) return;
  throw new Fault("invalid_time_zone", `${pointer}: ${name.slice(0, 64)} is no IANA time zone`, {
    errors: [{ pointer, code: "invalid_time_zone", detail: "An IANA name such as Europe/Vienna" }],
  });
}

/** A wall time or date as milliseconds, as if it were UTC. */
export function wallMs(local: string): number {
  return Date.parse(local.length === 10 ? `${local}T00:00:00Z` : `${local}Z`);
}

/** The reverse: `2026-03-29T09:00:00`, or `2026-03-29` when there is no zone. */
export function localOf(wall: number, zone: string | null): string {
  return new Date(wall).toISOString().slice(0, zone === null ? 10 : 19);
}

/** A wall time as an instant. One that the zone skips is read with the offset before the gap, one that comes twice is the first (RFC 5545 3.3.5). */
export function instantOf(local: string, zone: string | null): number {
  if (zone === null) return wallMs(local);
  return Temporal.PlainDateTime.from(local).toZonedDateTime(zone).epochMilliseconds;
}

/**
 * Reads many wall times of one zone. Far from a change of the clocks a subtraction is enough; near one the time-zone
 * database is asked.
 */
export class WallClock {
  static readonly #known = new RecentMap<string, WallClock>(CLOCKS_MAX);
  readonly #zone: string | null;
  #from = Infinity;
  #to = -Infinity;
  #offset = 0;

  private constructor(zone: string | null) {
    this.#zone = zone;
  }

  /** The clock of a zone, one for all: it is slow to learn, and events are mostly of few zones and about the same time. */
  static of(zone: string | null): WallClock {
    const known = WallClock.#known.get(zone ?? "");
    if (known !== undefined) return known;
    const clock = new WallClock(zone);
    WallClock.#known.set(zone ?? "", clock);
    return clock;
  }

  /** The instant of a wall time that a rule made; `undefined` where the zone skips it, which RFC 5545 3.3.10 leaves out. */
  instantOf(wall: number): number | undefined {
    const zone = this.#zone;
    if (zone === null) return wall;
    const guess = wall - this.#offset;
    if (guess > this.#from && guess < this.#to) return guess;
    const instant = instantOf(localOf(wall, zone), zone);
    this.#learn(instant, zone);
    return wallOf(instant, zone) === wall ? instant : undefined;
  }

  /** Remembers how long the offset of this instant lasts, less two days at both ends. */
  #learn(instant: number, zone: string): void {
    const zoned = Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(zone);
    this.#offset = Math.round(zoned.offsetNanoseconds / 1e6);
    this.#from = (zoned.getTimeZoneTransition("previous")?.epochMilliseconds ?? -Infinity) + EDGE_MS;
    this.#to = (zoned.getTimeZoneTransition("next")?.epochMilliseconds ?? Infinity) - EDGE_MS;
  }
}

/** What clocks in the zone show at an instant, as milliseconds as if UTC. */
export function wallOf(instant: number, zone: string | null): number {
  if (zone === null) return instant;
  const zoned = Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(zone);
  return instant + Math.round(zoned.offsetNanoseconds / 1e6);
}

/** The instant as a wall time in the zone, or as a date. */
export function whenOf(instant: number, zone: string | null): When {
  const local = localOf(wallOf(instant, zone), zone);
  return zone === null ? { date: local } : { dateTime: local, timeZone: zone };
}

/** A wall time with its seconds. */
export function withSeconds(local: string): string {
  return local.length === 16 ? `${local}:00` : local;
}
