// Principals and tokens as seen from outside, and the claims of the tokens we accept.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS, TENANT_ROLES } from "@/core/actor.ts";
import { isTimeZone } from "@/core/clock.ts";
import type { EventType } from "@/core/event.ts";
import { pageInput } from "@/core/page.ts";
import { patchOf } from "@/core/patch.ts";
import { isSafeText } from "@/core/text.ts";

const ID = "[A-Za-z0-9._@:-]{1,128}";
const ID_SAYS = "1 to 128 of A-Z a-z 0-9 . _ @ : -";

/** Ids of principals: the `sub` of their tokens. */
export const PrincipalId = z.string().regex(
  new RegExp(`^(?!me$)${ID}$`),
  `${ID_SAYS}, and not \`me\`, which stands for the caller`,
);
/** The same, or `me`. */
export const PrincipalRef = z.string().regex(new RegExp(`^${ID}$`), ID_SAYS)
  .describe("Principal id, or `me`");
const TenantId = z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 . _ -");
const Handle = z.string().regex(/^(?!me$)[a-z0-9._-]{1,64}$/, "1 to 64 of a-z 0-9 . _ -, and not `me`");
const DisplayName = z.string().trim().min(1).max(100);
const TimeZone = z.string().max(64).refine(isTimeZone, "an IANA time zone such as Europe/Vienna");
const Locale = z.string().max(35).regex(/^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$/, "a language tag such as en-GB");

/** Which notifications a principal wants. */
export const NotificationPrefs = z.strictObject({
  mentions: z.boolean().default(true),
  directMessages: z.boolean().default(true),
  replies: z.boolean().default(true),
  invitations: z.boolean().default(true),
  reminders: z.boolean().default(true),
}).meta({ id: "NotificationPrefs" });

export const Principal = z.object({
  id: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  handle: Handle.nullable(),
  displayName: z.string(),
  role: z.enum(TENANT_ROLES),
  ownerId: PrincipalId.nullable().describe("Owner of an agent; the agent's rights never exceed the owner's"),
  externalId: z.string().nullable(),
  avatarFileId: z.string().nullable(),
  timezone: z.string().nullable(),
  locale: z.string().nullable(),
  disabled: z.boolean(),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Principal" });
export type Principal = z.output<typeof Principal>;

export const MeUpdate = z.strictObject({
  displayName: DisplayName.optional(),
  avatarFileId: z.string().max(64).nullable().optional(),
  timezone: TimeZone.nullable().optional(),
  locale: Locale.nullable().optional(),
  notificationPrefs: patchOf(NotificationPrefs).optional(),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type MeUpdate = z.output<typeof MeUpdate>;

export const PrincipalCreate = z.strictObject({
  id: PrincipalId.optional().describe("The `sub` its tokens will have, for admins to choose; made up when absent"),
  kind: z.enum(PRINCIPAL_KINDS),
  handle: Handle.optional(),
  displayName: DisplayName,
  ownerId: PrincipalRef.optional().describe("Owner of an agent; default the caller"),
  role: z.enum(TENANT_ROLES).default("member"),
  externalId: z.string().min(1).max(200).optional(),
});
export type PrincipalCreate = z.output<typeof PrincipalCreate>;

export const PrincipalUpdate = z.strictObject({
  id: PrincipalRef,
  displayName: DisplayName.optional(),
  handle: Handle.nullable().optional(),
  role: z.enum(TENANT_ROLES).optional(),
  disabled: z.boolean().optional(),
  version: z.int().min(1).optional().describe("Refuse unless this is the current version (HTTP: If-Match)"),
});
export type PrincipalUpdate = z.output<typeof PrincipalUpdate>;

export const PrincipalList = z.strictObject({
  ...pageInput,
  kind: z.enum(PRINCIPAL_KINDS).optional(),
  role: z.enum(TENANT_ROLES).optional(),
  q: z.string().trim().min(1).max(100).optional().describe("Part of the display name, handle or id"),
});
export type PrincipalList = z.output<typeof PrincipalList>;

const Scope = z.string().max(64).regex(/^(\*|[a-z]+\.(\*|read|write|manage))$/, "such as message.read, room.* or *");

export const Token = z.object({
  id: z.string(),
  principalId: PrincipalId,
  name: z.string(),
  scopes: z.array(z.string()),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().nullable().describe("Of a refreshable one, when its latest access token ends"),
  refreshExpiresAt: z.iso.datetime().nullable()
    .describe("When its refresh token ends, unless it is used before; null = not refreshable"),
  lastUsedAt: z.iso.datetime().nullable().describe("Exact to a minute"),
}).meta({ id: "Token" });
export type Token = z.output<typeof Token>;

export const TokenCreate = z.strictObject({
  principalId: PrincipalRef.default("me"),
  name: z.string().trim().min(1).max(100),
  scopes: z.array(Scope).min(1).max(50),
  refreshable: z.boolean().default(false)
    .describe("Makes a short access token, and a refresh token that is good once and for another of each"),
  expiresInSeconds: z.int().min(60).max(31_536_000).optional()
    .describe("Default a year; of the access tokens of a refreshable one 15 minutes, and a day at most"),
});
export type TokenCreate = z.output<typeof TokenCreate>;

export const NewToken = Token.extend({
  token: z.string().describe("The bearer token, shown this once"),
  refreshToken: z.string().optional().describe("Of a refreshable one; shown this once, kept only as a hash"),
}).meta({ id: "NewToken" });
export type NewToken = z.output<typeof NewToken>;

/** Seconds since 1970, up to the year 9999: what is said in milliseconds, or never ends, is no time. */
const NumericDate = z.number().min(0).max(253_402_300_799);
const ClaimText = z.string().refine(isSafeText);

/** Claims of an access token (RFC 7519); `tid` is read where `tenant` is absent. */
export const Claims = z.looseObject({
  sub: PrincipalId,
  tenant: TenantId.optional(),
  tid: TenantId.optional(),
  kind: z.enum(PRINCIPAL_KINDS).optional(),
  name: ClaimText.max(1000).optional(),
  role: z.enum(TENANT_ROLES).optional(),
  owner: PrincipalId.optional(),
  scope: z.string().max(4096).optional(),
  jti: ClaimText.min(1).max(200).optional(),
  iss: z.string().optional(),
  aud: z.union([z.string(), z.array(z.string())]).optional(),
  exp: NumericDate.optional(),
  nbf: NumericDate.optional(),
  iat: NumericDate.optional(),
});
export type Claims = z.output<typeof Claims>;

/** Durable events on a principal's own stream. */
export const IDENTITY_EVENTS: readonly EventType[] = [
  {
    type: "principal.updated",
    streams: ["principal"],
    summary: "The principal changed",
    data: z.object({ principal: Principal }),
  },
  {
    type: "principal.disabled",
    streams: ["principal"],
    summary: "The principal was disabled; its sockets close",
    data: z.object({}),
  },
  {
    type: "token.revoked",
    streams: ["principal"],
    summary: "A token ended; its sockets close",
    data: z.object({ tokenId: z.string() }),
  },
];
