// Invitations: how people without an identity provider get their first token.
import type { Module } from "@/core/module.ts";
import type { AuditLog } from "@/modules/audit/mod.ts";
import type { Admission, IdentityService } from "@/modules/identity/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { invitationApi } from "./api.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { InvitationService } from "./service.ts";

export { SIGN_IN_RATE } from "./route.ts";
export type { SignInCode } from "./service.ts";
export { SIGN_IN_COOKIE, SIGN_IN_SECONDS } from "./sign_in_cookie.ts";

type Deps = { identity: IdentityService; admission: Admission; audit: AuditLog };

export type InvitationModule = Module & { invitations: InvitationService };

export function invitationModule(
  { store, clock, cursors }: Platform,
  { identity, admission, audit }: Deps,
): InvitationModule {
  const invitations = new InvitationService({ store, clock, cursors, identity, admission, audit });
  return {
    name: "invitation",
    migrations,
    erases,
    ...invitationApi(invitations),
    maintenance: { invitations: () => invitations.purge() },
    invitations,
  };
}
