// What happens to bookmarks: row, event, job and index entry commit together.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import {
  type Bookmark,
  type BookmarkCreate,
  type BookmarkList,
  BOOKMARKS_MAX,
  EXPIRE_JOB,
  EXPIRED_KIND,
} from "./schema.ts";
import { presentBookmark, SEARCH_KIND, searchEntryOf } from "./searchable.ts";
import { BookmarkStore, type BookmarkTables } from "./store.ts";

type Deps = {
  store: Store<BookmarkTables>;
  clock: Clock;
  cursors: Cursors;
  roomAccess: RoomAccess;
  index: SearchIndex | undefined;
  notify: Notify;
};

export class BookmarkService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Of these ids, those of bookmarks in rooms that the actor sees. */
  async readable(
    actor: Actor,
    ids: readonly string[],
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<ReadonlySet<string>> {
    const rows = await new BookmarkStore(db).rows(actor.tenantId, { ids });
    const rooms = await this.#deps.roomAccess.findMany(actor, rows.map((row) => row.room_id), db);
    return new Set(rows.filter((row) => rooms.has(row.room_id)).map(({ id }) => id));
  }

  create(context: Context, { roomId, title, url, expiresInSeconds }: BookmarkCreate): Promise<Bookmark> {
    const { store, clock, roomAccess, index } = this.#deps;
    const { actor } = context;
    const { tenantId, principalId } = actor;
    return store.write(async (tx) => {
      await roomAccess.requireForUpdate(tx, context, roomId);
      const bookmarks = new BookmarkStore(tx.db);
      if (await bookmarks.count(tenantId, roomId) >= BOOKMARKS_MAX) {
        throw new Fault("limit_reached", `A room has at most ${BOOKMARKS_MAX} bookmarks`);
      }
      const now = clock.now();
      const id = newId("bookmark");
      const own = { created_by: principalId, created_at: iso(now) };
      const row = { tenant_id: tenantId, id, room_id: roomId, title, url, ...own };
      await bookmarks.add(row);
      const bookmark = presentBookmark(row);
      await tx.emit({ tenantId, stream: roomStream(roomId), type: "bookmark.created", actor, data: { bookmark } });
      if (expiresInSeconds !== undefined) {
        await tx.enqueue({ tenantId, kind: EXPIRE_JOB, payload: { id }, runAt: now + expiresInSeconds * 1000 });
      }
      await index?.put(searchEntryOf(row));
      return bookmark;
    });
  }

  async list(context: Context, { roomId, limit, cursor }: BookmarkList): Promise<Page<Bookmark>> {
    const { store, cursors, roomAccess } = this.#deps;
    const { tenantId, principalId } = context.actor;
    await roomAccess.require(context, roomId);
    const bind = ["bookmark.list", tenantId, principalId, roomId];
    const after = cursors.decodeId(cursor, bind) ?? "";
    const rows = await new BookmarkStore(store.db).listByRoom(tenantId, roomId, after, limit + 1);
    return cursors.page(rows, limit, bind, ({ id }) => [id], presentBookmark);
  }

  /** Deletes an expired bookmark and notifies its creator; without it, does nothing, since jobs may run again. */
  async expire(tenantId: string, id: string): Promise<void> {
    const { store, index, notify } = this.#deps;
    await store.write(async (tx) => {
      const bookmarks = new BookmarkStore(tx.db);
      const [row] = await bookmarks.rows(tenantId, { ids: [id] });
      if (row === undefined) return;
      await bookmarks.remove(tenantId, { id });
      await index?.remove(tenantId, SEARCH_KIND, [id]);
      const data = { roomId: row.room_id, bookmarkId: id };
      await tx.emit({ tenantId, stream: roomStream(row.room_id), type: "bookmark.deleted", data });
      const { room_id: roomId, created_by: creatorId, title } = row;
      await notify({ tenantId, principalIds: [creatorId], kind: EXPIRED_KIND, roomId, title });
    });
  }

  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    await this.#deps.store.write((tx) => new BookmarkStore(tx.db).remove(tenantId, { room_id: roomId }));
  }
}
