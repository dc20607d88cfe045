// The keys of an identity provider: fetched when a token needs them, then cached by jose; refetched when old, or one is unknown.
import { type CompactVerifyGetKey, createRemoteJWKSet, customFetch, errors } from "jose";
import { Fault } from "@/core/fault.ts";
import type { Outbound } from "@/ports/outbound.ts";

const FETCH_MS = 5000;
/** After a fetch that failed there is none for this time, however many tokens come that need one. */
const RETRY_MS = 1000;
/** Providers publish a few keys, some with the certificates of each. */
const DOCUMENT_MAX_BYTES = 256 * 1024;
/** Errors of jose when the provider's keys cannot be fetched or read; the token may be valid. */
const UNAVAILABLE = ["ERR_JWKS_TIMEOUT", "ERR_JWKS_INVALID", "ERR_JOSE_GENERIC"];

/** The provider's keys; throws `unavailable` if they cannot be fetched, which is not an error of the token. */
export function createProviderKeys(
  address: string,
  outbound: Outbound,
  { retryMs = RETRY_MS } = {},
): CompactVerifyGetKey {
  const url = new URL(address);
  // The operator named this host, so it may be private; a redirect to another is not followed.
  const allow = [url.hostname.replace(/^\[|\]$|\.$/g, "")];
  const read = async (target: string, init: Parameters<Outbound>[1]): Promise<Response> => {
    const options = { allow, totalMs: FETCH_MS, bodyMaxBytes: DOCUMENT_MAX_BYTES };
    const response = await outbound(target, init, options);
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`The identity provider answered with status ${response.status} instead of 200`);
    }
    // Read here: jose would report a document that is too long as one that is not JSON.
    return new Response(await response.text());
  };
  let failed: { at: number; thrown: unknown } | undefined;
  const keys = createRemoteJWKSet(url, {
    timeoutDuration: FETCH_MS,
    async [customFetch](target, { headers, signal }) {
      if (failed !== undefined && performance.now() - failed.at < retryMs) throw failed.thrown;
      try {
        return await read(target, { headers, signal });
      } catch (thrown) {
        failed = { at: performance.now(), thrown };
        throw thrown;
      }
    },
  });
  return async (header, token) => {
    try {
      return await keys(header, token);
    } catch (thrown) {
      if (thrown instanceof errors.JOSEError && !UNAVAILABLE.includes(thrown.code)) throw thrown;
      throw new Fault("unavailable", "The keys of the identity provider cannot be fetched", { cause: thrown });
    }
  };
}
