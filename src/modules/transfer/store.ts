// SQL of imports and exports, and the bulk queries they need of principals, rooms and messages.
import { type Kysely, sql } from "kysely";
import { isOfTenant } from "@/ports/list.ts";
import type { TenantRole } from "@/core/actor.ts";
import type { CalendarTables } from "@/modules/calendar/mod.ts";
import type { DocumentTables } from "@/modules/document/mod.ts";
import type { FileTables } from "@/modules/file/mod.ts";
import type { IdentityTables } from "@/modules/identity/mod.ts";
import type { MeetingTables } from "@/modules/meeting/mod.ts";
import type { MessageRow, MessageTables } from "@/modules/message/mod.ts";
import type { MemberRow } from "@/modules/room/mod.ts";
import type { TaskTables } from "@/modules/task/mod.ts";
import { byChunks } from "@/core/chunks.ts";
import type { Export, Import } from "./schema.ts";

export type ImportRow = {
  tenant_id: string;
  id: string;
  kind: Import["kind"];
  namespace: string;
  principal_map_json: string;
  state: Import["state"];
  blob_key: string | null;
  size: number | null;
  progress_json: string;
  report_json: string;
  failure_json: string | null;
  requested_by: string;
  /** What principals of the archive may become at most. */
  requester_role: TenantRole;
  version: number;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
};

export type ExportRow = {
  tenant_id: string;
  id: string;
  kind: Export["kind"];
  room_id: string | null;
  /** Positions of the room that were hidden from who asked. */
  hidden_up_to: number;
  with_files: number;
  with_revisions: number;
  state: Export["state"];
  blob_key: string | null;
  size: number | null;
  counts_json: string;
  failure_json: string | null;
  requested_by: string;
  version: number;
  created_at: string;
  finished_at: string | null;
  expires_at: string | null;
};

/** A line of an archive that waits to be sorted. */
export type LineRow = {
  tenant_id: string;
  import_id: string;
  room_key: string;
  at: string;
  line: number;
  json: string;
};

/** A part of something that an import brought in. */
export type BroughtRow = { tenant_id: string; whole: string; name: string };

export type TransferTables =
  & MessageTables
  & IdentityTables
  & DocumentTables
  & TaskTables
  & CalendarTables
  & MeetingTables
  & {
    transfer_import: ImportRow;
    transfer_export: ExportRow;
    transfer_line: LineRow;
    transfer_brought: BroughtRow;
  };

/** Where a message is, and what it shows. */
export type PlacedMessage = Pick<MessageRow, "tenant_id" | "id" | "room_id" | "seq" | "thread_id" | "files_json">;
export type FileRow = FileTables["file"];

type Db = Kysely<TransferTables>;
/** Tables whose ids are no other tenant's. */
type Named =
  | "room"
  | "message"
  | "document"
  | "document_comment"
  | "file"
  | "task"
  | "calendar_event"
  | "meeting"
  | "meeting_participant"
  | "meeting_segment";
export type JobTable = "transfer_import" | "transfer_export";

/** The rows of imports, or those of exports: what both tables have. */
export class TransferRows<Table extends JobTable> {
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

  /** The row, kept from other writers until the transaction ends. */
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

  /** How many of the tenant, or of one principal, have not ended. */
  async unfinished(tenantId: string, requestedBy?: string): Promise<number> {
    let query = this.#db.selectFrom(this.#table).select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("state", "in", ["waiting", "queued", "running"]);
    if (requestedBy !== undefined) query = query.where("requested_by", "=", requestedBy);
    return Number((await query.executeTakeFirstOrThrow()).n);
  }

  /** Ids of those of a principal whose work is done, the newest first. */
  async finished(tenantId: string, requestedBy: string): Promise<string[]> {
    const rows = await this.#db.selectFrom(this.#table).select("id").where("tenant_id", "=", tenantId)
      .where("requested_by", "=", requestedBy).where("state", "=", "done").orderBy("id", "desc").execute();
    return rows.map((row) => row.id);
  }

  #rows(tenantId: string) {
    return this.#db.selectFrom(this.#table).selectAll().where("tenant_id", "=", tenantId);
  }
}

export class TransferStore {
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
    return byChunks(
      ids,
      (some) =>
        this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId).where("id", "in", some)
          .execute(),
    );
  }

  async changePrincipal(
    tenantId: string,
    id: string,
    set: Partial<TransferTables["principal"]>,
  ): Promise<void> {
    await this.#db.updateTable("principal").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async takenHandles(tenantId: string, handles: readonly string[]): Promise<Set<string>> {
    if (handles.length === 0) return new Set();
    const rows = await this.#db.selectFrom("principal").select("handle").where("tenant_id", "=", tenantId)
      .where("handle", "in", handles).execute();
    return new Set(rows.map((row) => row.handle ?? ""));
  }

  /** Rooms of the tenant among these ids, deleted ones too. */
  rooms(tenantId: string, ids: readonly string[]): Promise<TransferTables["room"][]> {
    return this.#db.selectFrom("room").selectAll().where(isOfTenant(tenantId)).where("id", "in", ids).execute();
  }

  /** Rooms in the order of their ids, without deleted ones. */
  roomsAfter(tenantId: string, after: string, limit: number): Promise<TransferTables["room"][]> {
    return this.#db.selectFrom("room").selectAll().where("tenant_id", "=", tenantId).where("state", "<>", "deleted")
      .where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  /** Ids that other tenants use: those are not free here. */
  async takenElsewhere(
    tenantId: string,
    table: Named,
    ids: readonly string[],
  ): Promise<Set<string>> {
    if (ids.length === 0) return new Set();
    const rows = await this.#db.selectFrom(table).select("id").where("tenant_id", "<>", tenantId)
      .where("id", "in", ids).execute();
    return new Set(rows.map((row) => row.id));
  }

  /** Where messages are that exist in the tenant. */
  messages(
    tenantId: string,
    ids: readonly string[],
  ): Promise<PlacedMessage[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("message").select(["tenant_id", "id", "room_id", "seq", "thread_id", "files_json"])
      .where(isOfTenant(tenantId))
      .where("id", "in", ids).execute();
  }

  /** Which of these documents exist, deleted ones too. */
  async documents(tenantId: string, ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.selectFrom("document").select("id").where(isOfTenant(tenantId))
      .where("id", "in", ids).execute();
    return new Set(rows.map((row) => row.id));
  }

  /** Which documents these comments are on, by their ids. */
  async comments(tenantId: string, ids: readonly string[]): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom("document_comment").select(["id", "document_id"])
      .where(isOfTenant(tenantId)).where("id", "in", ids).execute();
    return new Map(rows.map((row) => [row.id, row.document_id]));
  }

  /** Files of the tenant among these ids, whatever became of them. */
  files(tenantId: string, ids: readonly string[]): Promise<FileRow[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("file").selectAll().where(isOfTenant(tenantId)).where("id", "in", ids).execute();
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

  /** Takes back what a run that died had begun to write under one of these ids. */
  async dropUnfinished(tenantId: string, ids: readonly string[]): Promise<void> {
    const rows = await this.#db.deleteFrom("file").where(isOfTenant(tenantId)).where("id", "in", ids)
      .where("state", "=", "receiving").returning("size").execute();
    const bytes = rows.reduce((sum, row) => sum + Number(row.size), 0);
    if (bytes === 0) return;
    await this.#db.updateTable("file_usage").set({ bytes: sql`bytes - ${bytes}` }).where("tenant_id", "=", tenantId)
      .execute();
  }

  /** A file is as old as it was where it came from. */
  async dateFile(tenantId: string, id: string, at: string): Promise<void> {
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
    }).where(isOfTenant(tenantId)).where("id", "in", rootIds)
      .returning(["id", "seq", "reply_count", "last_reply_at"]).execute();
  }

  /** A room has a newer last message, if it is newer. */
  async touchRoom(tenantId: string, roomId: string, at: string): Promise<void> {
    await this.#db.updateTable("room").set({ last_message_at: at, active_at: at }).where("tenant_id", "=", tenantId)
      .where("id", "=", roomId)
      .where(({ eb, or }) => or([eb("last_message_at", "is", null), eb("last_message_at", "<", at)])).execute();
  }

  /** Moves members who had read everything up to `from` on to `to`; resolves to who they are. */
  async readOn(tenantId: string, roomId: string, from: number, to: number): Promise<string[]> {
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
    const rows = await byChunks(
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
}
