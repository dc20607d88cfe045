// The OAuth endpoints that applications and browsers call: authorize, token, register, revoke.
import { Fault } from "@/core/fault.ts";
import type { Rate } from "@/core/operation.ts";
import { readBytes } from "@/core/http/request.ts";
import { jsonResponse, type Route, routeSchema } from "@/core/http/route.ts";
import { isSafeText } from "@/core/text/text.ts";
import type { AuthorizationRequests } from "./authorization_request.ts";
import type { Clients } from "./clients.ts";
import { clientOf } from "./consent_service.ts";
import { OauthError, toOauthResponse } from "./error.ts";
import type { GrantService } from "./grant_service.ts";
import type { Issuer } from "./metadata.ts";
import {
  formDocument,
  jsonResponseDocument,
  oauthErrorDocument,
  queryDocument,
  registrationDocument,
} from "./route_document.ts";
import { OauthClient } from "./schema.ts";

const FORM_MAX_BYTES = 8 * 1024;
const FORM_FIELDS_MAX = 20;
const METADATA_MAX_BYTES = 16 * 1024;
/** Rate of authorization requests from one address. */
const AUTHORIZE_RATE: Rate = { perSecond: 0.5, burst: 30 };
const REGISTER_RATE: Rate = { perSecond: 0.2, burst: 20 };
const TOKEN_RATE: Rate = { perSecond: 1, burst: 60 };

type Deps = {
  issuer: Issuer;
  clients: Clients;
  requests: AuthorizationRequests;
  grants: GrantService;
  now: () => number;
};

export function oauthRoutes(deps: Deps): Route[] {
  return [authorizeRoute(deps), clientRoute(deps), tokenRoute(deps), registerRoute(deps), revokeRoute(deps)];
}

function authorizeRoute({ issuer, requests }: Deps): Route {
  return {
    name: "oauth.authorize",
    summary: "Ask a person to authorize an application",
    description: "The browser is sent to the page that shows the request, or back to the application with an error.",
    tag: "oauth",
    method: "GET",
    path: "/oauth/authorize",
    auth: "public",
    rate: AUTHORIZE_RATE,
    faults: ["not_found", "rate_limited"],
    document: {
      parameters: queryDocument({
        response_type: "`code`",
        client_id: "Id of a registered client, or the address of its metadata document",
        redirect_uri: "Where the browser returns; one that the client registered",
        state: "Returned unchanged",
        scope: "Scopes, separated by spaces; default all that are offered",
        code_challenge: "SHA-256 of the code verifier, as base64url",
        code_challenge_method: "`S256`",
        resource: "Address of `/mcp`",
      }),
      responses: {
        "302": { description: "To the page that shows the request, or back to the application" },
        "400": oauthErrorDocument("The client or the redirect_uri is not valid, so the browser is not sent back"),
        "401": oauthErrorDocument("The client is not known"),
      },
    },
    handle: (request, { addressKey }) =>
      toOauthResponse(async () => {
        const base = issuer.requireBase(request);
        const opened = await requests.open(new URL(request.url).searchParams, base, addressKey);
        const location = "id" in opened ? `${base}/#/oauth?request=${opened.id}` : opened.redirectTo;
        return new Response(null, { status: 302, headers: { Location: location } });
      }),
  };
}

function clientRoute({ requests }: Deps): Route {
  return {
    name: "oauth_request.client",
    summary: "Get the application that asks for authorization",
    description:
      "Requires no bearer token: the page where people sign in names the application that sent the browser there.",
    tag: "oauth",
    method: "GET",
    path: "/v1/collaboration/oauth/requests/:id/client",
    auth: "public",
    rate: AUTHORIZE_RATE,
    faults: ["not_found", "rate_limited"],
    get document() {
      return {
        examples: { id: "5kXGd0GBYhH2cWd0sYtS0Q" },
        responses: { "200": jsonResponse("The application, as it names itself", routeSchema(OauthClient)) },
      };
    },
    handle: (_request, { params: { id = "" } }) => Response.json(clientOf(requests.require(id))),
  };
}

function tokenRoute({ issuer, grants }: Deps): Route {
  return {
    name: "oauth.token",
    summary: "Exchange an authorization code or a refresh token for tokens",
    description: "A refresh token is valid for one use. The previous one can be used for another 60 seconds.",
    tag: "oauth",
    method: "POST",
    path: "/oauth/token",
    auth: "public",
    body: "stream",
    rate: TOKEN_RATE,
    faults: ["not_found", "payload_too_large", "unsupported_media_type", "rate_limited"],
    document: {
      requestBody: formDocument({
        grant_type: "`authorization_code` or `refresh_token`",
        client_id: "Id of the client",
        code: "The authorization code",
        code_verifier: "Verifier of the code challenge",
        redirect_uri: "The same as in the request",
        refresh_token: "The latest refresh token",
        resource: "Address of `/mcp`",
      }, { grant_type: "refresh_token", client_id: "client_1", refresh_token: "svcort_1" }),
      responses: {
        "200": jsonResponseDocument("An access token for `/mcp` and a refresh token"),
        "400": oauthErrorDocument("The request was refused"),
        "401": oauthErrorDocument("The client is not known"),
      },
    },
    handle: (request) =>
      toOauthResponse(async () => {
        issuer.requireBase(request);
        const form = await readForm(request);
        if (form.grant_type === "authorization_code") return Response.json(await grants.exchange(form));
        if (form.grant_type === "refresh_token") return Response.json(await grants.refresh(form));
        throw new OauthError("unsupported_grant_type", "Expected authorization_code or refresh_token");
      }),
  };
}

function registerRoute({ issuer, clients, now }: Deps): Route {
  return {
    name: "oauth.register",
    summary: "Register an application (RFC 7591)",
    description: "The returned client id contains the registration; nothing is stored.",
    tag: "oauth",
    method: "POST",
    path: "/oauth/register",
    auth: "public",
    bodyMaxBytes: METADATA_MAX_BYTES,
    rate: REGISTER_RATE,
    faults: ["not_found", "validation_failed", "rate_limited"],
    document: {
      requestBody: registrationDocument(),
      responses: {
        "201": jsonResponseDocument("The registered client"),
        "400": oauthErrorDocument("The metadata of the client is not valid"),
      },
    },
    handle: (request, { body }) =>
      toOauthResponse(() => {
        issuer.requireBase(request);
        const { clientId, client } = clients.register(body);
        const registered = {
          client_id: clientId,
          client_id_issued_at: Math.floor(now() / 1000),
          client_name: client.name,
          redirect_uris: client.redirectUris,
          grant_types: ["authorization_code", "refresh_token"],
          response_types: ["code"],
          token_endpoint_auth_method: "none",
        };
        return Response.json(registered, { status: 201 });
      }),
  };
}

function revokeRoute({ issuer, grants }: Deps): Route {
  return {
    name: "oauth.revoke",
    summary: "Revoke a token of an application, and with it the authorization (RFC 7009)",
    tag: "oauth",
    method: "POST",
    path: "/oauth/revoke",
    auth: "public",
    body: "stream",
    rate: TOKEN_RATE,
    faults: ["not_found", "payload_too_large", "unsupported_media_type", "rate_limited"],
    document: {
      requestBody: formDocument({ token: "An access token or a refresh token", token_type_hint: "Ignored" }, {
        token: "svcort_1",
      }),
      responses: {
        "200": { description: "Revoked, or unknown" },
        "400": oauthErrorDocument("The request was refused"),
      },
    },
    handle: (request) =>
      toOauthResponse(async () => {
        issuer.requireBase(request);
        const { token = "" } = await readForm(request);
        await grants.revoke(token);
        return new Response(null, { status: 200 });
      }),
  };
}

/** The fields of a form, each at most once. */
async function readForm(request: Request): Promise<Record<string, string>> {
  const type = request.headers.get("Content-Type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/x-www-form-urlencoded") {
    throw new Fault("unsupported_media_type", "Expected Content-Type: application/x-www-form-urlencoded");
  }
  const tooLarge = () => new Fault("payload_too_large", `The form is larger than ${FORM_MAX_BYTES} bytes`);
  const bytes = await readBytes(request, FORM_MAX_BYTES, tooLarge);
  const form: Record<string, string> = {};
  let count = 0;
  for (const [name, value] of new URLSearchParams(new TextDecoder().decode(bytes))) {
    if (++count > FORM_FIELDS_MAX || Object.hasOwn(form, name) || name === "__proto__" || !isSafeText(value)) {
      throw new OauthError("invalid_request", "Expected each field of the form once");
    }
    form[name] = value;
  }
  return form;
}
