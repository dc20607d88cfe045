// The identity provider at which people sign in: OpenID Connect Core 1.0, authorization code flow with PKCE.
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  AuthorizationResponseError,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  calculatePKCECodeChallenge,
  type ClientAuth,
  ClientError,
  ClientSecretBasic,
  ClientSecretPost,
  clockTolerance,
  type Configuration,
  type CustomFetch,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  ResponseBodyError,
} from "openid-client";
import { type Clock, HOUR_MS } from "@/core/time/clock.ts";
import { Fault } from "@/core/fault.ts";
import { allowHostOf, type Outbound } from "@/ports/outbound.ts";

/** The provider as the operator configured it. */
export type ProviderConfig = {
  issuer: string;
  clientId: string;
  /** Absent: a public client, which PKCE alone protects. */
  clientSecret: string | undefined;
  /** The claim that is the id of a person here. */
  subject: string;
  /** What people know it as. */
  name: string;
  /** The claim, and its value or one of its values, without which nobody is admitted. */
  required: { claim: string; value: string } | undefined;
};
/** What connects a return from the provider with the browser that was sent there. */
export type Attempt = { state: string; nonce: string; verifier: string };
type ProviderClaims = Readonly<Record<string, unknown>>;
type Deps = { config: ProviderConfig; outbound: Outbound; clock: Clock };

const SCOPE = "openid profile email";
const FETCH_MS = 5000;
const DOCUMENT_MAX_BYTES = 256 * 1024;
const SKEW_SECONDS = 60;
/** As registered for OAuth and OpenID Connect. */
const ERROR_CODE = /^[a-z_]{1,64}$/;

export class IdentityProvider {
  readonly #deps: Deps;
  #discovered: { configuration: Promise<Configuration>; until: number } | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Where to send a browser, and what it must show when it returns. Throws `unavailable` if the provider does not say where. */
  async begin(redirectUri: string): Promise<{ address: string; attempt: Attempt }> {
    const attempt = { state: randomState(), nonce: randomNonce(), verifier: randomPKCECodeVerifier() };
    const url = buildAuthorizationUrl(await this.#configuration(), {
      redirect_uri: redirectUri,
      scope: SCOPE,
      state: attempt.state,
      nonce: attempt.nonce,
      code_challenge: await calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: "S256",
    });
    return { address: url.href, attempt };
  }

  /**
   * The claims of the person who returned to this address, and the ID token that says so. Throws `forbidden` if the
   * provider or the required claim denies access, `unavailable` if the provider does not answer, `unauthenticated` if
   * anything is not valid.
   */
  async finish(
    address: URL,
    { state, nonce, verifier }: Attempt,
  ): Promise<{ claims: ProviderClaims; idToken: string }> {
    const configuration = await this.#configuration();
    try {
      const tokens = await authorizationCodeGrant(configuration, address, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const signed: ProviderClaims = { ...tokens.claims() };
      const all = { ...await userInfoOf(configuration, tokens.access_token, signed), ...signed };
      this.#assertRequired(all);
      this.#assertVerified(all);
      const claims = { ...all, sub: all[this.#deps.config.subject], name: all.name ?? all.preferred_username };
      return { claims, idToken: tokens.id_token ?? "" };
    } catch (thrown) {
      throw faultOf(thrown);
    }
  }

  /** Where a person signs out at the provider, and is sent back from; `undefined` if it does not offer that. */
  async end(idToken: string, returnTo: string): Promise<string | undefined> {
    const configuration = await this.#configuration();
    if (configuration.serverMetadata().end_session_endpoint === undefined) return undefined;
    const hint: Record<string, string> = idToken === "" ? {} : { id_token_hint: idToken };
    return buildEndSessionUrl(configuration, { post_logout_redirect_uri: returnTo, ...hint }).href;
  }

  #assertRequired(claims: ProviderClaims): void {
    const { required } = this.#deps.config;
    if (required === undefined || [claims[required.claim]].flat().map(String).includes(required.value)) return;
    throw new Fault(
      "forbidden",
      `The identity provider does not say ${required.claim}=${required.value} of this person`,
    );
  }

  /** At many providers, people may enter any address as theirs. */
  #assertVerified({ email_verified: verified }: ProviderClaims): void {
    if (this.#deps.config.subject !== "email" || String(verified) !== "false") return;
    throw new Fault("forbidden", "The identity provider has not verified the address of this person");
  }

  /** Read when it is needed, so that the gateway starts without its provider, and once an hour. */
  #configuration(): Promise<Configuration> {
    const now = this.#deps.clock.now();
    if (this.#discovered !== undefined && now < this.#discovered.until) return this.#discovered.configuration;
    const configuration = this.#discover();
    this.#discovered = { configuration, until: now + HOUR_MS };
    configuration.catch(() => this.#discovered = undefined);
    return configuration;
  }

  async #discover(): Promise<Configuration> {
    const { issuer, clientId, clientSecret } = this.#deps.config;
    const url = new URL(issuer);
    const execute = [enableNonRepudiationChecks, ...url.protocol === "http:" ? [allowInsecureRequests] : []];
    const metadata = { [clockTolerance]: SKEW_SECONDS };
    const auth = clientSecret === undefined ? None() : withSecret(clientSecret);
    try {
      return await discovery(url, clientId, metadata, auth, { execute, [customFetch]: this.#fetch() });
    } catch (thrown) {
      const cause = causeOf(thrown);
      throw new Fault("unavailable", "The configuration of the identity provider cannot be read", { cause });
    }
  }

  /** The operator named the issuer's host, so it may be private; others that its configuration names may not. */
  #fetch(): CustomFetch {
    const { config, outbound } = this.#deps;
    const options = { ...allowHostOf(config.issuer), totalMs: FETCH_MS, bodyMaxBytes: DOCUMENT_MAX_BYTES };
    return async (url, { method, headers, body, signal }) => {
      const form = body instanceof URLSearchParams ? { body: body.toString() } : {};
      const response = await outbound(url, { method, headers, ...form, ...signal && { signal } }, options);
      if (response.status < 500) return response;
      await response.body?.cancel();
      throw new Fault("unavailable", `The identity provider answered with status ${response.status}`);
    };
  }
}

/** In the form or in a header, whichever the provider accepts; without a list of its methods it is the header. */
function withSecret(secret: string): ClientAuth {
  const [post, basic] = [ClientSecretPost(secret), ClientSecretBasic(secret)];
  return (server, ...rest) =>
    (server.token_endpoint_auth_methods_supported?.includes("client_secret_post") ? post : basic)(server, ...rest);
}

/** What some providers keep out of ID tokens, and return at an endpoint of its own. */
async function userInfoOf(
  configuration: Configuration,
  accessToken: string,
  { sub }: ProviderClaims,
): Promise<ProviderClaims> {
  if (configuration.serverMetadata().userinfo_endpoint === undefined) return {};
  return await fetchUserInfo(configuration, accessToken, String(sub));
}

function faultOf(thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  if (thrown instanceof AuthorizationResponseError && thrown.error === "access_denied") {
    return new Fault("forbidden", "The identity provider denied access", { cause: thrown });
  }
  if (thrown instanceof AuthorizationResponseError || thrown instanceof ResponseBodyError) {
    const code = ERROR_CODE.test(thrown.error) ? thrown.error : "an error";
    return new Fault("unauthenticated", `The identity provider answered with ${code}`, { cause: thrown });
  }
  const cause = causeOf(thrown);
  return cause === thrown
    ? new Fault("unauthenticated", "The identity provider's response is not valid", { cause })
    : new Fault("unavailable", "The identity provider cannot be reached", { cause });
}

/** What made a call fail; otherwise the same. The library says that by errors without a code, or by that of a timeout. */
function causeOf(thrown: unknown): unknown {
  const isCall = thrown instanceof ClientError && (thrown.code === undefined || thrown.code === "OAUTH_TIMEOUT");
  return isCall ? thrown.cause : thrown;
}
