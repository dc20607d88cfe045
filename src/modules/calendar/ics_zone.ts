// Names of time zones as calendar programs write them, as names that the time-zone database knows.
import { findIana } from "windows-iana";
import { isZone } from "./zone.ts";

/** The IANA name of a TZID; `undefined` when nobody could say. `locations` are the file's own X-LIC-LOCATION hints. */
export function zoneNamed(tzid: string, locations: ReadonlyMap<string, string>): string | undefined {
  const plain = tzid.replaceAll(/^"|"$/g, "").trim();
  const [, path] = /([A-Za-z_]+\/[A-Za-z_+-]+(?:\/[A-Za-z_+-]+)?)$/.exec(plain) ?? [];
  const candidates = [
    plain,
    path,
    path?.split("/").slice(-2).join("/"),
    locations.get(plain),
    windowsName(plain),
    fixedName(plain),
  ];
  return candidates.find((name) => name !== undefined && isZone(name));
}

function windowsName(name: string): string | undefined {
  return findIana(name)[0];
}

/** `(UTC+07:00) Bangkok, Hanoi` and its like have an offset at least; whole hours are zones of their own. */
function fixedName(name: string): string | undefined {
  const [, sign, hours] = /^\(?(?:UTC|GMT)([+-])0?(\d{1,2}):00\)?/.exec(name) ?? [];
  if (hours === undefined) return undefined;
  if (hours === "0") return "Etc/UTC";
  // POSIX counts west of Greenwich.
  return `Etc/GMT${sign === "+" ? "-" : "+"}${hours}`;
}
