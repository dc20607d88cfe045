// Ids: UUIDv7 (RFC 9562) as 32 hex digits behind a prefix that names the kind, so they sort by time of creation.
import { v7 } from "uuid";
import type { Clock } from "./time/clock.ts";

/** Overwritten by each id. */
const scratch = new Uint8Array(16);
const SEQ_START_MAX = 2 ** 31;

let clock: Clock = Date;
/** Time and number of the last id: those of one millisecond, or of a clock that was set back, are counted. */
let [lastMs, seq] = [0, 0];

/** Ids have the time of this clock from here on, such as that of the database, which nodes share; `undefined`: of the host. */
export function setIdClock(shared: Clock | undefined): void {
  [clock, lastMs] = [shared ?? Date, 0];
}

/** A new id such as `msg_0190c5d2e7f07b1c9d0a1b2c3d4e5f60`. */
export function newId(prefix: string): string {
  const now = clock.now();
  if (now > lastMs) [lastMs, seq] = [now, Math.floor(Math.random() * SEQ_START_MAX)];
  else seq++;
  return `${prefix}_${v7({ msecs: lastMs, seq }, scratch).toHex()}`;
}

/** An id in the examples of the documents. */
export function exampleId(prefix: string): string {
  return `${prefix}_0190c5d2e7f07b1c9d0a1b2c3d4e5f60`;
}

/** `bytes` of randomness as base64url, for secrets. */
export function newSecret(bytes = 32): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toBase64({ alphabet: "base64url", omitPadding: true });
}
