// Bookmarks as seen from outside, and the events of a room that they cause.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const BOOKMARKS_MAX = 1000;
/** Deletes an expired bookmark. */
export const EXPIRE_JOB = "bookmark.expire";
/** Notifies the creator of an expired bookmark. */
export const EXPIRED_KIND = "bookmark_expired";

export const Bookmark = z.object({
  id: z.string(),
  roomId: RoomId,
  title: z.string().describe("What the page is called"),
  url: z.string().describe("Address of the page"),
  createdAt: z.iso.datetime(),
}).meta({ id: "Bookmark" });
export type Bookmark = z.output<typeof Bookmark>;
export const Bookmarks = pageSchema(Bookmark).meta({ id: "Bookmarks" });

export const BookmarkCreate = z.strictObject({
  roomId: RoomId,
  title: z.string().trim().min(1).max(200).describe("What the page is called"),
  url: z.url().max(2000).describe("Address of the page"),
  expiresInSeconds: z.int().min(1).max(31_536_000).optional().describe("When to remove it; default never"),
});
export type BookmarkCreate = z.output<typeof BookmarkCreate>;

export const BookmarkList = z.strictObject({ ...pageInput, roomId: RoomId });
export type BookmarkList = z.output<typeof BookmarkList>;

export const BOOKMARK_EVENTS: readonly EventType[] = eventTypes("bookmark.read", [
  { type: "bookmark.created", summary: "A page was bookmarked", data: z.object({ bookmark: Bookmark }) },
  {
    type: "bookmark.deleted",
    summary: "A bookmark expired",
    data: z.object({ roomId: RoomId, bookmarkId: z.string() }),
  },
]);
