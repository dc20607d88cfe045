// SQL of comments.
import type { Kysely } from "kysely";
import type { CursorKey, RowSelection } from "@/core/page.ts";
import { orderedAfter, selectRows } from "@/ports/sql/filters.ts";
import type { CommentRow, DocumentTables } from "../tables.ts";

export class CommentStore {
  readonly #db: Kysely<DocumentTables>;

  constructor(db: Kysely<DocumentTables>) {
    this.#db = db;
  }

  find(tenantId: string, documentId: string, id: string): Promise<CommentRow | undefined> {
    return this.#db.selectFrom("document_comment").selectAll().where("tenant_id", "=", tenantId)
      .where("document_id", "=", documentId).where("id", "=", id).executeTakeFirst();
  }

  list(
    tenantId: string,
    documentId: string,
    resolved: boolean | undefined,
    after: CursorKey | undefined,
    limit: number,
  ): Promise<CommentRow[]> {
    let query = this.#db.selectFrom("document_comment").selectAll().where("tenant_id", "=", tenantId)
      .where("document_id", "=", documentId);
    if (resolved !== undefined) query = query.where("resolved_at", resolved ? "is not" : "is", null);
    return orderedAfter(query, ["created_at", "id"], after).limit(limit).execute();
  }

  /** Ids of all comments of a document, replies last. */
  async ids(tenantId: string, documentId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("document_comment").select(["id", "parent_id"])
      .where("tenant_id", "=", tenantId).where("document_id", "=", documentId).orderBy("created_at").orderBy("id")
      .execute();
    return rows.toSorted((a, b) => Number(a.parent_id !== null) - Number(b.parent_id !== null)).map(({ id }) => id);
  }

  /** Comments of an author on any documents, by id. */
  writtenBy(tenantId: string, authorId: string, after: string, limit: number): Promise<CommentRow[]> {
    return this.#db.selectFrom("document_comment").selectAll().where("tenant_id", "=", tenantId)
      .where("author_id", "=", authorId).where("id", ">", after).orderBy("id").limit(limit).execute();
  }

  /** Comments on any documents. */
  async findByIds(tenantId: string, which: RowSelection): Promise<CommentRow[]> {
    return await selectRows(this.#db.selectFrom("document_comment").selectAll(), tenantId, which);
  }

  /** Ids of the comments on these documents. */
  async idsOf(tenantId: string, documentIds: readonly string[]): Promise<string[]> {
    if (documentIds.length === 0) return [];
    const rows = await this.#db.selectFrom("document_comment").select("id").where("tenant_id", "=", tenantId)
      .where("document_id", "in", documentIds).execute();
    return rows.map(({ id }) => id);
  }

  async findMany(tenantId: string, documentId: string, ids: readonly string[]): Promise<CommentRow[]> {
    if (ids.length === 0) return [];
    return await this.#db.selectFrom("document_comment").selectAll().where("tenant_id", "=", tenantId)
      .where("document_id", "=", documentId).where("id", "in", ids).execute();
  }

  async count(tenantId: string, documentId: string): Promise<number> {
    const row = await this.#db.selectFrom("document_comment").select(({ fn }) => fn.countAll<number>().as("n"))
      .where("tenant_id", "=", tenantId).where("document_id", "=", documentId).executeTakeFirstOrThrow();
    return Number(row.n);
  }

  /** Those who wrote a comment or a reply to it. */
  async threadAuthors(tenantId: string, rootId: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("document_comment").select("author_id").distinct()
      .where("tenant_id", "=", tenantId).where(({ eb, or }) =>
        or([eb("id", "=", rootId), eb("parent_id", "=", rootId)])
      )
      .orderBy("author_id").execute();
    return rows.map((row) => row.author_id);
  }

  async add(row: CommentRow): Promise<void> {
    await this.#db.insertInto("document_comment").values(row).execute();
  }

  async put(row: CommentRow): Promise<void> {
    await this.#db.updateTable("document_comment").set(row).where("tenant_id", "=", row.tenant_id)
      .where("id", "=", row.id).execute();
  }

  /** Resolves or reopens the replies along with their root. */
  async setResolved(
    tenantId: string,
    parentId: string,
    set: Pick<CommentRow, "resolved_at" | "resolved_by">,
  ): Promise<void> {
    await this.#db.updateTable("document_comment").set(set).where("tenant_id", "=", tenantId)
      .where("parent_id", "=", parentId).execute();
  }

  /** Removes a comment with its replies; returns their ids. */
  async remove(tenantId: string, id: string): Promise<string[]> {
    const rows = await this.#db.deleteFrom("document_comment").where("tenant_id", "=", tenantId)
      .where(({ eb, or }) => or([eb("id", "=", id), eb("parent_id", "=", id)])).returning("id").execute();
    return rows.map((row) => row.id);
  }
}
