// Checks of JSON Web Tokens (RFC 7519, RFC 8725): exactly the configured algorithm and keys, every time claim, nothing else.
import { compactVerify, type CompactVerifyGetKey, createRemoteJWKSet, errors } from "jose";
import type { Clock } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { Claims } from "./schema.ts";

const TOKEN_MAX_BYTES = 8192;
const SKEW_SECONDS = 60;
const ACCEPTED_TYPE = /^(application\/)?(at\+)?jwt$/i;
/** Header fields by which a token would bring its own key. */
const KEY_BRINGERS = ["jwk", "jku", "x5u", "x5c"];
/** What jose says when the provider's keys did not come, or were none; the token may be good. */
const WITHOUT_KEYS = ["ERR_JWKS_TIMEOUT", "ERR_JWKS_INVALID", "ERR_JOSE_GENERIC"];

export type VerifierDeps = {
  clock: Clock;
  secrets: readonly Uint8Array[];
  jwksUrl?: string | undefined;
  issuer?: string | undefined;
  audience?: string | undefined;
  /** Tokens without `exp` are refused. */
  requiresExpiry: boolean;
};

export class TokenVerifier {
  readonly #deps: VerifierDeps;
  readonly #secretKeys: Promise<readonly CryptoKey[]>;
  readonly #jwks: ReturnType<typeof createRemoteJWKSet> | undefined;

  constructor(deps: VerifierDeps) {
    this.#deps = deps;
    this.#secretKeys = Promise.all(deps.secrets.map(importSecret));
    this.#jwks = deps.jwksUrl === undefined ? undefined : createRemoteJWKSet(new URL(deps.jwksUrl));
  }

  /** The claims of a good token; throws `unauthenticated` or `token_expired`. */
  async verify(token: string): Promise<Claims> {
    if (token.length > TOKEN_MAX_BYTES) throw new Fault("unauthenticated", "The token is longer than 8 KiB");
    const payload = await this.#signed(token);
    let json: unknown;
    try {
      json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    } catch (cause) {
      throw new Fault("unauthenticated", "The token's payload is not JSON", { cause });
    }
    const claims = Claims.safeParse(json);
    if (!claims.success) {
      const [issue] = claims.error.issues;
      const part = issue?.path.length ? `claim ${issue.path.join(".")}` : "payload";
      throw new Fault("unauthenticated", `The token's ${part} is not valid: ${issue?.message}`);
    }
    this.#checkTime(claims.data);
    this.#checkAudience(claims.data);
    return claims.data;
  }

  async #signed(token: string): Promise<Uint8Array> {
    const header = headerOf(token);
    const keys = header.alg === "HS256" ? await this.#secretKeys : this.#jwks === undefined ? [] : [this.#jwks];
    const algorithms = header.alg === "HS256" ? ["HS256"] : ["RS256", "ES256", "EdDSA"];
    for (const key of keys) {
      try {
        const { payload } = typeof key === "function"
          ? await compactVerify(token, fetched(key), { algorithms })
          : await compactVerify(token, key, { algorithms });
        return payload;
      } catch (error) {
        if (error instanceof Fault) throw error;
        // Anything else is of the token, or of the key that it names.
        if (!(error instanceof errors.JWSSignatureVerificationFailed)) break;
      }
    }
    throw new Fault("unauthenticated", "The token's signature or algorithm is not accepted");
  }

  #checkTime({ exp, nbf, iat }: Claims): void {
    const now = this.#deps.clock.now() / 1000;
    if (exp === undefined && this.#deps.requiresExpiry) throw new Fault("unauthenticated", "The token has no exp");
    if (exp !== undefined && exp <= now) throw new Fault("token_expired", "The token has expired");
    if (nbf !== undefined && nbf > now + SKEW_SECONDS) throw new Fault("unauthenticated", "The token is not valid yet");
    if (iat !== undefined && iat > now + SKEW_SECONDS) {
      throw new Fault("unauthenticated", "The token was issued in the future");
    }
  }

  #checkAudience({ iss, aud }: Claims): void {
    const { issuer, audience } = this.#deps;
    if (issuer !== undefined && iss !== issuer) throw new Fault("unauthenticated", "The token's iss is not accepted");
    if (audience !== undefined && !(Array.isArray(aud) ? aud : [aud]).includes(audience)) {
      throw new Fault("unauthenticated", "The token's aud is not accepted");
    }
  }
}

/** The provider's keys, whose failure to come is told from what is wrong with a token. */
function fetched(jwks: CompactVerifyGetKey): CompactVerifyGetKey {
  return async (header, token) => {
    try {
      return await jwks(header, token);
    } catch (error) {
      if (error instanceof errors.JOSEError && !WITHOUT_KEYS.includes(error.code)) throw error;
      throw new Fault("unavailable", "The identity provider's keys cannot be fetched", { cause: error });
    }
  };
}

function headerOf(token: string): { alg?: unknown } {
  const parts = token.split(".");
  let header: Record<string, unknown>;
  try {
    if (parts.length !== 3) throw new SyntaxError("not three parts");
    header = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(parts[0] ?? "", { alphabet: "base64url" })));
    if (typeof header !== "object" || header === null) throw new SyntaxError("not an object");
  } catch (cause) {
    throw new Fault("unauthenticated", "The token is not a JWT", { cause });
  }
  const bringer = KEY_BRINGERS.find((name) => name in header);
  if (bringer !== undefined) throw new Fault("unauthenticated", `The token's header field ${bringer} is not accepted`);
  const typ = header.typ;
  if (typ !== undefined && !(typeof typ === "string" && ACCEPTED_TYPE.test(typ))) {
    throw new Fault("unauthenticated", "The token's typ is not accepted");
  }
  return header;
}

function importSecret(secret: Uint8Array): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", new Uint8Array(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}
