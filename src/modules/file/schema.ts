// Files in the API, and their events.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import { THUMBNAIL_SIZES } from "./image/thumbnails.ts";

const FILES_PER_MESSAGE_MAX = 10;

export const FileId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

export const StoredFile = z.object({
  id: FileId,
  name: z.string().describe("File name"),
  contentType: z.string().describe(
    "Media type, detected from the content; an upload with a contradicting type is rejected",
  ),
  size: z.int().describe("Size of the stored content in bytes, without removed image metadata"),
  sha256: z.string().describe("SHA-256 of the stored content, in hex"),
  width: z.int().nullable().describe("Width in pixels; images only, if given in the first 256 KiB"),
  height: z.int().nullable().describe("Height in pixels; images only, if given in the first 256 KiB"),
  state: z.enum(["unlinked", "linked"]).describe("unlinked: not attached to anything yet, deleted after 24 hours"),
  uploaderId: PrincipalId.describe("Principal that uploaded it"),
  roomId: RoomId.nullable().describe("The only room it may be attached in; null: any room of the uploader"),
  createdAt: z.iso.datetime(),
}).meta({ id: "StoredFile" });
export type StoredFile = z.output<typeof StoredFile>;

export const FileList = z.strictObject({
  ...pageInput,
  roomId: RoomId.optional().describe("Only files attached in this room. Default: the caller's uploads"),
});
export type FileList = z.output<typeof FileList>;

export const StoredFiles = pageSchema(StoredFile);

/** Lifetime of a link. */
const LINK_SECONDS = { min: 60, default: 900, max: 21_600 };
/** Enough for the images of a page. */
const LINKS_MAX = 100;

export const LinkCreate = z.strictObject({
  ids: z.array(FileId).min(1).max(LINKS_MAX).refine((ids) => new Set(ids).size === ids.length, "expected no duplicates")
    .describe("Files to link to"),
  thumbnail: z.literal(THUMBNAIL_SIZES).optional()
    .describe("Link to thumbnails of the files with this maximum side length in pixels"),
  download: z.boolean().default(false).describe("Whether browsers download the file instead of displaying it"),
  expiresInSeconds: z.int().min(LINK_SECONDS.min).max(LINK_SECONDS.max).default(LINK_SECONDS.default)
    .describe(
      "Maximum lifetime in seconds; links live for at least half of it, because repeated calls return the same link",
    ),
});
export type LinkCreate = z.output<typeof LinkCreate>;

export const FileLink = z.object({
  id: FileId,
  url: z.string().describe("URL path of the content, relative to the gateway; keep it as secret as the content"),
  expiresAt: z.iso.datetime(),
}).meta({ id: "FileLink" });
export type FileLink = z.output<typeof FileLink>;

/** Ids of files to attach. */
export const FileIds = z.array(FileId).min(1).max(FILES_PER_MESSAGE_MAX)
  .refine((ids) => new Set(ids).size === ids.length, "expected no duplicates");

/** Durable events on the uploader's stream; deletions also on the streams of rooms that showed the file. */
export const FILE_EVENTS: readonly EventType[] = eventTypes("file.read", [
  {
    type: "file.created",
    streams: ["principal"],
    summary: "An upload of the principal was completed",
    data: z.object({ file: StoredFile }),
  },
  {
    type: "file.deleted",
    streams: ["room", "principal"],
    summary: "A file was deleted; its content is no longer available",
    data: z.object({ fileId: FileId }),
  },
]);
