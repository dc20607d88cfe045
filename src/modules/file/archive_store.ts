// SQL of files on their way out of a gateway and into one.
import type { Kysely } from "kysely";
import { inList, inSubquery, tenantIsUnindexed } from "@/ports/sql/filters.ts";
import { QuotaStore } from "./quota_store.ts";
import type { FileRow, FileTables } from "./store.ts";

type Db = Kysely<FileTables>;

export class FileArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Files of the tenant among these ids, in any state. */
  files(tenantId: string, ids: readonly string[]): Promise<FileRow[]> {
    if (ids.length === 0) return Promise.resolve([]);
    return this.#db.selectFrom("file").selectAll().where(tenantIsUnindexed(tenantId)).where("id", "in", ids).execute();
  }

  /** Files with a content that are attached to these owners, each once. */
  filesOf(tenantId: string, owners: readonly string[]): Promise<FileRow[]> {
    if (owners.length === 0) return Promise.resolve([]);
    const attached = this.#db.selectFrom("file_link").select("file_id").where("tenant_id", "=", tenantId)
      .where(inList(this.#db, "owner", owners));
    return this.#db.selectFrom("file").selectAll().where(tenantIsUnindexed(tenantId)).where("state", "=", "linked")
      .where(inSubquery(this.#db, "id", attached)).orderBy("id").execute();
  }

  /** Deletes what an interrupted run had begun to write under one of these ids. */
  async deleteUnfinished(tenantId: string, ids: readonly string[]): Promise<void> {
    const rows = await this.#db.deleteFrom("file").where(tenantIsUnindexed(tenantId)).where("id", "in", ids)
      .where("state", "=", "receiving").returning(["size", "charged_id"]).execute();
    const quotas = new QuotaStore(this.#db);
    for (const { charged_id: ownerId, size } of rows) await quotas.releaseQuota({ tenantId, ownerId }, Number(size));
  }

  /** Sets the creation time that a file has in its archive. */
  async setFileDate(tenantId: string, id: string, at: string): Promise<void> {
    await this.#db.updateTable("file").set({ created_at: at }).where("tenant_id", "=", tenantId).where("id", "=", id)
      .execute();
  }
}
