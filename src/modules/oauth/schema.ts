// Authorizations in the API.
import { z } from "@zod/zod";
import { REQUEST_ID_MAX_CHARS } from "./authorization_request.ts";

const RequestId = z.string().regex(/^[A-Za-z0-9_-]+$/).max(REQUEST_ID_MAX_CHARS)
  .describe("Id of the request, from the address `/#/oauth?request=<id>` of the page that shows it");
const Scopes = z.array(z.string()).describe("Scopes, such as `message.read`");
const ClientHost = z.string().nullable()
  .describe("Host that publishes the application's metadata; null: it registered itself, so its name is not verified");

export const OauthRequestRef = z.strictObject({ id: RequestId });

export const OauthClient = z.object({
  clientName: z.string().describe("Name of the application, as it names itself"),
  clientHost: ClientHost,
  redirectHost: z.string().describe("Host to which the browser returns, or the scheme of a desktop application"),
});
export type OauthClient = z.output<typeof OauthClient>;

export const OauthRequest = OauthClient.extend({
  scopes: Scopes.describe("Scopes that the application requests, without those that the caller does not have"),
  expiresAt: z.iso.datetime().describe("When the request expires"),
}).meta({ id: "OauthRequest" });
export type OauthRequest = z.output<typeof OauthRequest>;

export const OauthDecision = z.strictObject({
  id: RequestId,
  decision: z.enum(["allow", "deny"]).describe("Whether the application may act for the caller"),
  scopes: z.array(z.string().max(64)).min(1).max(100).optional()
    .describe("Scopes to grant, some of those requested; default all of them"),
});
export type OauthDecision = z.output<typeof OauthDecision>;

export const OauthDecided = z.object({
  redirectTo: z.string().describe("Where the browser must go next, at once: the address has a code for one use"),
}).meta({ id: "OauthDecided" });

export const OauthApplication = z.object({
  id: z.string().describe("Id of the authorization"),
  clientName: z.string().describe("Name of the application, as it names itself"),
  clientHost: ClientHost,
  scopes: Scopes,
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().describe("Expiry of the authorization if it is not used"),
  lastUsedAt: z.iso.datetime().nullable().describe("Last use, with a precision of one minute"),
}).meta({ id: "OauthApplication" });
export type OauthApplication = z.output<typeof OauthApplication>;

export const OauthApplicationRef = z.strictObject({
  id: z.string().min(1).max(64).describe("Id of the authorization"),
});
