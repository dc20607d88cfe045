// SQL of principals on their way out of a gateway and into one.
import type { Kysely } from "kysely";
import { queryInChunks } from "@/core/page.ts";
import type { Transaction } from "@/ports/store.ts";
import { digestOfErased } from "./erased_token.ts";
import type { IdentityTables, PrincipalRow } from "./store.ts";

type Db = Kysely<IdentityTables>;

export class PrincipalArchiveStore {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Which of these principals exist, with what a message needs of its sender. */
  principals(tenantId: string, ids: readonly string[]): Promise<PrincipalRow[]> {
    return queryInChunks(
      ids,
      (some) =>
        this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId).where("id", "in", some)
          .execute(),
    );
  }

  /** Those of these ids that are of people who were erased, each with when. */
  async erased(tenantId: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const idOf = new Map(ids.map((id) => [digestOfErased(tenantId, id), id]));
    const rows = await queryInChunks(
      [...idOf.keys()],
      (some) =>
        this.#db.selectFrom("erased_principal").select(["hash", "at"]).where("tenant_id", "=", tenantId)
          .where("hash", "in", some).execute(),
    );
    return new Map(rows.map(({ hash, at }) => [idOf.get(hash) ?? "", at]));
  }

  /** Recognises, by their ids, all people of the tenant who were erased so far. */
  async recognizeErased(tenantId: string): Promise<(id: string) => boolean> {
    const rows = await this.#db.selectFrom("erased_principal").select("hash").where("tenant_id", "=", tenantId)
      .execute();
    const hashes = new Set(rows.map(({ hash }) => hash));
    return (id) => hashes.size > 0 && hashes.has(digestOfErased(tenantId, id));
  }

  principalsAfter(tenantId: string, after: string, limit: number): Promise<PrincipalRow[]> {
    return this.#db.selectFrom("principal").selectAll().where("tenant_id", "=", tenantId).where("id", ">", after)
      .orderBy("id").limit(limit).execute();
  }
}

export async function addPrincipals(tx: Transaction<IdentityTables>, rows: readonly PrincipalRow[]): Promise<void> {
  await tx.insertMany("principal", rows);
}
