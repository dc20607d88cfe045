// Principals and tokens in the API, and the claims of accepted tokens.
import { z } from "@zod/zod";
import { PrincipalKind, TenantRole } from "@/core/actor.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { Emoji, nameSchema } from "@/core/text/name.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";
import { isSafeText } from "@/core/text/text.ts";
import { TimeInput, TimeZoneInput } from "@/core/time/time_input.ts";

/** Never with a space, a slash or a comma: these separate ids in keys. `|` is that of Auth0, as in `auth0|65f1`. */
const ID = "[A-Za-z0-9._@:|-]{1,128}";
const ID_MESSAGE = "expected 1 to 128 characters of A-Z a-z 0-9 . _ @ : | -";
/** Ids that do not work in URLs, since clients remove dot segments, or as names of object fields. */
const RESERVED_ID = "\\.{1,2}$|__proto__$";
const RESERVED_ID_MESSAGE = "and not `.`, `..` or `__proto__`";

/** Ids of principals: the `sub` of their tokens. */
export const PrincipalId = z.string().regex(
  new RegExp(`^(?!me$|${RESERVED_ID})${ID}$`),
  `${ID_MESSAGE}, ${RESERVED_ID_MESSAGE}, and not \`me\`, which is the caller`,
);
/** The same, or `me`. */
export const PrincipalRef = z.string().regex(
  new RegExp(`^(?!${RESERVED_ID})${ID}$`),
  `${ID_MESSAGE}, ${RESERVED_ID_MESSAGE}`,
)
  .describe("Principal id, or `me`");
const TenantId = z.string().regex(
  new RegExp(`^(?!${RESERVED_ID})[A-Za-z0-9._-]{1,64}$`),
  `expected 1 to 64 characters of A-Z a-z 0-9 . _ -, ${RESERVED_ID_MESSAGE}`,
);
export const Handle = z.string().regex(
  new RegExp(`^(?!me$|all$|here$|${RESERVED_ID})[a-z0-9._-]{1,64}$`),
  `expected 1 to 64 characters of a-z 0-9 . _ -, ${RESERVED_ID_MESSAGE}, and not \`me\`, \`all\` or \`here\``,
).describe("Short name, unique within the tenant, as in @alice");
export const DisplayName = nameSchema(100);
const STATUS_MAX = 100;
const TimeZone = TimeZoneInput.describe("IANA time zone such as Europe/Vienna");
const Locale = z.string().max(35).regex(/^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$/, "expected a language tag such as en-GB")
  .describe("BCP 47 language tag such as en-GB");

/** Handles that mention all members of a room. */
export const MENTION_ALL_HANDLES: readonly string[] = ["all", "here"];

export const Status = z.object({
  text: z.string().nullable().describe("Text of the status"),
  emoji: z.string().nullable().describe("One emoji, or a name between colons"),
  until: z.iso.datetime().nullable().describe("When the status expires, without an event; null if it does not expire"),
}).meta({ id: "PrincipalStatus" });
export type Status = z.output<typeof Status>;

const StatusSet = z.strictObject({
  text: nameSchema(STATUS_MAX).optional().describe("Text of the status"),
  emoji: Emoji.optional().describe("One emoji such as 🌴, or a name such as :palm:"),
  until: TimeInput.nullable().default(null)
    .describe("When the status expires; must be in the future. null: it does not expire"),
}).refine(({ text, emoji }) => text !== undefined || emoji !== undefined, "a status needs a text, an emoji or both");

/** Which notifications a principal receives. */
export const NotificationPrefs = z.strictObject({
  mentions: z.boolean().default(true).describe("Messages and comments that mention the principal"),
  directMessages: z.boolean().default(true).describe("Messages in direct rooms"),
  replies: z.boolean().default(true).describe(
    "Replies in threads the principal participates in, and comments on its documents",
  ),
  invitations: z.boolean().default(true).describe("Invitations to rooms, events and meetings"),
  reminders: z.boolean().default(true).describe("Reminders of events, tasks and saved messages"),
}).meta({ id: "NotificationPrefs" });
export type NotificationPrefs = z.output<typeof NotificationPrefs>;

const ReadReceipts = z.boolean().describe(
  "Whether the caller shares its read positions with members who share theirs, and sees those of others. Agents follow the " +
    "setting of their owner",
);

/** Preferences of a principal, which others do not see. */
export const Preferences = z.object({ notificationPrefs: NotificationPrefs, readReceipts: ReadReceipts });
export type Preferences = z.output<typeof Preferences>;

export const Principal = z.object({
  id: PrincipalId,
  kind: PrincipalKind,
  handle: z.string().nullable().describe("Unique within the tenant; used for mentions as `@handle`. null: `@id`"),
  displayName: z.string(),
  role: TenantRole,
  ownerId: PrincipalId.nullable().describe("Owner of an agent; an agent never has more permissions than its owner"),
  externalId: z.string().nullable().describe("Id of the principal in an external system"),
  avatarFileId: z.string().nullable().describe(
    "File of the profile picture; all who see the principal may read it, and it is null once the file is deleted",
  ),
  timeZone: z.string().nullable().describe("IANA time zone of the principal"),
  locale: z.string().nullable().describe("BCP 47 language tag of the principal"),
  status: Status.nullable().describe("Current status; null if none"),
  disabled: z.boolean().describe("Whether the principal is disabled; its tokens are rejected"),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Principal" });
export type Principal = z.output<typeof Principal>;

export const MeUpdate = z.strictObject({
  displayName: DisplayName.optional(),
  handle: Handle.nullable().optional()
    .describe("Handle for mentions, unique within the tenant; guests of the tenant get theirs from an admin"),
  status: StatusSet.nullable().optional().describe("Current status; null clears it"),
  avatarFileId: z.string().max(64).nullable().optional().describe(
    "Profile picture: a JPEG, PNG, GIF or WebP image that the caller uploaded for no particular room; null removes it",
  ),
  timeZone: TimeZone.nullable().optional(),
  locale: Locale.nullable().optional(),
  notificationPrefs: patchSchema(NotificationPrefs).optional().describe(
    "Notification preferences to change; absent ones are unchanged",
  ),
  version: BaseVersion,
  readReceipts: ReadReceipts.optional(),
});
export type MeUpdate = z.output<typeof MeUpdate>;

export const PrincipalCreate = z.strictObject({
  id: PrincipalId.optional().describe(
    "Id of the principal, the `sub` of its tokens; only admins can choose it. Default: generated",
  ),
  kind: PrincipalKind,
  handle: Handle.optional().describe("Handle for mentions. Default: a free one like the display name"),
  displayName: DisplayName,
  ownerId: PrincipalRef.optional().describe("Owner of an agent. Default: the caller"),
  role: TenantRole.default("member"),
  externalId: z.string().min(1).max(200).optional().describe("Id of the principal in an external system"),
});
export type PrincipalCreate = z.output<typeof PrincipalCreate>;

export const PrincipalUpdate = z.strictObject({
  id: PrincipalRef,
  displayName: DisplayName.optional(),
  handle: Handle.nullable().optional(),
  role: TenantRole.optional(),
  disabled: z.boolean().optional().describe(
    "true disables the principal and rejects its tokens; false enables it again",
  ),
  version: BaseVersion,
});
export type PrincipalUpdate = z.output<typeof PrincipalUpdate>;

const IDS_MAX = 100;

export const PrincipalList = z.strictObject({
  ...pageInput,
  ids: z.array(PrincipalId).min(1).max(IDS_MAX).optional().describe(
    `Get the principals with these ids, at most ${IDS_MAX}, including disabled ones, in one response ` +
      "regardless of `limit`. Those not visible to the caller are left out",
  ),
  kind: PrincipalKind.optional(),
  role: TenantRole.optional(),
  q: z.string().trim().min(1).max(100).optional().describe("Part of the display name, handle or id"),
});
export type PrincipalList = z.output<typeof PrincipalList>;

const Scope = z.string().max(64).regex(
  /^(\*|[a-z]+\.(\*|read|write|manage))$/,
  "expected a scope such as message.read, room.* or *",
);

export const Token = z.object({
  id: z.string(),
  principalId: PrincipalId,
  name: z.string().describe("Name of the token"),
  scopes: z.array(z.string()).describe("Scopes of the token"),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().nullable().describe("Expiry; for a refreshable token, of its latest access token"),
  refreshExpiresAt: z.iso.datetime().nullable()
    .describe("Expiry of the refresh token if it is not used; null if the token is not refreshable"),
  lastUsedAt: z.iso.datetime().nullable().describe("Last use, with a precision of one minute"),
}).meta({ id: "Token" });
export type Token = z.output<typeof Token>;

export const TokenCreate = z.strictObject({
  principalId: PrincipalRef.default("me"),
  name: nameSchema(100).describe("Name of the token"),
  scopes: z.array(Scope).min(1).max(50).describe("Scopes of the token, such as `message.read`, `room.*` or `*`"),
  refreshable: z.boolean().default(false).describe("Create a short-lived access token and a single-use refresh token"),
  expiresInSeconds: z.int().min(60).max(31_536_000).optional()
    .describe(
      "Lifetime in seconds. Default: one year. Access tokens of a refreshable token: 15 minutes by default, one " +
        "day at most",
    ),
});
export type TokenCreate = z.output<typeof TokenCreate>;

export const NewToken = Token.extend({
  token: z.string().describe("Bearer token; returned only once"),
  refreshToken: z.string().optional().describe(
    "Refresh token of a refreshable token; returned only once, only a hash is stored",
  ),
}).meta({ id: "CreatedToken" });
export type NewToken = z.output<typeof NewToken>;

/** Unix seconds up to the year 9999; larger values, such as milliseconds, are invalid. */
const NumericDate = z.number().min(0).max(253_402_300_799, "expected seconds since 1970, not milliseconds");
const ClaimText = z.string().refine(isSafeText);

/** Claims of an access token (RFC 7519); `tid` is read where `tenant` is absent. */
export const Claims = z.looseObject({
  sub: PrincipalId,
  tenant: TenantId.optional(),
  tid: TenantId.optional(),
  kind: PrincipalKind.optional(),
  name: ClaimText.max(1000).optional(),
  role: TenantRole.optional(),
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

export const Refresh = z.strictObject({
  refreshToken: z.string().min(1).max(8192).describe("Latest refresh token of the family; valid for one use"),
});

export const Refreshed = z.object({
  accessToken: z.string().describe("Bearer token for all other endpoints"),
  refreshToken: z.string().describe("Replaces the refresh token that was sent; store it immediately"),
  expiresAt: z.iso.datetime().describe("Expiry of the access token"),
  refreshExpiresAt: z.iso.datetime().describe("Expiry of the refresh token if it is not used"),
});
export type Refreshed = z.output<typeof Refreshed>;

/** Durable events on a principal's own stream. */
export const IDENTITY_EVENTS: readonly EventType[] = [
  ...eventTypes("principal.read", [
    {
      type: "principal.updated",
      streams: ["principal"],
      summary: "The principal was changed",
      data: z.object({ principal: Principal }),
    },
    {
      type: "principal.disabled",
      streams: ["principal"],
      summary: "The principal was disabled; its connections are closed",
      data: z.object({}),
    },
  ]),
  ...eventTypes("token.manage", [
    {
      type: "token.revoked",
      streams: ["principal"],
      summary: "A token was revoked; its connections are closed",
      data: z.object({ tokenId: z.string() }),
    },
  ]),
];
