// SQL of imports and exports, and the bulk queries they need of principals, rooms and messages.
import { type Kysely, sql } from "kysely";
import { tenantIsUnindexed } from "@/ports/sql_filters.ts";
import { type FileTables, QuotaStore } from "@/modules/file/mod.ts";
import type { MessageRow } from "@/modules/message/mod.ts";
import type { MemberRow } from "@/modules/room/mod.ts";
import { queryInChunks } from "@/core/page.ts";
import type { ImportHistoryRow, LineRow, TransferTables } from "./tables.ts";

export type { ExportRow, ImportRow, LineRow, TransferTables } from "./tables.ts";

/** Where a message is, and what it shows. */
export type ExistingMessage = Pick<MessageRow, "tenant_id" | "id" | "room_id" | "seq" | "thread_id" | "files_json">;
export type FileRow = FileTables["file"];

type Db = Kysely<TransferTables>;
export type JobTable = "transfer_import" | "transfer_export";

/** The rows of imports, or those of exports: what both tables have. */
export class TransferJobStore<Table extends JobTable> {
  readonly #db: Db;
  readonly #table: JobTable;

  constructor(db: Db, table: Table) {
    this.#db = db;
    this.#table = table;
  }

  async add(row: TransferTables[Table]): Promise<void> {
    await this.#db.insertInto(this.#table).values(row).execute();
  }

  async find(tenantId: string, id: string): Promise<TransferTables[Table] | undefined> {
    const row = await this.#rows(tenantId).where("id", "=", id).executeTakeFirst();
    // The query builder knows no more than that the table is one of the two.
    return row as TransferTables[Table] | undefined;
  }

  /** The row, locked until the transaction ends. */
  async lock(tenantId: string, id: string): Promise<TransferTables[Table] | undefined> {
    // An update that changes nothing is the row lock that both engines have.
    const row: unknown = await this.#db.updateTable(this.#table).set(({ ref }) => ({ version: ref("version") }))
      .where("tenant_id", "=", tenantId).where("id", "=", id).returningAll().executeTakeFirst();
    // As above.
    return row as TransferTables[Table] | undefined;
  }

  /** Newest first, those of one principal or all. */
  async page(
    tenantId: string,
    requestedBy: string | undefined,
    before: string | undefined,
    limit: number,
  ): Promise<TransferTables[Table][]> {
    let query = this.#rows(tenantId);
    if (requestedBy !== undefined) query = query.where("requested_by", "=", requestedBy);
    if (before !== undefined) query = query.where("id", "<", before);
    const rows: unknown[] = await query.orderBy("id", "desc").limit(limit).execute();
    // As above.
    return rows as TransferTables[Table][];
  }

  async update(tenantId: string, id: string, set: Partial<TransferTables[Table]>): Promise<void> {
    await this.#db.updateTable(this.#table).set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** Adds to the bytes reserved for a content; resolves to whether the row still names that content. */
  async chargeBytes({ tenant_id, id, blob_key }: TransferTables[Table], bytes: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable(this.#table)
      .set({ charged_bytes: sql<number>`charged_bytes + ${bytes}` })
      .where("tenant_id", "=", tenant_id).where("id", "=", id).where("blob_key", "=", blob_key).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** How many of the tenant, or of one principal, have not ended. */
  async countUnfinished(tenantId: string, chargedId?: string): Promise<number> {
    let query = this.#db.selectFrom(this.#table).select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("state", "in", ["waiting", "queued", "running"]);
    if (chargedId !== undefined) query = query.where("charged_id", "=", chargedId);
    return Number((await query.executeTakeFirstOrThrow()).n);
  }

  /** Ids of those of a principal and its agents whose work is done, the newest first. */
  async finishedIds(tenantId: string, chargedId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom(this.#table).select("id").where("tenant_id", "=", tenantId)
      .where("charged_id", "=", chargedId).where("state", "=", "done").orderBy("id", "desc").execute();
    return rows.map((row) => row.id);
  }

  #rows(tenantId: string) {
    return this.#db.selectFrom(this.#table).selectAll().where("tenant_id", "=", tenantId);
  }
}

export class ArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Lines of one import in the order of rooms, times and lines. */
  lines(
    tenantId: string,
    importId: string,
    after: Pick<LineRow, "room_key" | "at" | "line">,
    limit: number,
  ): Promise<LineRow[]> {
    return this.#db.selectFrom("transfer_line").selectAll().where("tenant_id", "=", tenantId)
      .where("import_id", "=", importId)
      .where(({ eb, refTuple, tuple }) =>
        eb(refTuple("room_key", "at", "line"), ">", tuple(after.room_key, after.at, after.line))
      )
      .orderBy("room_key").orderBy("at").orderBy("line").limit(limit).execute();
  }

  async removeLines(tenantId: string, importId: string): Promise<void> {
    await this.#db.deleteFrom("transfer_line").where("tenant_id", "=", tenantId).where("import_id", "=", importId)
      .execute();
  }

  /** Which of these principals exist, with what a message needs of its sender. */
  principals(tenantId: string, ids: readonly string[]): Promise<TransferTables["principal"][]> {
    return queryInChunks(
      ids,
      (some) =>
        this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId).where("id", "in", some)
          .execute(),
    );
  }

  async takenHandles(tenantId: string, handles: readonly string[]): Promise<Set<string>> {
    if (handles.length === 0) return new Set();
    const rows = await this.#db.selectFrom("principal").select("handle").where("tenant_id", "=", tenantId)
      .where("handle", "in", handles).execute();
    return new Set(rows.map((row) => row.handle ?? ""));
  }

  /** Rooms of the tenant among these ids, deleted ones too. */
  rooms(tenantId: string, ids: readonly string[]): Promise<TransferTables["room"][]> {
    return this.#db.selectFrom("room").selectAll().where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }

  /** Rooms in the order of their ids, without deleted ones. */
  roomsAfter(tenantId: string, after: string, limit: number): Promise<TransferTables["room"][]> {
    return this.#db.selectFrom("room").selectAll().where("tenant_id", "=", tenantId).where("state", "<>", "deleted")
      .where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  /** Where messages are that exist in the tenant. */
  messages(
    tenantId: string,
    ids: readonly string[],
  ): Promise<ExistingMessage[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("message").select(["tenant_id", "id", "room_id", "seq", "thread_id", "files_json"])
      .where(tenantIsUnindexed(tenantId))
      .where("id", "in", ids).execute();
  }

  /** Files of the tenant among these ids, in any state. */
  files(tenantId: string, ids: readonly string[]): Promise<FileRow[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("file").selectAll().where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }

  /** Files with a content that are attached to these owners, each once. */
  filesOf(tenantId: string, owners: readonly string[]): Promise<FileRow[]> {
    if (owners.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("file").selectAll().where("tenant_id", "=", tenantId).where("state", "=", "linked")
      .where(
        "id",
        "in",
        (from) =>
          from.selectFrom("file_link").select("file_id").where("tenant_id", "=", tenantId).where("owner", "in", owners),
      )
      .orderBy("id").execute();
  }

  /** Deletes what an interrupted run had begun to write under one of these ids. */
  async deleteUnfinished(tenantId: string, ids: readonly string[]): Promise<void> {
    const rows = await this.#db.deleteFrom("file").where(tenantIsUnindexed(tenantId)).where("id", "in", ids)
      .where("state", "=", "receiving").returning(["size", "charged_id"]).execute();
    const space = new QuotaStore(this.#db);
    for (const { charged_id: ownerId, size } of rows) await space.releaseQuota({ tenantId, ownerId }, Number(size));
  }

  /** Sets the creation time that a file has in its archive. */
  async setFileDate(tenantId: string, id: string, at: string): Promise<void> {
    await this.#db.updateTable("file").set({ created_at: at }).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }

  /** `sender clientMessageId` pairs a room has among these ids. */
  async clientIds(tenantId: string, roomId: string, ids: readonly string[]): Promise<Set<string>> {
    if (ids.length === 0) return new Set();
    const rows = await this.#db.selectFrom("message").select(["sender_id", "client_message_id"])
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("client_message_id", "in", ids).execute();
    return new Set(rows.map((row) => `${row.sender_id} ${row.client_message_id}`));
  }

  /** Recounts the replies of these roots; computed, never incremented. */
  async recountThreads(
    tenantId: string,
    rootIds: readonly string[],
  ): Promise<Pick<MessageRow, "id" | "seq" | "reply_count" | "last_reply_at">[]> {
    if (rootIds.length === 0) return [];
    return await this.#db.updateTable("message").set({
      reply_count: sql<number>`(select count(*) from message as reply where reply.tenant_id = message.tenant_id
        and reply.thread_id = message.id and reply.deleted_at is null)`,
      last_reply_at: sql<string>`(select max(created_at) from message as reply
        where reply.tenant_id = message.tenant_id and reply.thread_id = message.id and reply.deleted_at is null)`,
    }).where(tenantIsUnindexed(tenantId)).where("id", "in", rootIds)
      .returning(["id", "seq", "reply_count", "last_reply_at"]).execute();
  }

  /** A room has a newer last message, if it is newer. */
  async touchRoom(tenantId: string, roomId: string, at: string): Promise<void> {
    await this.#db.updateTable("room").set({ last_message_at: at, active_at: at }).where("tenant_id", "=", tenantId)
      .where("id", "=", roomId)
      .where(({ eb, or }) => or([eb("last_message_at", "is", null), eb("last_message_at", "<", at)])).execute();
  }

  /** Moves members who had read everything up to `from` on to `to`; resolves to who they are. */
  async advanceReaders(tenantId: string, roomId: string, from: number, to: number): Promise<string[]> {
    const rows = await this.#db.updateTable("member").set({ last_read_seq: to }).where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).where("last_read_seq", ">=", from).returning("principal_id").execute();
    return rows.map((row) => row.principal_id);
  }

  members(tenantId: string, roomId: string): Promise<MemberRow[]> {
    return this.#db.selectFrom("member").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .orderBy("principal_id").execute();
  }

  /** Which of these principals are banned from a room. */
  async banned(tenantId: string, roomId: string, principalIds: readonly string[]): Promise<Set<string>> {
    const rows = await queryInChunks(
      principalIds,
      (some) =>
        this.#db.selectFrom("ban").select("principal_id").where("tenant_id", "=", tenantId)
          .where("room_id", "=", roomId).where("principal_id", "in", some).execute(),
    );
    return new Set(rows.map((row) => row.principal_id));
  }

  /** Position of the last message of a room that is not newer than `at`. */
  async positionAt(tenantId: string, roomId: string, at: string): Promise<number> {
    const row = await this.#db.selectFrom("message").select(({ fn }) => fn.max("seq").as("seq"))
      .where("tenant_id", "=", tenantId).where("room_id", "=", roomId).where("created_at", "<=", at)
      .executeTakeFirst();
    return Number(row?.seq ?? 0);
  }

  /** Messages of a room after a position. */
  messagesAfter(tenantId: string, roomId: string, after: number, limit: number): Promise<MessageRow[]> {
    return this.#db.selectFrom("message").selectAll().where("tenant_id", "=", tenantId).where("room_id", "=", roomId)
      .where("seq", ">", after).orderBy("seq").limit(limit).execute();
  }

  reactionsOf(tenantId: string, messageIds: readonly string[]): Promise<TransferTables["reaction"][]> {
    if (messageIds.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("reaction").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "in", messageIds).orderBy("created_at").orderBy("key").orderBy("principal_id").execute();
  }

  /** Earlier texts of a message, the last first. */
  editsOf(tenantId: string, messageId: string, limit: number): Promise<TransferTables["message_edit"][]> {
    return this.#db.selectFrom("message_edit").selectAll().where("tenant_id", "=", tenantId)
      .where("message_id", "=", messageId).orderBy("version", "desc").limit(limit).execute();
  }

  principalsAfter(tenantId: string, after: string, limit: number): Promise<TransferTables["principal"][]> {
    return this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId).where("id", ">", after)
      .orderBy("id").limit(limit).execute();
  }

  /** History of these parts, and of others with the same names. */
  importHistory(tenantId: string, parts: readonly Omit<ImportHistoryRow, "tenant_id">[]): Promise<ImportHistoryRow[]> {
    const containers = [...new Set(parts.map(({ container }) => container))];
    return queryInChunks(
      parts,
      (some) =>
        this.#db.selectFrom("transfer_import_history").selectAll().where("tenant_id", "=", tenantId)
          .where("container", "in", containers).where("name", "in", some.map(({ name }) => name)).execute(),
    );
  }

  async addImportHistory(rows: readonly ImportHistoryRow[]): Promise<void> {
    await queryInChunks(
      rows,
      (some) =>
        this.#db.insertInto("transfer_import_history").values(some).onConflict((conflict) => conflict.doNothing())
          .execute(),
    );
  }

  async deleteImportHistory(tenantId: string, container: string): Promise<void> {
    await this.#db.deleteFrom("transfer_import_history").where("tenant_id", "=", tenantId).where(
      "container",
      "=",
      container,
    )
      .execute();
  }
}
