// Access tokens of families: signed with the gateway's own secret, and identified by their `jti`.
import { SignJWT } from "jose";
import { newSecret } from "@/core/id.ts";
import type { TokenRow } from "../store.ts";

const TOKEN_ID = /^tok_[0-9a-f]{32}$/;
const JTI = /^(tok_[0-9a-f]{32})\.[A-Za-z0-9_-]{22}$/;

type Deps = { secret: Uint8Array; issuer?: string | undefined; audience?: string | undefined };

export class AccessTokenSigner {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * An access token of the family, valid between these times in Unix seconds. It has no role: the role in a token sets that
   * of the principal, which would undo later changes. The role that bounds the family is in its row.
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

/** Whether this is the id of a stored token, and not a `jti` of another issuer. */
export function isStoredTokenId(tokenId: string): boolean {
  return TOKEN_ID.test(tokenId);
}

/** Id of the family of an access token, from its `jti`. */
export function familyIdOf(jti: string | undefined): string | undefined {
  return jti === undefined ? undefined : JTI.exec(jti)?.[1];
}
