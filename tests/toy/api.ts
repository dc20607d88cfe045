// Operations on bookmarks.
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { Bookmark, BOOKMARK_EVENTS, BookmarkCreate, BookmarkList, Bookmarks } from "./schema.ts";
import type { BookmarkService } from "./service.ts";

const PATH = "/v1/bookmarks";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";

/** What clients see of bookmarks. */
export function bookmarkApi(bookmarks: BookmarkService): ModuleApi {
  return {
    tags: { bookmarks: "Pages that a room wants to find again." },
    events: BOOKMARK_EVENTS,
    operations: [
      defineOperation({
        name: "bookmark.create",
        summary: "Bookmark a page in a room",
        access: { scope: "bookmark.write", room: "member" },
        http: { method: "POST", path: PATH, status: 201 },
        input: BookmarkCreate,
        output: Bookmark,
        faults: ["not_found", "room_archived", "limit_reached"],
        example: { roomId: ROOM, title: "Release notes", url: "https://example.com/notes" },
        async run(context, input) {
          return new Outcome(await bookmarks.create(context, input));
        },
      }),
      defineOperation({
        name: "bookmark.list",
        summary: "List the bookmarks of a room",
        access: { scope: "bookmark.read", room: "observer" },
        http: { method: "GET", path: PATH, status: 200 },
        input: BookmarkList,
        output: Bookmarks,
        faults: ["not_found", "invalid_cursor"],
        example: { roomId: ROOM },
        run: (context, input) => bookmarks.list(context, input),
      }),
    ],
  };
}
