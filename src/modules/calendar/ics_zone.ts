// Names of time zones as calendar programs write them, as names that the time-zone database knows.
import { findIana } from "windows-iana";
import { DefinedZones } from "./ics_definition.ts";
import type { IcsFile } from "./ics_file.ts";
import { isTimeZone } from "@/core/clock.ts";

/** The zones of one file. */
export class FileZones {
  readonly #file: Pick<IcsFile, "zone" | "locations" | "definitions">;
  readonly #homeZone: string;
  readonly #defined = new DefinedZones();

  /** `homeZone` is for times without a zone in a file without one. */
  constructor(file: Pick<IcsFile, "zone" | "locations" | "definitions">, homeZone: string) {
    this.#file = file;
    this.#homeZone = homeZone;
  }

  /** The IANA name of a TZID, or of times in that year that have none; `undefined` when nobody could say. */
  named(tzid: string | undefined, year: number): string | undefined {
    const plain = (tzid ?? this.#file.zone ?? this.#homeZone).replaceAll(/^"|"$/g, "").trim();
    const [, path] = /([A-Za-z_]+\/[A-Za-z_+-]+(?:\/[A-Za-z_+-]+)?)$/.exec(plain) ?? [];
    const candidates = [
      plain,
      path,
      path?.split("/").slice(-2).join("/"),
      this.#file.locations.get(plain),
      windowsName(plain),
    ];
    const definition = this.#file.definitions.get(plain);
    return candidates.find((name) => name !== undefined && isTimeZone(name)) ??
      (definition === undefined ? fixedName(plain) : this.#defined.find(definition, year));
  }
}

function windowsName(name: string): string | undefined {
  return findIana(name)[0];
}

/** `(UTC+07:00) Bangkok, Hanoi` and its like have an offset at least, where the file does not describe them; whole hours are zones of their own. */
function fixedName(name: string): string | undefined {
  const [, sign, hours] = /^\(?(?:UTC|GMT)([+-])0?(\d{1,2}):00\)?/.exec(name) ?? [];
  if (hours === undefined) return undefined;
  if (hours === "0") return "Etc/UTC";
  // POSIX counts west of Greenwich.
  return `Etc/GMT${sign === "+" ? "-" : "+"}${hours}`;
}
