// Wall times and instants: the one place that asks the time-zone database.
import { Fault } from "@/core/fault.ts";
import type { When } from "./schema.ts";

/** Throws `invalid_time_zone` unless the runtime knows the zone by this IANA name. */
export function checkZone(name: string, pointer: string): void {
  if (isZone(name)) return;
  throw new Fault("invalid_time_zone", `${pointer}: ${name.slice(0, 64)} is no IANA time zone`, {
    errors: [{ pointer, code: "invalid_time_zone", detail: "An IANA name such as Europe/Vienna" }],
  });
}

/** Whether this is an IANA name; offsets such as +02:00 are none, they know no daylight saving. */
export function isZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
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

/** The same for a wall time that a rule made: `undefined` where the zone skips it, which RFC 5545 3.3.10 leaves out. */
export function instantOfGenerated(wall: number, zone: string | null): number | undefined {
  if (zone === null) return wall;
  const instant = instantOf(localOf(wall, zone), zone);
  return wallOf(instant, zone) === wall ? instant : undefined;
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
