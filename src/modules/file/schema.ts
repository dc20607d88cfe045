// Files as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { BOXES } from "./picture/thumbnails.ts";

/** What one message can carry. */
const FILES_PER_MESSAGE_MAX = 10;

export const FileId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");

export const StoredFile = z.object({
  id: FileId,
  name: z.string(),
  contentType: z.string().describe("Found out from the content; a claim that does not fit is refused"),
  size: z.int().describe("Bytes of what is stored: pictures have lost their metadata"),
  sha256: z.string().describe("Of what is stored, in hex"),
  width: z.int().nullable().describe("Pixels, of images whose first 256 KiB tell"),
  height: z.int().nullable(),
  state: z.enum(["unlinked", "linked"]).describe("unlinked: attached to nothing yet, and gone after 24 hours"),
  uploaderId: PrincipalId,
  roomId: RoomId.nullable().describe("The one room it may be attached in; null: any room of the uploader"),
  createdAt: z.iso.datetime(),
}).meta({ id: "StoredFile" });
export type StoredFile = z.output<typeof StoredFile>;

export const FileList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Files attached in this room; absent: those the caller uploaded"),
});
export type FileList = z.output<typeof FileList>;

export const StoredFiles = pageOf(StoredFile);

/** How long a link is good. */
const LINK_SECONDS = { least: 60, usual: 900, most: 21_600 };
/** A page shows so many pictures at once, and seldom more. */
const LINKS_MAX = 100;

export const LinkMake = z.strictObject({
  ids: z.array(FileId).min(1).max(LINKS_MAX).refine((ids) => new Set(ids).size === ids.length, "each file once"),
  thumbnail: z.literal(BOXES).optional()
    .describe("Links to small pictures of the files: the side of the square that they fit into"),
  download: z.boolean().default(false).describe("A browser that follows them saves the file and does not show it"),
  expiresInSeconds: z.int().min(LINK_SECONDS.least).max(LINK_SECONDS.most).default(LINK_SECONDS.usual)
    .describe(
      "How long they are good at most, and at least half of that: links made soon after each other are the same",
    ),
});
export type LinkMake = z.output<typeof LinkMake>;

export const FileLink = z.object({
  id: FileId,
  url: z.string().describe("Address of the content below that of the gateway; keep it as secret as the content"),
  expiresAt: z.iso.datetime(),
}).meta({ id: "FileLink" });
export type FileLink = z.output<typeof FileLink>;

/** Ids of files to attach. */
export const FileIds = z.array(FileId).min(1).max(FILES_PER_MESSAGE_MAX)
  .refine((ids) => new Set(ids).size === ids.length, "each file once");

/** Durable events: on the stream of the uploader, deletions also on those of the rooms that showed the file. */
export const FILE_EVENTS: readonly EventType[] = [
  {
    type: "file.created",
    streams: ["principal"],
    summary: "An upload of mine is complete",
    data: z.object({ file: StoredFile }),
  },
  {
    type: "file.deleted",
    streams: ["room", "principal"],
    summary: "A file is gone; its content can no longer be read",
    data: z.object({ fileId: FileId }),
  },
];
