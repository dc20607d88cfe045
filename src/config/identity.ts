// What the identity module takes from the settings as it is.
import type { IdentitySettings } from "@/modules/identity/mod.ts";
import type { Config } from "./config.ts";
import type { Limits } from "./limits.ts";

export function identitySettings({ settings, jwtSecret, jwtSecrets }: Config, limits: Limits): IdentitySettings {
  return {
    secret: jwtSecret,
    secrets: jwtSecrets,
    issuer: settings.SVC_JWT_ISSUER,
    audience: settings.SVC_JWT_AUDIENCE,
    reservedAudience: settings.SVC_PUBLIC_URL && `${settings.SVC_PUBLIC_URL}/mcp`,
    jwksUrl: settings.SVC_JWKS_URL,
    requiresExpiry: settings.SVC_ENV !== "development",
    lifetimeMaxHours: settings.SVC_LIMIT_TOKEN_HOURS,
    refreshDays: settings.SVC_LIMIT_REFRESH_TOKEN_DAYS,
    agentsPerOwner: limits.agentsPerOwner,
    refreshRate: limits.refreshes,
    limits: limits.publicLimits,
  };
}
