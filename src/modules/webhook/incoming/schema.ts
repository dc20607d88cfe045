// Incoming hooks as clients see them.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput } from "@/core/page.ts";
import { BaseVersion, patchSchema } from "@/core/patch.ts";
import { nameSchema } from "@/core/text/name.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const HOOKS_PER_ROOM = 10;
/** Longest request of a hook. */
export const HOOK_BODY_MAX_BYTES = 512 * 1024;
export const HOOK_PATH = "/v1/collaboration/hooks";

const HookId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");
const SigningSecret = z.string().min(8).max(256);

const fields = {
  displayName: nameSchema(100).describe("Name under which it posts"),
  avatarFileId: z.string().max(64).nullable().default(null).describe(
    "Picture beside its messages: a JPEG, PNG, GIF or WebP image that the caller uploaded for no particular room",
  ),
  description: z.string().max(500).nullable().default(null).describe("What it is for"),
  mayMentionAll: z.boolean().default(false).describe("Whether `<!channel>` in what it receives mentions everybody"),
  enabled: z.boolean().default(true).describe("Whether it accepts requests"),
};

export const HookCreate = z.strictObject({
  roomId: RoomId,
  ...fields,
  signed: z.boolean().default(false)
    .describe("Whether requests must be signed with a secret; without `signingSecret` one is generated"),
  signingSecret: SigningSecret.optional().describe("The secret that the sender signs with; implies `signed`"),
});
export type HookCreate = z.output<typeof HookCreate>;

export const HookUpdate = patchSchema(z.strictObject(fields)).extend({
  id: HookId,
  signingSecret: SigningSecret.nullable().optional()
    .describe("New secret that the sender signs with; null: requests need no signature"),
  version: BaseVersion,
});
export type HookUpdate = z.output<typeof HookUpdate>;

export const HookRef = z.strictObject({ id: HookId });
export const HookList = z.strictObject({ roomId: RoomId, ...pageInput });
export type HookList = z.output<typeof HookList>;

export const Hook = z.object({
  id: HookId,
  roomId: RoomId,
  principalId: PrincipalId.describe("Principal that posts its messages"),
  displayName: z.string().describe("Name under which it posts"),
  avatarFileId: z.string().nullable().describe("Picture beside its messages; all who see the hook may read it"),
  description: z.string().nullable().describe("What it is for"),
  mayMentionAll: z.boolean().describe("Whether `<!channel>` mentions everybody"),
  signed: z.boolean().describe("Whether requests must be signed"),
  enabled: z.boolean().describe("Whether it accepts requests"),
  responsibleId: PrincipalId.describe(
    "Principal that created it or rotated it last: it is charged for it, and the hook posts only while it may",
  ),
  version: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
}).meta({ id: "Hook" });
export type Hook = z.output<typeof Hook>;

export const NewHook = Hook.extend({
  path: z.string().describe("Where requests are sent, relative to the gateway; shown only here"),
  signingSecret: z.string().nullable().describe("What the sender signs with; shown only here. null: not signed"),
}).meta({ id: "CreatedHook" });
export type NewHook = z.output<typeof NewHook>;

const changed = z.object({ hook: Hook });
export const HOOK_EVENTS: readonly EventType[] = eventTypes("webhook.read", [
  { type: "hook.created", summary: "A hook was added to the room", data: changed },
  { type: "hook.updated", summary: "A hook of the room was changed or got another address", data: changed },
  {
    type: "hook.deleted",
    summary: "A hook of the room was deleted",
    data: z.object({ hookId: HookId, roomId: RoomId }),
  },
]);
