// The identity provider at which people sign in, from its settings.
import type { ProviderConfig } from "@/modules/sign_in/mod.ts";
import { ConfigError } from "./secret.ts";

type OidcSettings = {
  SVC_ENV: string;
  SVC_PUBLIC_URL?: string | undefined;
  SVC_OIDC_ISSUER?: string | undefined;
  SVC_OIDC_CLIENT_ID?: string | undefined;
  SVC_OIDC_NAME?: string | undefined;
  SVC_OIDC_REQUIRE?: string | undefined;
  SVC_OIDC_SUBJECT?: string | undefined;
};

/** The provider; `undefined` where none is set. */
export function identityProvider(settings: OidcSettings, clientSecret: string | undefined): ProviderConfig | undefined {
  const { SVC_OIDC_ISSUER: issuer, SVC_OIDC_CLIENT_ID: clientId } = settings;
  const { SVC_OIDC_NAME: name, SVC_OIDC_REQUIRE: require, SVC_OIDC_SUBJECT: subject } = settings;
  if (issuer === undefined && [clientId, clientSecret, name, require, subject].every((value) => value === undefined)) {
    return undefined;
  }
  if (issuer === undefined || clientId === undefined) {
    const missing = issuer === undefined ? "SVC_OIDC_ISSUER" : "SVC_OIDC_CLIENT_ID";
    throw new ConfigError(
      `${missing} is missing: signing in needs the provider and the id it has given to the gateway`,
    );
  }
  if (settings.SVC_ENV !== "development" && settings.SVC_PUBLIC_URL === undefined) {
    throw new ConfigError("SVC_PUBLIC_URL is missing: the identity provider sends browsers back to it");
  }
  const at = require?.indexOf("=") ?? 0;
  return {
    issuer,
    clientId,
    clientSecret,
    subject: subject ?? "sub",
    name: name ?? new URL(issuer).hostname,
    required: require === undefined ? undefined : { claim: require.slice(0, at), value: require.slice(at + 1) },
  };
}
