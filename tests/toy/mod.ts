// A whole module in small: bookmarks of a room. It shows what a module registers, and serves the test that hosts need no more.
import { z } from "@zod/zod";
import { WORK_OF_ROOM } from "@/core/erasure.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { bookmarkApi } from "./api.ts";
import { bookmarkArchive } from "./archive.ts";
import { migrations } from "./migrations.ts";
import { BookmarkSearchable } from "./searchable.ts";
import { BOOKMARKS_MAX, EXPIRE_JOB, EXPIRED_KIND } from "./schema.ts";
import { BookmarkService } from "./service.ts";

type Deps = {
  roomAccess: RoomAccess;
  /** Absent where search is off. */
  index: SearchIndex | undefined;
  notify: Notify;
};

export function bookmarkModule({ store, clock, cursors }: Platform, { roomAccess, index, notify }: Deps): Module {
  const bookmarks = new BookmarkService({ store, clock, cursors, roomAccess, index, notify });
  const search = new BookmarkSearchable(store);
  return {
    name: "bookmark",
    migrations,
    erases: {
      bookmark: { key: ["id"], renames: ["created_by"], keeps: { title: WORK_OF_ROOM, url: WORK_OF_ROOM } },
    },
    ...bookmarkApi(bookmarks),
    jobs: [
      defineJob({
        kind: EXPIRE_JOB,
        payload: z.strictObject({ id: z.string() }),
        run: ({ tenantId, payload }) => bookmarks.expire(tenantId, payload.id),
      }),
    ],
    notificationKinds: { [EXPIRED_KIND]: "reminders" },
    search,
    archive: bookmarkArchive({ store, index }),
    canRead: { bookmark: (actor, ids, db) => bookmarks.readable(actor, ids, db) },
    purgeRoom: (tenantId, roomId) => bookmarks.purgeRoom(tenantId, roomId),
    capability: () => ({ perRoom: BOOKMARKS_MAX }),
  };
}
