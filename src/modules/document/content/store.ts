// SQL of contents: the CRDT as a snapshot and updates, and revisions as text.
import type { Kysely } from "kysely";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import type { DocumentTables, RevisionHead, RevisionRow, StateRow, UpdateRow } from "../tables.ts";

type Db = Kysely<DocumentTables>;
type DocumentKey = { tenantId: string; id: string };

const stateOf = prepared((db: Db, value: Param<DocumentKey>) =>
  db.selectFrom("document_state").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("document_id", "=", value("id"))
);
const updatesAfter = prepared((db: Db, value: Param<DocumentKey & { after: number }>) =>
  db.selectFrom("document_update").selectAll().where("tenant_id", "=", value("tenantId"))
    .where("document_id", "=", value("id")).where("revision", ">", value("after")).orderBy("revision")
);
const addUpdate = prepared((db: Db, value: Param<UpdateRow>) =>
  db.insertInto("document_update").values({
    tenant_id: value("tenant_id"),
    document_id: value("document_id"),
    revision: value("revision"),
    data: value("data"),
    principal_id: value("principal_id"),
  })
);

export class ContentStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  async addState(row: StateRow): Promise<void> {
    await this.#db.insertInto("document_state").values(row).execute();
  }

  state(tenantId: string, id: string): Promise<StateRow | undefined> {
    return stateOf.first(this.#db, { tenantId, id });
  }

  /** Derived texts of documents. */
  async texts(tenantId: string, ids: readonly string[]): Promise<Map<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#db.selectFrom("document_state").select(["document_id", "text"])
      .where("tenant_id", "=", tenantId).where("document_id", "in", ids).execute();
    return new Map(rows.map((row) => [row.document_id, row.text]));
  }

  updatesAfter(tenantId: string, id: string, after: number): Promise<UpdateRow[]> {
    return updatesAfter.all(this.#db, { tenantId, id, after });
  }

  async addUpdate(row: UpdateRow): Promise<void> {
    await addUpdate.run(this.#db, row);
  }

  async setState(tenantId: string, id: string, set: Partial<StateRow>): Promise<void> {
    await this.#db.updateTable("document_state").set(set).where("tenant_id", "=", tenantId)
      .where("document_id", "=", id).execute();
  }

  /** Deletes updates that a snapshot includes. */
  async deleteUpdates(tenantId: string, id: string, upTo: number): Promise<void> {
    await this.#db.deleteFrom("document_update").where("tenant_id", "=", tenantId).where("document_id", "=", id)
      .where("revision", "<=", upTo).execute();
  }

  async addRevision(row: RevisionRow): Promise<void> {
    await this.#db.insertInto("document_revision").values(row).execute();
  }

  async removeRevisions(tenantId: string, id: string, revisions: readonly number[]): Promise<void> {
    await this.#db.deleteFrom("document_revision").where("tenant_id", "=", tenantId).where("document_id", "=", id)
      .where("revision", "in", revisions).execute();
  }

  revision(tenantId: string, id: string, revision: number): Promise<RevisionRow | undefined> {
    return this.#db.selectFrom("document_revision").selectAll().where("tenant_id", "=", tenantId)
      .where("document_id", "=", id).where("revision", "=", revision).executeTakeFirst();
  }

  lastRevision(tenantId: string, id: string): Promise<RevisionHead | undefined> {
    return this.revisions(tenantId, id, undefined, 1).then(([row]) => row);
  }

  /** Revisions without their texts, newest first. */
  revisions(tenantId: string, id: string, before: number | undefined, limit: number): Promise<RevisionHead[]> {
    let query = this.#db.selectFrom("document_revision")
      .select(["tenant_id", "document_id", "revision", "kind", "bytes", "principal_ids_json", "started_at", "at"])
      .where("tenant_id", "=", tenantId).where("document_id", "=", id);
    if (before !== undefined) query = query.where("revision", "<", before);
    return query.orderBy("revision", "desc").limit(limit).execute();
  }

  /** The oldest revision, if any, and their number. */
  async revisionStats(tenantId: string, id: string): Promise<{ oldest: number | undefined; count: number }> {
    const row = await this.#db.selectFrom("document_revision")
      .select(({ fn }) => [fn.min("revision").as("oldest"), fn.countAll<number>().as("n")])
      .where("tenant_id", "=", tenantId).where("document_id", "=", id).executeTakeFirstOrThrow();
    const count = Number(row.n);
    return { oldest: count === 0 ? undefined : Number(row.oldest), count };
  }

  /** Revisions beyond the newest `retained`, and those from before `since`, but never the newest; at most `limit`. */
  async oldRevisions(tenantId: string, id: string, retained: number, since: string, limit: number): Promise<number[]> {
    const [newest] = await this.revisions(tenantId, id, undefined, 1);
    const [beyond] = await this.#db.selectFrom("document_revision").select("revision")
      .where("tenant_id", "=", tenantId).where("document_id", "=", id).orderBy("revision", "desc").offset(retained)
      .limit(1)
      .execute();
    if (newest === undefined) return [];
    const rows = await this.#db.selectFrom("document_revision").select("revision").where("tenant_id", "=", tenantId)
      .where("document_id", "=", id).where("revision", "<", newest.revision)
      .where(({ eb, or }) =>
        or([eb("at", "<", since), ...beyond === undefined ? [] : [eb("revision", "<=", beyond.revision)]])
      ).limit(limit).execute();
    return rows.map((row) => row.revision);
  }
}
