// Verifies JSON Web Tokens (RFC 7519, RFC 8725): the configured algorithms and keys, and every time claim.
import { compactVerify, type CompactVerifyGetKey, errors } from "jose";
import { type Clock, HOUR_SECONDS } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { INPUT_ERRORS } from "@/core/input/input_error.ts";
import { familyIdOf } from "./refresh_tokens/signer.ts";
import { rejectClaimAliases } from "./claim_alias.ts";
import { ProviderClaims } from "./provider_claims.ts";
import { Claims } from "./schema.ts";

const TOKEN_MAX_BYTES = 8192;
const SKEW_SECONDS = 60;
const ACCEPTED_TYPE = /^(application\/)?(at\+)?jwt$/i;
/** Header fields with which a token supplies its own key. */
const KEY_HEADERS = ["jwk", "jku", "x5u", "x5c"];

type VerifierDeps = {
  clock: Clock;
  secrets: readonly Uint8Array[];
  /** Keys of an identity provider whose tokens are accepted, too. */
  providerKeys?: CompactVerifyGetKey | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
  /** Audience of tokens that are for one endpoint only; all others refuse them. */
  reservedAudience?: string | undefined;
  /** Whether tokens without `exp` are rejected. */
  requiresExpiry: boolean;
  /** Tokens that are valid for longer are rejected, regardless of their issuer. */
  lifetimeMaxHours?: number | undefined;
};

export class TokenVerifier {
  readonly #deps: VerifierDeps;
  readonly #secretKeys: Promise<readonly CryptoKey[]>;

  constructor(deps: VerifierDeps) {
    this.#deps = deps;
    this.#secretKeys = Promise.all(deps.secrets.map(importSecret));
  }

  /**
   * The claims of a valid token; throws `unauthenticated` or `token_expired`. `resource`: the endpoint, if tokens may be for it
   * alone.
   */
  async verify(token: string, resource?: string): Promise<Claims> {
    if (token.length > TOKEN_MAX_BYTES) throw new Fault("unauthenticated", "The token is longer than 8 KiB");
    const { payload, isOwn } = await this.#verifySignature(token);
    let json: unknown;
    try {
      json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    } catch (cause) {
      throw new Fault("unauthenticated", "The token's payload is not JSON", { cause });
    }
    const claims = readClaims(json, isOwn);
    this.#assertCurrent(claims);
    this.#assertAudience(claims, resource);
    return claims;
  }

  /** The payload, and whether it was signed with a secret of ours and not by an identity provider. */
  async #verifySignature(token: string): Promise<{ payload: Uint8Array; isOwn: boolean }> {
    const header = headerOf(token);
    const isOwn = header.alg === "HS256";
    const { providerKeys } = this.#deps;
    const keys = isOwn ? await this.#secretKeys : providerKeys === undefined ? [] : [providerKeys];
    const algorithms = isOwn ? ["HS256"] : ["RS256", "ES256", "EdDSA"];
    for (const key of keys) {
      try {
        const { payload } = typeof key === "function"
          ? await compactVerify(token, key, { algorithms })
          : await compactVerify(token, key, { algorithms });
        return { payload, isOwn };
      } catch (thrown) {
        if (thrown instanceof Fault) throw thrown;
        // Any other error is caused by the token, or by the key that it names.
        if (!(thrown instanceof errors.JWSSignatureVerificationFailed)) break;
      }
    }
    throw new Fault("unauthenticated", "The signature or algorithm of the token is not valid");
  }

  #assertCurrent({ exp, nbf, iat, jti }: Claims): void {
    const now = this.#deps.clock.now() / 1000;
    if (exp === undefined && this.#deps.requiresExpiry) throw new Fault("unauthenticated", "The token has no exp");
    if (exp !== undefined && exp <= now) throw new Fault("token_expired", "The token has expired");
    if (nbf !== undefined && nbf > now + SKEW_SECONDS) throw new Fault("unauthenticated", "The token is not valid yet");
    if (iat !== undefined && iat > now + SKEW_SECONDS) {
      throw new Fault("unauthenticated", "The token was issued in the future");
    }
    // Access tokens of families have their own limit, and end with their family.
    if (familyIdOf(jti) === undefined) this.#assertLifetime(exp, iat ?? now);
  }

  #assertLifetime(exp: number | undefined, from: number): void {
    const { lifetimeMaxHours } = this.#deps;
    if (lifetimeMaxHours === undefined) return;
    if (exp === undefined) throw new Fault("unauthenticated", "The token has no exp");
    if (exp - from <= lifetimeMaxHours * HOUR_SECONDS + SKEW_SECONDS) return;
    const detail = `The token is valid for more than ${lifetimeMaxHours} h: sign it with an earlier exp, or raise ` +
      "SVC_LIMIT_TOKEN_HOURS";
    throw new Fault("unauthenticated", detail);
  }

  #assertAudience({ iss, aud }: Claims, resource: string | undefined): void {
    const { issuer, audience, reservedAudience } = this.#deps;
    if (issuer !== undefined && iss !== issuer) {
      throw new Fault("unauthenticated", "The iss of the token is not accepted");
    }
    const audiences = Array.isArray(aud) ? aud : [aud];
    if (audience !== undefined && audiences.includes(audience)) return;
    if (resource !== undefined && resource === reservedAudience && audiences.includes(resource)) return;
    const isReserved = reservedAudience !== undefined && audiences.includes(reservedAudience);
    if (audience !== undefined || isReserved) {
      throw new Fault("unauthenticated", "The aud of the token is not accepted");
    }
  }
}

/** The claims of a payload that was verified, by us or by an identity provider; throws `unauthenticated`. */
export function readClaims(json: unknown, isOwn: boolean): Claims {
  const claims = (isOwn ? Claims : ProviderClaims).safeParse(json, INPUT_ERRORS);
  if (!claims.success) {
    const [issue] = claims.error.issues;
    const part = issue?.path.length ? `claim ${issue.path.join(".")}` : "payload";
    throw new Fault("unauthenticated", `The token's ${part} is not valid: ${issue?.message}`);
  }
  rejectClaimAliases(claims.data, isOwn);
  return claims.data;
}

function headerOf(token: string): { alg?: unknown } {
  const parts = token.split(".");
  let header: Record<string, unknown>;
  try {
    if (parts.length !== 3) throw new SyntaxError("expected three parts");
    header = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(parts[0] ?? "", { alphabet: "base64url" })));
    if (typeof header !== "object" || header === null) throw new SyntaxError("expected an object");
  } catch (cause) {
    throw new Fault("unauthenticated", "The token is not a JWT", { cause });
  }
  const keyHeader = KEY_HEADERS.find((name) => name in header);
  if (keyHeader !== undefined) {
    throw new Fault("unauthenticated", `The header field ${keyHeader} of the token is not supported`);
  }
  const typ = header.typ;
  if (typ !== undefined && !(typeof typ === "string" && ACCEPTED_TYPE.test(typ))) {
    throw new Fault("unauthenticated", "The typ of the token is not supported");
  }
  return header;
}

function importSecret(secret: Uint8Array): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", new Uint8Array(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}
