// The endpoint of refresh tokens. A route, since operations require a bearer token.
import { parse } from "@/core/dispatch.ts";
import type { Rate } from "@/core/operation.ts";
import { jsonBody, jsonResponse, type Route, routeSchema } from "@/core/http/route.ts";
import { Refresh, Refreshed } from "../schema.ts";
import type { RefreshTokenService } from "./service.ts";

const EXAMPLE = {
  refreshToken: "svcrt_x7Tq2cVbN0pLr5sYw8uZa1dEf4gHj6kM3nQoRtUvXyA.u3Yk9fBc2mTn7sWq4vLx1zRp6aHd8eJg0iKo5lCbNvE",
};

/** `POST /v1/collaboration/auth/refresh`, at this rate for one address. */
export function refreshRoute(refreshTokens: RefreshTokenService, rate: Rate): Route {
  return {
    name: "token.refresh",
    summary: "Refresh an access token: exchange a refresh token for a new pair of tokens",
    description:
      "Requires no bearer token. A refresh token can be used once; reusing an old one revokes the whole token " +
      "family. If the response was lost, the same call can be repeated within 30 seconds. Create a token family " +
      "with `POST /v1/collaboration/tokens`.",
    tag: "auth",
    method: "POST",
    path: "/v1/collaboration/auth/refresh",
    auth: "public",
    rate,
    faults: [
      "bad_request",
      "unauthenticated",
      "token_expired",
      "token_revoked",
      "origin_not_allowed",
      "validation_failed",
      "unknown_field",
      "rate_limited",
    ],
    get document() {
      return {
        requestBody: jsonBody(routeSchema(Refresh), EXAMPLE),
        responses: { "200": jsonResponse("New access token and refresh token", routeSchema(Refreshed)) },
      };
    },
    async handle(_request, call) {
      const { refreshToken } = parse(Refresh, call.body);
      return Response.json(await refreshTokens.refresh(refreshToken, (tenantId) => call.assertOrigin(tenantId)));
    },
  };
}
