// SQL of documents, their tree, and the readers of private ones.
import { type Kysely, sql, type SqlBool } from "kysely";
import {
  containsText,
  inList,
  isSmallResult,
  orderedAfter,
  selectRows,
  tenantIsUnindexed,
} from "@/ports/sql/filters.ts";
import type { CursorKey, RowSelection } from "@/core/page.ts";
import { isInVisibleRoom, type Reader, visibleRoomIds } from "@/modules/room/mod.ts";
import { deleteSome } from "@/ports/sql/deletion.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { DocumentSort } from "./schema.ts";
import type { AccessRow, DocumentRow, DocumentTables } from "./tables.ts";

type Db = Kysely<DocumentTables>;

/** What there may be any number of, of one document. */
const DEPENDENT_TABLES = [
  "document_comment",
  "document_state",
  "document_update",
  "document_revision",
  "document_access",
] as const;

type DocumentFilter = {
  roomId?: string | undefined;
  /** null: documents without a parent. */
  parentId?: string | null | undefined;
  q?: string | undefined;
  state: "active" | "archived" | "deleted";
};

const COLUMNS = {
  title: "document.title",
  updatedAt: "document.updated_at",
  createdAt: "document.created_at",
} as const;

const byId = prepared((db: Db, value: Param<{ tenantId: string; id: string }>) =>
  db.selectFrom("document").selectAll().where("tenant_id", "=", value("tenantId")).where("id", "=", value("id"))
);
const role = prepared((db: Db, value: Param<{ tenantId: string; id: string; principalId: string }>) =>
  db.selectFrom("document_access").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("document_id", "=", value("id")).where("principal_id", "=", value("principalId"))
);

export class DocumentStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  find(tenantId: string, id: string): Promise<DocumentRow | undefined> {
    return byId.first(this.#db, { tenantId, id });
  }

  async add(row: DocumentRow): Promise<void> {
    await this.#db.insertInto("document").values(row).execute();
  }

  async update(tenantId: string, ids: readonly string[], set: Partial<DocumentRow>): Promise<void> {
    await this.#db.updateTable("document").set(set).where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }

  async list(
    tenantId: string,
    reader: Reader,
    { roomId, parentId, q, state }: DocumentFilter,
    sort: DocumentSort,
    after: CursorKey | undefined,
    limit: number,
  ): Promise<DocumentRow[]> {
    const roleOf = (principalId: string) =>
      sql<string | null>`(select role from document_access as a where a.tenant_id = ${tenantId}
        and a.document_id = document.id and a.principal_id = ${principalId})`;
    let query = this.#db.selectFrom("document").selectAll("document").where("document.tenant_id", "=", tenantId)
      .where(({ eb, or, and }) =>
        or([
          and([
            eb("document.room_id", "is", null),
            ...reader.roomIds === undefined ? [] : [sql<SqlBool>`1 = 0`],
            eb(roleOf(reader.principalId), "is not", null),
            ...reader.isOwned ? [eb(roleOf(reader.ownerId), "is not", null)] : [],
          ]),
          isInVisibleRoom(this.#db, tenantId, "document.room_id", reader, roomId === undefined ? undefined : [roomId]),
        ])
      );
    query = state === "deleted"
      ? query.where("document.deleted_at", "is not", null)
      : query.where("document.deleted_at", "is", null).where("document.state", "=", state);
    if (roomId !== undefined) query = query.where("document.room_id", "=", roomId);
    // For readers with few rooms, a scan in sort order would skip nearly all documents of the tenant.
    if (roomId === undefined && !parentId) {
      const near = this.#db.selectFrom(visibleRoomIds(this.#db, tenantId, reader).as("reach"))
        .innerJoin("document as near", "near.room_id", "reach.id").select("near.id")
        .where("near.tenant_id", "=", tenantId)
        .unionAll(
          this.#db.selectFrom("document_access").select("document_access.document_id as id")
            .where("document_access.tenant_id", "=", tenantId)
            .where("document_access.principal_id", "=", reader.principalId),
        );
      if (await isSmallResult(near)) query = query.where("document.id", "in", near);
    }
    if (parentId === null) query = query.where("document.parent_id", "is", null);
    else if (parentId !== undefined) query = query.where("document.parent_id", "=", parentId);
    if (q !== undefined) query = query.where(containsText("document.title", q));
    const column = COLUMNS[sort.replace("-", "") as keyof typeof COLUMNS]; // a sort is a key of COLUMNS, or one with a minus
    const direction = sort.startsWith("-") ? "desc" : "asc";
    return await orderedAfter(query, [column, "document.id"], after, direction).limit(limit).execute();
  }

  /** With deleted ones. */
  async findMany(tenantId: string, ids: readonly string[]): Promise<DocumentRow[]> {
    return await selectRows(this.#db.selectFrom("document").selectAll(), tenantId, { ids });
  }

  async findUndeleted(tenantId: string, which: RowSelection): Promise<DocumentRow[]> {
    const query = this.#db.selectFrom("document").selectAll().where("deleted_at", "is", null);
    return await selectRows(query, tenantId, which);
  }

  /** Children of any of these, deleted ones included. */
  async children(tenantId: string, parentIds: readonly string[]): Promise<DocumentRow[]> {
    if (parentIds.length === 0) return [];
    return await this.#db.selectFrom("document").selectAll().where("tenant_id", "=", tenantId)
      .where("parent_id", "in", parentIds).execute();
  }

  /** The documents that were deleted together with `id`, itself included. */
  deletedWith(tenantId: string, id: string): Promise<DocumentRow[]> {
    return this.#db.selectFrom("document").selectAll().where("tenant_id", "=", tenantId)
      .where("deletion_root_id", "=", id).execute();
  }

  /** Ids of some that were deleted with a document. */
  async idsDeletedWith(tenantId: string, id: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("document").select("id").where("tenant_id", "=", tenantId)
      .where("deletion_root_id", "=", id).where("id", "!=", id).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  /** Parents of the documents of a room, or of private ones (null), that are not deleted. */
  treeOfRoom(tenantId: string, roomId: string | null): Promise<Pick<DocumentRow, "id" | "parent_id">[]> {
    return this.#db.selectFrom("document").select(["id", "parent_id"]).where("tenant_id", "=", tenantId)
      .where("room_id", roomId === null ? "is" : "=", roomId).where("deleted_at", "is", null).orderBy("id").execute();
  }

  async idsIn(tenantId: string, roomId: string, limit: number): Promise<string[]> {
    const rows = await this.#db.selectFrom("document").select("id").where("tenant_id", "=", tenantId)
      .where("room_id", "=", roomId).limit(limit).execute();
    return rows.map((row) => row.id);
  }

  /** Current revisions and versions; deleted documents are missing. */
  async heads(
    ids: readonly { tenantId: string; id: string }[],
  ): Promise<Map<string, Pick<DocumentRow, "revision" | "version">>> {
    const found = new Map<string, Pick<DocumentRow, "revision" | "version">>();
    for (const [tenantId, group] of Map.groupBy(ids, (one) => one.tenantId)) {
      const rows = await this.#db.selectFrom("document").select(["id", "revision", "version"])
        .where(tenantIsUnindexed(tenantId)).where("id", "in", group.map(({ id }) => id)).execute();
      for (const { id, ...head } of rows) found.set(id, head);
    }
    return found;
  }

  roleOf(tenantId: string, id: string, principalId: string): Promise<AccessRow | undefined> {
    return role.first(this.#db, { tenantId, id, principalId });
  }

  readers(tenantId: string, id: string): Promise<AccessRow[]> {
    return this.#db.selectFrom("document_access").selectAll().where("tenant_id", "=", tenantId)
      .where("document_id", "=", id).orderBy("principal_id").execute();
  }

  /** Whether a principal besides `principalId` owns a private document. Agents do not count: they depend on their owners. */
  async hasOtherOwner(tenantId: string, id: string, principalId: string): Promise<boolean> {
    const row = await this.#db.selectFrom("document_access as own")
      .innerJoin(
        "principal",
        (join) =>
          join.onRef("principal.id", "=", "own.principal_id").onRef("principal.tenant_id", "=", "own.tenant_id"),
      )
      .select("own.principal_id").where("own.tenant_id", "=", tenantId).where("own.document_id", "=", id)
      .where("own.role", "=", "owner").where("own.principal_id", "<>", principalId)
      .where("principal.owner_id", "is", null).limit(1).executeTakeFirst();
    return row !== undefined;
  }

  /** Ids of the principals that private documents are shared with, by document. */
  async readerIds(tenantId: string, ids: readonly string[]): Promise<Map<string, string[]>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom("document_access").select(["document_id", "principal_id"])
      .where("tenant_id", "=", tenantId).where("document_id", "in", ids).execute();
    const groups = Map.groupBy(rows, (row) => row.document_id);
    return new Map([...groups].map(([id, group]) => [id, group.map((row) => row.principal_id)]));
  }

  /** Principals who can read a private document: agents only if their owners are readers as well. */
  async audience(tenantId: string, id: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("document_access as own")
      .innerJoin(
        "principal",
        (join) =>
          join.onRef("principal.id", "=", "own.principal_id").onRef("principal.tenant_id", "=", "own.tenant_id"),
      )
      .leftJoin(
        "document_access as owner",
        (join) =>
          join.onRef("owner.document_id", "=", "own.document_id").onRef("owner.principal_id", "=", "principal.owner_id")
            .onRef("owner.tenant_id", "=", "own.tenant_id"),
      )
      .select("own.principal_id").where("own.tenant_id", "=", tenantId).where("own.document_id", "=", id)
      .where(({ eb, or }) => or([eb("principal.owner_id", "is", null), eb("owner.role", "is not", null)]))
      .orderBy("own.principal_id").execute();
    return rows.map((row) => row.principal_id);
  }

  async putReader(row: AccessRow): Promise<void> {
    await this.#db.insertInto("document_access").values(row)
      .onConflict((conflict) => conflict.columns(["document_id", "principal_id"]).doUpdateSet({ role: row.role }))
      .execute();
  }

  async removeReader(tenantId: string, id: string, principalId: string): Promise<void> {
    await this.#db.deleteFrom("document_access").where("tenant_id", "=", tenantId).where("document_id", "=", id)
      .where("principal_id", "=", principalId).execute();
  }

  /** Of these, private documents that nobody else reads, but agents of the principal. */
  async unshared(tenantId: string, principalId: string, ids: readonly string[]): Promise<string[]> {
    const rows = await this.#db.selectFrom("document").select("id").where(tenantIsUnindexed(tenantId))
      .where("id", "in", ids).where("room_id", "is", null)
      .where(({ not, exists, selectFrom }) =>
        not(exists(
          selectFrom("document_access as other")
            .innerJoin("principal", (join) =>
              join.onRef("principal.tenant_id", "=", "other.tenant_id").onRef(
                "principal.id",
                "=",
                "other.principal_id",
              ))
            .select("other.principal_id").where("other.tenant_id", "=", tenantId)
            .whereRef("other.document_id", "=", "document.id").where("other.principal_id", "<>", principalId)
            .where("principal.owner_id", "is distinct from", principalId),
        ))
      ).execute();
    return rows.map(({ id }) => id);
  }

  /** What was below these documents is below none. */
  async endParents(tenantId: string, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#db.updateTable("document").set({ parent_id: null }).where("tenant_id", "=", tenantId)
      .where("parent_id", "in", ids).execute();
  }

  /** Deletes documents once nothing belongs to them, and before that some of it; returns whether there may be more. */
  async purgeSome(tenantId: string, ids: readonly string[]): Promise<boolean> {
    if (ids.length === 0) return false;
    const ofThese = sql<SqlBool>`${tenantIsUnindexed(tenantId)} and ${inList(this.#db, "document_id", ids)}`;
    for (const table of DEPENDENT_TABLES) {
      if (await deleteSome(this.#db, table, ofThese)) return true;
    }
    await this.#db.deleteFrom("document").where(tenantIsUnindexed(tenantId)).where(inList(this.#db, "id", ids))
      .execute();
    return false;
  }
}
