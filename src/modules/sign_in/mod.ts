// Signing in at an identity provider: people of a team get a session of the browser client by the account that they have.
import { HOUR_MS } from "@/core/time/clock.ts";
import { Encryptor } from "@/core/crypto.ts";
import type { Module } from "@/core/module.ts";
import type { IdentityModule } from "@/modules/identity/mod.ts";
import type { InvitationModule } from "@/modules/invitation/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import type { IdentityProvider, ProviderConfig } from "./provider.ts";
import { signInRoutes } from "./routes.ts";

export type { ProviderConfig };

type Deps = Pick<IdentityModule, "authenticator"> & Pick<InvitationModule, "invitations"> & {
  /** `undefined`: people sign in in other ways. */
  provider: ProviderConfig | undefined;
  secrets: readonly Uint8Array[];
  publicUrl: string | undefined;
  /** How long a session may last before the provider is asked again; `undefined`: as long as any. */
  sessionHours: number | undefined;
};

export function signInModule(
  { clock, outbound }: Platform,
  { provider, authenticator, invitations, secrets, publicUrl, sessionHours }: Deps,
): Module {
  let opened: Promise<IdentityProvider> | undefined;
  /** Loaded with the first person who signs in: most gateways have no provider. */
  const open = (config: ProviderConfig): Promise<IdentityProvider> =>
    opened ??= import("./provider.ts").then((loaded) => new loaded.IdentityProvider({ config, outbound, clock }));
  return {
    name: "sign_in",
    operations: [],
    routes: signInRoutes({
      provider: provider && (() => open(provider)),
      encryptor: new Encryptor(secrets, "sign-in"),
      clock,
      publicUrl,
      async createCode(claims) {
        const { tenantId, principalId, role } = await authenticator.resolveClaims(claims);
        const sessionMs = sessionHours === undefined ? undefined : sessionHours * HOUR_MS;
        return await invitations.createSignInCode({ tenantId, principalId, role, sessionMs });
      },
    }),
    capability: () => ({ enabled: provider !== undefined, provider: provider?.name ?? null }),
  };
}
