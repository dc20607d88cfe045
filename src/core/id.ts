// Ids: UUIDv7 (RFC 9562) as 32 hex digits behind a prefix that names the kind, so they sort by time of creation.
import { v7 } from "uuid";

/** Overwritten by each id. */
const scratch = new Uint8Array(16);

/** A new id such as `msg_0190c5d2e7f07b1c9d0a1b2c3d4e5f60`. */
export function newId(prefix: string): string {
  return `${prefix}_${v7(undefined, scratch).toHex()}`;
}

/** An id in the examples of the documents. */
export function exampleId(prefix: string): string {
  return `${prefix}_0190c5d2e7f07b1c9d0a1b2c3d4e5f60`;
}

/** `bytes` of randomness as base64url, for secrets. */
export function newSecret(bytes = 32): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toBase64({ alphabet: "base64url", omitPadding: true });
}
