// ETags: the version of a resource and a hash of its representation for this caller, so a change of rights changes the ETag
// too. A non-cryptographic hash suffices: a forced collision within one version only hides that change from caches.
import { Fault } from "@/core/fault.ts";
import { hash64 } from "@/core/text/hash.ts";

/** An `If-Match` header with a version. */
export const IF_MATCH = /^(?:W\/)?"(\d{1,15})(?:\.[^"]*)?"$/;

/** The strong ETag of a response whose body has an integer `version`; `undefined` for others. */
export function computeEtag(output: unknown, body: string): string | undefined {
  if (typeof output !== "object" || output === null || !("version" in output)) return undefined;
  return Number.isInteger(output.version) ? `"${output.version}.${hash64(body)}"` : undefined;
}

/** The version in `If-Match`; `undefined` if there is none. */
export function parseIfMatch(header: string | null): number | undefined {
  if (header === null || header.trim() === "*") return undefined;
  const version = IF_MATCH.exec(header.trim())?.[1];
  if (version === undefined) {
    throw new Fault("bad_request", 'If-Match must be a single ETag of this resource, such as "3", or *');
  }
  return Number(version);
}
