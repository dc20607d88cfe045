// The endpoint that exchanges a code for a session. A route, since operations require a bearer token.
import { z } from "@zod/zod";
import { parse } from "@/core/dispatch.ts";
import type { Rate } from "@/core/operation.ts";
import { clientOf } from "@/core/http/request.ts";
import { jsonBody, jsonResponse, type Route, routeSchema } from "@/core/http/route.ts";
import { Join, Joined } from "./schema.ts";
import type { InvitationService } from "./service.ts";
import { SIGN_IN_COOKIE } from "./sign_in_cookie.ts";

const EXAMPLE = { code: "x7Tq2cVbN0pLr5sYw8uZa1dEf4gHj6kM3nQoRtUvXyA", displayName: "Alice" };

/** Rate of one address, which may be that of an office whose people all arrive at nine. Codes are too long to be guessed. */
export const SIGN_IN_RATE: Rate = { perSecond: 1, burst: 100 };

/** `POST /v1/collaboration/auth/join` */
export function joinRoute(invitations: InvitationService): Route {
  return {
    name: "invitation.join",
    summary: "Join a tenant: exchange the code of an invitation for a principal and a token",
    description:
      "Requires no bearer token. In development, the gateway logs an address with a code for the first owner when it " +
      "starts; that code can be exchanged here, too, without a name. So can the code of who signed in at the identity " +
      "provider, by the browser that did.",
    tag: "auth",
    method: "POST",
    path: "/v1/collaboration/auth/join",
    auth: "public",
    rate: SIGN_IN_RATE,
    faults: [
      "bad_request",
      "unauthenticated",
      "token_revoked",
      "handle_taken",
      "origin_not_allowed",
      "validation_failed",
      "unknown_field",
      "rate_limited",
    ],
    get document() {
      return {
        requestBody: jsonBody(routeSchema(Join), EXAMPLE),
        responses: { "201": jsonResponse("The principal and its new token", joinedSchema()) },
      };
    },
    async handle(request, call) {
      const client = clientOf(request, call.ip);
      const given = { ...parse(Join, call.body), cookie: SIGN_IN_COOKIE.read(request) };
      const joined = await invitations.join(given, client, (tenantId) => call.assertOrigin(tenantId));
      return Response.json(joined, { status: 201 });
    },
  };
}

/** The document already has a schema of principals. */
const joinedSchema = (): Record<string, unknown> =>
  routeSchema(
    Joined.extend({
      principal: z.unknown().meta({ $ref: "#/components/schemas/Principal" }).describe("The principal"),
    }),
  );
