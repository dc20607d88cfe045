// Time zones by the names of the IANA database.
import { Fault } from "../fault.ts";
import { LruMap } from "../lru_map.ts";

/** Longer than any time zone name, those of calendar programs included. */
export const TIME_ZONE_MAX_CHARS = 64;

/** Names that were found valid: to check one takes an eighth of a millisecond, longer than all else of most resources. */
const knownTimeZones = new LruMap<string, string>(1000);

/** The IANA time zone of this name, as its database spells it. Offsets such as +02:00 have no daylight saving time: no zones. */
export function findTimeZone(name: string): string | undefined {
  const known = knownTimeZones.get(name);
  if (known !== undefined) return known;
  if (name.length > TIME_ZONE_MAX_CHARS || !/^[A-Za-z]/.test(name)) return undefined;
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    // `Intl` knows a few names that Temporal does not, such as PST.
    const { timeZoneId } = Temporal.Now.zonedDateTimeISO(name);
    knownTimeZones.set(name, timeZoneId);
    return timeZoneId;
  } catch {
    return undefined;
  }
}

/** The same; throws `invalid_time_zone` unless the runtime knows the zone. */
export function requireTimeZone(name: string, pointer: string): string {
  const zone = findTimeZone(name);
  if (zone !== undefined) return zone;
  throw new Fault("invalid_time_zone", `${pointer}: ${name.slice(0, 64)} is not an IANA time zone`, {
    errors: [{ pointer, code: "invalid_time_zone", detail: "expected an IANA time zone such as Europe/Vienna" }],
  });
}
