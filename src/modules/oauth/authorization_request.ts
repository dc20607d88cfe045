// What an application asks for at `/oauth/authorize`. It is sealed within its id, so strangers make the gateway store nothing.
import { z } from "@zod/zod";
import { type Clock, MINUTE_MS } from "@/core/time/clock.ts";
import { type Encryptor, hashText } from "@/core/crypto.ts";
import { notFound } from "@/core/fault.ts";
import { isSafeText } from "@/core/text/text.ts";
import type { Issuer } from "./metadata.ts";
import { CLIENT_ID_MAX_CHARS, type Clients } from "./clients.ts";
import { OauthError, type OauthErrorCode } from "./error.ts";
import { matchesRedirectUri, REDIRECT_URI_MAX_CHARS } from "./redirect_uri.ts";

/** How long a person has to decide. */
const VALID_MS = 10 * MINUTE_MS;
const STATE_MAX_CHARS = 1000;
const SCOPE_MAX_CHARS = 2000;
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;
export const REQUEST_ID_MAX_CHARS = 8000;

const AuthorizationRequest = z.strictObject({
  issuer: z.string(),
  clientHash: z.string(),
  clientName: z.string(),
  clientHost: z.string().nullable(),
  redirectUri: z.string(),
  state: z.string().nullable(),
  challenge: z.string(),
  scopes: z.array(z.string()),
  resource: z.string(),
  /** ms since the epoch. */
  expiresAt: z.number(),
});
export type AuthorizationRequest = z.output<typeof AuthorizationRequest>;

/** Longest parameter of each name; others are ignored. */
const PARAMETERS: Readonly<Record<string, number>> = {
  response_type: 20,
  client_id: CLIENT_ID_MAX_CHARS,
  redirect_uri: REDIRECT_URI_MAX_CHARS,
  state: STATE_MAX_CHARS,
  scope: SCOPE_MAX_CHARS,
  code_challenge: 200,
  code_challenge_method: 20,
  resource: 300,
};

type Deps = { clients: Clients; encryptor: Encryptor; clock: Clock; issuer: Issuer };

export class AuthorizationRequests {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * The id of a valid request, or where to send the browser with an error. Throws an OauthError where that is unknown: an error
   * must not be sent to an address that no client registered.
   */
  async open(
    query: URLSearchParams,
    issuer: string,
    addressKey: string,
  ): Promise<{ id: string } | { redirectTo: string }> {
    const given = readParameters(query);
    const { client_id: clientId = "", redirect_uri: redirectUri = "", state = null } = given;
    const client = await this.#deps.clients.require(clientId, addressKey);
    if (!matchesRedirectUri(redirectUri, client.redirectUris)) {
      throw new OauthError("invalid_request", "The redirect_uri is not registered for this client");
    }
    try {
      const request: AuthorizationRequest = {
        issuer,
        clientHash: hashText(clientId),
        clientName: client.name,
        clientHost: client.host,
        redirectUri,
        state,
        ...this.#readTerms(given, issuer),
        expiresAt: this.#deps.clock.now() + VALID_MS,
      };
      return { id: this.#deps.encryptor.encrypt(JSON.stringify(request), "request") };
    } catch (thrown) {
      if (!(thrown instanceof OauthError)) throw thrown;
      const { code, message } = thrown;
      return { redirectTo: redirectWith({ redirectUri, state, issuer }, { error: code, error_description: message }) };
    }
  }

  /** The request of an id; throws `not_found` for one that was not issued here, or has expired. */
  require(id: string): AuthorizationRequest {
    const text = this.#deps.encryptor.decrypt(id, "request");
    if (text === undefined) throw notFound("request");
    const request = AuthorizationRequest.parse(JSON.parse(text));
    if (request.expiresAt <= this.#deps.clock.now()) throw notFound("request, or it has expired");
    return request;
  }

  #readTerms(given: Readonly<Record<string, string>>, issuer: string) {
    const { response_type, code_challenge: challenge = "", code_challenge_method, scope = "" } = given;
    if (response_type !== "code") refuse("unsupported_response_type", "Expected response_type=code");
    if (code_challenge_method !== "S256" || !CHALLENGE.test(challenge)) {
      refuse("invalid_request", "Expected a code_challenge with code_challenge_method=S256");
    }
    const resource = `${issuer}/mcp`;
    if (given.resource !== undefined && given.resource !== resource) {
      refuse("invalid_target", `Expected resource=${resource}`);
    }
    const asked = scope.split(" ").filter((part) => part !== "");
    const offered = this.#deps.issuer;
    const scopes = asked.length === 0
      ? [...offered.defaultScopes()]
      : offered.scopes().filter((one) => asked.includes(one));
    if (scopes.length === 0) refuse("invalid_scope", "None of these scopes is offered");
    return { challenge, scopes, resource };
  }
}

/** The address to which the browser is sent, with these parameters. */
export function redirectWith(
  { redirectUri, state, issuer }: Pick<AuthorizationRequest, "redirectUri" | "state" | "issuer">,
  parameters: Readonly<Record<string, string>>,
): string {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  if (state !== null) url.searchParams.set("state", state);
  url.searchParams.set("iss", issuer);
  return url.href;
}

/** The known parameters, each at most once and not too long. */
function readParameters(query: URLSearchParams): Record<string, string> {
  const given: Record<string, string> = {};
  for (const [name, value] of query) {
    const maxChars = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] ?? 0 : undefined;
    if (maxChars === undefined) continue;
    if (Object.hasOwn(given, name)) throw new OauthError("invalid_request", `${name} is repeated`);
    if (value.length > maxChars || !isSafeText(value)) throw new OauthError("invalid_request", `${name} is not valid`);
    given[name] = value;
  }
  return given;
}

function refuse(code: OauthErrorCode, message: string): never {
  throw new OauthError(code, message);
}
