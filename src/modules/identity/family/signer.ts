// Access tokens of families: signed with the gateway's own secret, and known as such by their `jti`.
import { SignJWT } from "jose";
import { newSecret } from "@/core/id.ts";
import type { TokenRow } from "../store.ts";

const ID = /^tok_[0-9a-f]{32}$/;
const JTI = /^(tok_[0-9a-f]{32})\.[A-Za-z0-9_-]{22}$/;

type Deps = { secret: Uint8Array; issuer?: string | undefined; audience?: string | undefined };

export class AccessTokenSigner {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * An access token of the family, good for these seconds of Unix time. It states no role: a role in a token is a statement
   * about the principal, which would undo what was set since; the family's own bound stands in its row.
   */
  async sign(family: TokenRow, from: number, until: number): Promise<string> {
    const { secret, issuer, audience } = this.#deps;
    const token = new SignJWT({ tenant: family.tenant_id, scope: family.scopes })
      .setProtectedHeader({ alg: "HS256", typ: "at+jwt" }).setSubject(family.principal_id)
      .setJti(`${family.id}.${newSecret(16)}`).setIssuedAt(from).setExpirationTime(until);
    if (issuer !== undefined) token.setIssuer(issuer);
    if (audience !== undefined) token.setAudience(audience);
    return await token.sign(secret);
  }
}

/** Whether this is the id of a token that is kept here, and not what somebody else put into a `jti`. */
export function isKept(tokenId: string): boolean {
  return ID.test(tokenId);
}

/** Id of the family that a token is of, by its `jti`. */
export function familyOf(jti: string | undefined): string | undefined {
  return jti === undefined ? undefined : JTI.exec(jti)?.[1];
}
