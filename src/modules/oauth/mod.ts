// OAuth: authorizations of applications.
export { type OauthModule, oauthModule } from "./module.ts";
