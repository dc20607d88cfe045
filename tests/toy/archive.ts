// Bookmarks in archives: exported with their room, imported where they are missing.
import { z } from "@zod/zod";
import {
  type ArchiveSection,
  type ExportContext,
  handleRoomRecord,
  type ImportContext,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { roomStream } from "@/core/event/event.ts";
import { paginate } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import { loadLocalIds } from "@/ports/sql/global_ids.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { BOOKMARKS_MAX } from "./schema.ts";
import { presentBookmark, searchEntryOf } from "./searchable.ts";
import { type BookmarkRow, BookmarkStore, type BookmarkTables } from "./store.ts";

const BATCH = 100;

const BookmarkRecord = z.object({
  id: z.string().regex(/^bookmark_[A-Za-z0-9]{1,50}$/, "expected the id of a bookmark"),
  roomId: RoomId,
  title: z.string().min(1).max(200),
  url: z.url().max(2000),
  createdBy: PrincipalId,
  createdAt: TimeInput,
});

type Tx = Transaction<BookmarkTables>;
type Deps = { store: Store<BookmarkTables>; index: SearchIndex | undefined };
type Pending = { where: string; record: z.output<typeof BookmarkRecord> };

export function bookmarkArchive({ store, index }: Deps): ArchiveSection<Tx> {
  return {
    description: { exported: "bookmarks of a room (`bookmark`)" },
    counts: { bookmarks: "Bookmarks" },
    skipCodes: { too_many_bookmarks: "each_run" },
    exportRoom: (context, roomId) => exportBookmarks(new BookmarkStore(store.db), context, roomId),
    createImporter: (context) => bookmarkImporter(context, index),
  };
}

async function* exportBookmarks(
  store: BookmarkStore,
  context: ExportContext,
  roomId: string,
): AsyncGenerator<unknown[]> {
  const read = (last?: BookmarkRow) => store.listByRoom(context.tenantId, roomId, last?.id ?? "", BATCH);
  for await (const rows of paginate(BATCH, read)) {
    yield await context.principalRecords(rows.map((row) => row.created_by));
    context.recordExported(rows.map(({ id }) => ({ container: roomId, name: id })));
    context.count("bookmarks", rows.length);
    yield rows.map((row) => ({ type: "bookmark", ...presentBookmark(row), createdBy: row.created_by }));
  }
}

function bookmarkImporter(context: ImportContext<Tx>, index: SearchIndex | undefined): SectionImporter {
  let pending: Pending[] = [];
  let roomId = "";
  const flush = async (): Promise<void> => {
    const bookmarks = pending;
    pending = [];
    if (bookmarks.length > 0) await context.write((tx) => importBookmarks(context, index, tx, roomId, bookmarks));
  };
  const bookmark = handleRoomRecord(context, BookmarkRecord, async (record, where, id) => {
    roomId = id;
    pending.push({ where, record });
    if (pending.length >= BATCH) await flush();
  });
  return { records: { bookmark }, flush };
}

async function importBookmarks(
  context: ImportContext<Tx>,
  index: SearchIndex | undefined,
  tx: Tx,
  roomId: string,
  pending: readonly Pending[],
): Promise<void> {
  const { tenantId, report } = context;
  const store = new BookmarkStore(tx.db);
  const history = context.history(tx);
  const refOf = ({ record }: Pending) => context.refOf("bookmark", record.id);
  const nameOf = (id: string) => ({ container: roomId, name: id });
  const fresh = await history.filterNew(pending, (one) => candidateIds(refOf(one)).map(nameOf));
  const ids = await loadLocalIds(tx.db, "bookmark", tenantId, fresh.map(refOf));
  const missing = fresh.flatMap((one) => {
    const id = ids.allocate(refOf(one));
    return id === undefined ? [] : [{ ...one, id }];
  });
  const free = Math.max(0, BOOKMARKS_MAX - await store.count(tenantId, roomId));
  for (const { where } of missing.slice(free)) report.skip("too_many_bookmarks", where);
  const rows = missing.slice(0, free).map(({ id, record }): BookmarkRow => ({
    tenant_id: tenantId,
    id,
    room_id: roomId,
    title: record.title,
    url: record.url,
    created_by: record.createdBy,
    created_at: record.createdAt,
  }));
  if (rows.length === 0) return;
  await context.createPlaceholders(tx, rows.map((row) => row.created_by));
  await tx.insertMany("bookmark", rows);
  await tx.emit(...rows.map((row) => ({
    tenantId,
    stream: roomStream(roomId),
    type: "bookmark.created",
    data: { bookmark: presentBookmark(row) },
  })));
  await index?.put(...rows.map(searchEntryOf));
  await history.record(rows.map(({ id }) => nameOf(id)));
  report.count("bookmarks", rows.length);
}
