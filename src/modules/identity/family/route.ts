// The door of refresh tokens. A route, since an operation is called by somebody whom a bearer token names.
import { z } from "@zod/zod";
import { parse } from "@/core/dispatch.ts";
import type { Rate } from "@/core/operation.ts";
import type { Route } from "@/core/route.ts";
import { Refresh, Refreshed } from "./schema.ts";
import type { FamilyService } from "./service.ts";

/** `POST /v1/collaboration/auth/refresh`, at this rate for one address. */
export function refreshRoute(families: FamilyService, rate: Rate): Route {
  return {
    name: "token.refresh",
    summary: "Change a refresh token for a new one and an access token",
    description:
      "Needs no bearer token. A refresh token is good once: to use an old one again ends the whole family. When the answer " +
      "was lost, the same call may be repeated within 30 seconds. `POST /v1/collaboration/tokens` begins a family.",
    tag: "auth",
    method: "POST",
    path: "/v1/collaboration/auth/refresh",
    auth: "public",
    rate,
    faults: [
      "bad_request",
      "invalid_json",
      "unauthenticated",
      "token_expired",
      "token_revoked",
      "origin_not_allowed",
      "payload_too_large",
      "unsupported_media_type",
      "validation_failed",
      "unknown_field",
      "rate_limited",
    ],
    document: {
      requestBody: { required: true, content: { "application/json": { schema: schemaOf(Refresh) } } },
      responses: {
        "200": { description: "Both tokens anew", content: { "application/json": { schema: schemaOf(Refreshed) } } },
      },
    },
    async handle(_request, call) {
      const { refreshToken } = parse(Refresh, call.body);
      return Response.json(await families.refresh(refreshToken, (tenantId) => call.assertOrigin(tenantId)));
    },
  };
}

/** As what may be sent also where it is answered: answers may grow. */
function schemaOf(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: "input" });
  return rest;
}
