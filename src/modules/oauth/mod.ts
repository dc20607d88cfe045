// OAuth: authorizations of applications.
export type { Issuer } from "./metadata.ts";
export { type OauthAuthenticator, type OauthModule, oauthModule } from "./module.ts";
