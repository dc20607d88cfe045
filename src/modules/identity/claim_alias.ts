// Detects claims that resemble ours: ignored, they would silently leave a principal in the wrong tenant or role.
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Claims } from "./schema.ts";

/** Other names of our claims, in lower case without `_` and `-`. */
const ALIASES: ReadonlyMap<string, "tenant" | "kind" | "name" | "role" | "owner" | "scope"> = new Map([
  ["tenantid", "tenant"],
  ["tenantkey", "tenant"],
  ["tenantname", "tenant"],
  ["membertype", "kind"],
  ["principalkind", "kind"],
  ["principaltype", "kind"],
  ["usertype", "kind"],
  ["displayname", "name"],
  ["fullname", "name"],
  ["roles", "role"],
  ["memberrole", "role"],
  ["tenantrole", "role"],
  ["userrole", "role"],
  ["ownerid", "owner"],
  ["scopes", "scope"],
  ["scp", "scope"],
]);

const log = logOf("identity");
/** Aliases that were logged already; bounded by the map. */
const loggedAliases = new Set<string>();

/**
 * Rejects a token of our own issuer that has an alias instead of one of our claims. Claims of an identity provider cannot
 * be changed, so there each alias is logged once.
 */
export function rejectClaimAliases(claims: Claims, isOwn: boolean): void {
  for (const claim in claims) {
    const alias = claim.replaceAll(/[_-]/g, "").toLowerCase();
    const claimName = ALIASES.get(alias);
    if (
      claimName === undefined || claims[claimName] !== undefined || claimName === "tenant" && claims.tid !== undefined
    ) continue;
    if (isOwn) {
      throw new Fault(
        "unauthenticated",
        `The claim ${claim.slice(0, 32)} of the token is not supported: did you mean ${claimName}?`,
      );
    }
    if (loggedAliases.has(alias)) continue;
    loggedAliases.add(alias);
    log.warn("unsupported claim in a token of the identity provider", { claim: claim.slice(0, 32), meant: claimName });
  }
}
