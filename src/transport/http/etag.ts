// ETags: the version of a resource and a hash of what this caller sees of it, so a change of rights changes the tag too. A quick
// hash will do: who makes two of one version clash, with a reaction say, hides no more than that from those who had the first.
import { Fault } from "@/core/fault.ts";
import { hash64 } from "@/core/hash.ts";

/** An `If-Match` that asks for a version. */
export const IF_MATCH = /^(?:W\/)?"(\d{1,15})(?:\.[^"]*)?"$/;

/** The strong tag of an answer whose body carries an integer `version`; `undefined` for others. */
export function etagOf(output: unknown, body: string): string | undefined {
  if (typeof output !== "object" || output === null || !("version" in output)) return undefined;
  return Number.isInteger(output.version) ? `"${output.version}.${hash64(body)}"` : undefined;
}

/** Whether `If-None-Match` names the tag; weak tags count, as proxies weaken ours when they compress. */
export function isNoneMatch(header: string | null, etag: string): boolean {
  if (header === null) return false;
  return header.trim() === "*" || header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}

/** The version that `If-Match` asks for; `undefined` when it asks for none. */
export function versionOf(header: string | null): number | undefined {
  if (header === null || header.trim() === "*") return undefined;
  const version = IF_MATCH.exec(header.trim())?.[1];
  if (version === undefined) {
    throw new Fault("bad_request", 'If-Match must be one ETag of this resource, such as "3", or *');
  }
  return Number(version);
}
