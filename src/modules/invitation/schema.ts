// Invitations in the API.
import { z } from "@zod/zod";
import { TenantRole } from "@/core/actor.ts";
import { nameSchema } from "@/core/text/name.ts";
import { DAY_SECONDS } from "@/core/time/clock.ts";
import { NewToken, Principal } from "@/modules/identity/mod.ts";

export const Invitation = z.object({
  id: z.string(),
  name: z.string().describe("What the invitation is for, as shown in lists"),
  role: TenantRole.describe("Tenant role of those who join"),
  usesLeft: z.int().describe("How many principals may still join with it"),
  createdBy: z.string().describe("Principal that created it; while it is disabled or demoted, the code is rejected"),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
}).meta({ id: "Invitation" });
export type Invitation = z.output<typeof Invitation>;

export const NewInvitation = Invitation.extend({
  code: z.string().describe("Secret code; returned only once, only a hash is stored"),
  path: z.string().describe("Relative address that joins in a browser: the code follows the `#`, so no server logs it"),
}).meta({ id: "CreatedInvitation" });
export type NewInvitation = z.output<typeof NewInvitation>;

export const InvitationCreate = z.strictObject({
  name: nameSchema(100).default("Invitation").describe("What the invitation is for"),
  role: TenantRole.default("member").describe(
    "Tenant role of those who join; lower than the caller's, or any for owners",
  ),
  uses: z.int().min(1).max(1000).default(1).describe("How many principals may join with it"),
  expiresInSeconds: z.int().min(60).max(30 * DAY_SECONDS).default(7 * DAY_SECONDS).describe("How long it is valid"),
});
export type InvitationCreate = z.output<typeof InvitationCreate>;

export const Join = z.strictObject({
  code: z.string().min(1).max(100).describe("Code of an invitation, or of a sign-in address"),
  displayName: nameSchema(100).optional().describe("Name of the new principal; required for an invitation"),
});
export type Join = z.output<typeof Join>;

export const Joined = NewToken.extend({
  id: z.string().describe("Id of the token"),
  principalId: z.string().describe("Principal of the token"),
  createdAt: z.iso.datetime().describe("When the token was created"),
  principal: Principal.describe("Principal of the token"),
});
export type Joined = z.output<typeof Joined>;
