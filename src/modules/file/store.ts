// SQL of files and their attachments.
import { type ExpressionBuilder, type Kysely, sql, type SqlBool } from "kysely";
import { tenantIsUnindexed } from "@/ports/sql/filters.ts";
import type { RoomTables } from "@/modules/room/mod.ts";
import type { QuotaTables } from "./quota_store.ts";

/** `deleted`: the content is deleted, but a resource still shows the file. */
type FileState = "receiving" | "unlinked" | "linked" | "deleted";

export type FileRow = {
  tenant_id: string;
  id: string;
  uploader_id: string;
  /** The principal whose quota is charged: the uploader, or its owner. */
  charged_id: string;
  room_id: string | null;
  name: string;
  content_type: string;
  /** While receiving: the reserved bytes. */
  size: number;
  sha256: string;
  width: number | null;
  height: number | null;
  state: FileState;
  created_at: string;
};

/** The room of an attachment whose owner decides who reads it. */
export const NO_ROOM = "";

/** An attachment of a file, visible to readers of position `seq` of the room. */
type FileLinkRow = { tenant_id: string; file_id: string; owner: string; room_id: string; seq: number };

export type FileTables = RoomTables & QuotaTables & {
  file: FileRow;
  file_link: FileLinkRow;
};

type Db = Kysely<FileTables>;

/** Whether the file is the picture of a principal. */
function isAvatar(expression: ExpressionBuilder<FileTables, "file">) {
  return expression.exists(
    expression.selectFrom("principal").select("principal.id").whereRef("principal.tenant_id", "=", "file.tenant_id")
      .whereRef("principal.avatar_file_id", "=", "file.id"),
  );
}

export class FileStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async add(row: FileRow): Promise<void> {
    await this.#db.insertInto("file").values(row).execute();
  }

  /** Changes a file in one of these states; false if it is in another state or absent. */
  async updateInState(
    tenantId: string,
    id: string,
    states: readonly FileState[],
    set: Partial<FileRow>,
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("file").set(set).where("tenant_id", "=", tenantId)
      .where("id", "=", id).where("state", "in", states).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** Whether the id of an upload is unused or still that upload's. */
  async isSameUpload({ tenant_id: tenantId, id, created_at }: FileRow): Promise<boolean> {
    const row = await this.#db.selectFrom("file").select(["state", "created_at"]).where("tenant_id", "=", tenantId)
      .where("id", "=", id).executeTakeFirst();
    return row === undefined || (row.state === "receiving" && row.created_at === created_at);
  }

  async findMany(tenantId: string, ids: readonly string[]): Promise<FileRow[]> {
    if (ids.length === 0) return [];
    return await this.#db.selectFrom("file").selectAll().where(tenantIsUnindexed(tenantId)).where("id", "in", ids)
      .where("state", "<>", sql.lit("receiving")).orderBy("id").execute();
  }

  /** Those of the files, of any tenant, that have a content or receive one. */
  async idsWithContent(ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.selectFrom("file").select(["tenant_id", "id"]).where("id", "in", ids)
      .where("state", "<>", sql.lit("deleted")).execute();
    return new Set(rows.map(({ id }) => id));
  }

  /** Rooms in which a file is attached, each with the newest position that shows it. */
  rooms(tenantId: string, id: string): Promise<{ room_id: string; seq: number }[]> {
    return this.#db.selectFrom("file_link").select((expression) => ["room_id", expression.fn.max("seq").as("seq")])
      .where("tenant_id", "=", tenantId).where("file_id", "=", id).where("room_id", "<>", NO_ROOM).groupBy("room_id")
      .orderBy("room_id").execute();
  }

  /** What a file is attached to besides rooms, each as `<kind>:<id>`. */
  async ownersWithoutRoom(tenantId: string, id: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("file_link").select("owner").where("tenant_id", "=", tenantId)
      .where("file_id", "=", id).where("room_id", "=", NO_ROOM).orderBy("owner").execute();
    return rows.map((row) => row.owner);
  }

  /** Principals whose picture the file is: its uploader, or hooks that got it from its uploader. */
  shownBy(tenantId: string, id: string): Promise<{ id: string; owner_id: string | null }[]> {
    return this.#db.selectFrom("principal").select(["id", "owner_id"]).where("tenant_id", "=", tenantId)
      .where("avatar_file_id", "=", id).orderBy("id").execute();
  }

  /** A complete upload of a principal, locked until the commit. */
  lockUpload(tenantId: string, uploaderId: string, id: string): Promise<FileRow | undefined> {
    return this.#db.updateTable("file").set((expression) => ({ state: expression.ref("state") }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).where("uploader_id", "=", uploaderId)
      .where("state", "in", ["unlinked", "linked"]).returningAll().executeTakeFirst();
  }

  /** Newest first; ids sort by time. */
  listByUploader(tenantId: string, uploaderId: string, before: string | undefined, limit: number): Promise<FileRow[]> {
    return this.#db.selectFrom("file").selectAll().where("tenant_id", "=", tenantId)
      .where("uploader_id", "=", uploaderId).where("state", "in", ["unlinked", "linked"])
      .$if(before !== undefined, (query) => query.where("id", "<", before ?? ""))
      .orderBy("id", "desc").limit(limit).execute();
  }

  /** Files attached in a room after the position `floor`. */
  listInRoom(
    tenantId: string,
    roomId: string,
    floor: number,
    before: string | undefined,
    limit: number,
  ): Promise<FileRow[]> {
    return this.#db.selectFrom("file").selectAll().where("tenant_id", "=", tenantId).where("state", "=", "linked")
      .where("id", "in", (from) =>
        from.selectFrom("file_link").select("file_id").where("tenant_id", "=", tenantId)
          .where("room_id", "=", roomId).where("seq", ">", floor))
      .$if(before !== undefined, (query) => query.where("id", "<", before ?? ""))
      .orderBy("id", "desc").limit(limit).execute();
  }

  /** Marks files as attached and locks them until the commit; returns how many were marked. */
  async markLinked(tenantId: string, ids: readonly string[]): Promise<number> {
    const { numUpdatedRows } = await this.#db.updateTable("file").set({ state: "linked" })
      .where(tenantIsUnindexed(tenantId)).where("id", "in", ids).where("state", "in", ["unlinked", "linked"])
      .executeTakeFirst();
    return Number(numUpdatedRows);
  }

  async addLinks(rows: readonly FileLinkRow[]): Promise<void> {
    await this.#db.insertInto("file_link").values(rows)
      .onConflict((conflict) => conflict.columns(["file_id", "owner"]).doNothing()).execute();
  }

  async idsByOwner(tenantId: string, owners: readonly string[]): Promise<string[]> {
    if (owners.length === 0) return [];
    const rows = await this.#db.selectFrom("file_link").select("file_id").distinct().where("tenant_id", "=", tenantId)
      .where("owner", "in", owners).execute();
    return rows.map((row) => row.file_id);
  }

  /** Ids of up to `limit` files attached in a room. */
  async idsAttachedInRoom(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("file_link").select("file_id").distinct()
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).limit(limit).execute();
    return rows.map((row) => row.file_id);
  }

  /** Ids of up to `limit` files that were uploaded for a room and are attached nowhere. */
  async unlinkedIdsForRoom(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("file").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("state", "=", "unlinked").limit(limit).execute();
    return rows.map((row) => row.id);
  }

  async removeLinks(
    tenantId: string,
    ids: readonly string[],
    from: { owners: readonly string[] } | { roomId: string },
  ): Promise<void> {
    await this.#db.deleteFrom("file_link").where(tenantIsUnindexed(tenantId)).where("file_id", "in", ids)
      .$if("owners" in from, (query) => query.where("owner", "in", "owners" in from ? from.owners : []))
      .$if("roomId" in from, (query) => query.where("room_id", "=", "roomId" in from ? from.roomId : ""))
      .execute();
  }

  /** Those of the files that have no attachment, locked until the commit. */
  async lockUnreferenced(tenantId: string, ids: readonly string[]): Promise<(FileRow & { is_avatar: SqlBool })[]> {
    await this.#db.updateTable("file").set((expression) => ({ state: expression.ref("state") }))
      .where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
    return await this.#db.selectFrom("file").selectAll().select((expression) => isAvatar(expression).as("is_avatar"))
      .where(tenantIsUnindexed(tenantId)).where("id", "in", ids)
      .where((expression) =>
        expression.not(expression.exists(
          expression.selectFrom("file_link").select("file_link.owner")
            .whereRef("file_link.tenant_id", "=", "file.tenant_id").whereRef("file_link.file_id", "=", "file.id"),
        ))
      ).orderBy("id").execute();
  }

  /** Uploads from before a time that are incomplete, or unattached and not an avatar; none of `except`. */
  stale(
    tenantId: string,
    before: string,
    except: readonly string[],
    limit: number,
  ): Promise<Pick<FileRow, "id" | "uploader_id">[]> {
    let query = this.#db.selectFrom("file").select(["id", "uploader_id"]).where("tenant_id", "=", tenantId)
      .where("created_at", "<=", before).where(sql.ref("state"), "in", sql`('receiving', 'unlinked')`)
      .where((expression) => expression.not(isAvatar(expression)));
    if (except.length > 0) query = query.where("uploader_id", "not in", except);
    return query.limit(limit).execute();
  }

  async remove(tenantId: string, ids: readonly string[]): Promise<void> {
    await this.#db.deleteFrom("file").where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }
}
