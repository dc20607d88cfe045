// Operations on requests of applications, and on what they were granted.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, type Rates } from "@/core/operation.ts";
import type { ConsentService } from "./consent_service.ts";
import {
  OauthApplication,
  OauthApplicationRef,
  OauthDecided,
  OauthDecision,
  OauthRequest,
  OauthRequestRef,
} from "./schema.ts";

const PATH = "/v1/collaboration/oauth";
const MANAGE = { scope: "token.manage" } as const;
const DECISION_RATE: Rates = { human: { perSecond: 0.2, burst: 10 } };

export function oauthApi(consents: ConsentService): ModuleApi {
  return {
    tags: {
      oauth: "Applications that act for a person, such as MCP clients: their requests, and what they were granted.",
    },
    operations: [
      defineOperation({
        name: "oauth_request.read",
        summary: "Get the request of an application for authorization",
        description:
          "`GET /oauth/authorize` redirects the browser to `/#/oauth?request=<id>`, the page that calls this.",
        access: MANAGE,
        http: { method: "GET", path: `${PATH}/requests/:id`, status: 200 },
        input: OauthRequestRef,
        output: OauthRequest,
        faults: ["not_found"],
        example: { id: "bm90LWlzc3VlZA" },
        async run({ actor }, { id }) {
          return await Promise.resolve(consents.read(actor, id));
        },
      }),
      defineOperation({
        name: "oauth_request.decide",
        summary: "Allow an application to act for the caller, or deny it",
        access: MANAGE,
        http: { method: "POST", path: `${PATH}/requests/:id/decision`, status: 200 },
        input: OauthDecision,
        output: OauthDecided,
        isSecret: true,
        rate: DECISION_RATE,
        faults: ["not_found", "limit_reached"],
        example: { id: "bm90LWlzc3VlZA", decision: "allow", scopes: ["room.read", "message.read"] },
        async run({ actor }, input) {
          return { redirectTo: await consents.decide(actor, input) };
        },
      }),
      defineOperation({
        name: "oauth_application.list",
        summary: "List the applications that may act for the caller",
        access: MANAGE,
        http: { method: "GET", path: `${PATH}/applications`, status: 200 },
        input: z.strictObject({}),
        output: z.object({ items: z.array(OauthApplication) }).meta({ id: "OauthApplications" }),
        ownData: {},
        async run({ actor }) {
          return { items: await consents.applications(actor) };
        },
      }),
      defineOperation({
        name: "oauth_application.revoke",
        summary: "Revoke the authorization of an application; its tokens end at once",
        access: MANAGE,
        http: { method: "DELETE", path: `${PATH}/applications/:id`, status: 204 },
        input: OauthApplicationRef,
        output: z.void(),
        faults: ["not_found"],
        example: { id: exampleId("tok") },
        run: ({ actor }, { id }) => consents.revoke(actor, id),
      }),
    ],
  };
}
