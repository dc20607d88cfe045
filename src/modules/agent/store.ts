// SQL of the configuration of agents.
import type { Kysely } from "kysely";
import type { PrincipalRow } from "@/modules/identity/mod.ts";
import type { AgentRow, AgentTables } from "./tables.ts";

export type NamedAgentRow =
  & AgentRow
  & Pick<PrincipalRow, "handle" | "display_name" | "owner_id" | "role" | "is_disabled">;

export class AgentStore {
  readonly #db: Kysely<AgentTables & { principal: PrincipalRow }>;

  constructor(db: Kysely<AgentTables>) {
    // The principals are in every database.
    this.#db = db as unknown as Kysely<AgentTables & { principal: PrincipalRow }>;
  }

  async find(tenantId: string, id: string): Promise<NamedAgentRow | undefined> {
    return await this.#agents(tenantId).where("agent.id", "=", id).executeTakeFirst();
  }

  /** Those of these principals that are agents of the gateway. */
  findMany(tenantId: string, ids: readonly string[]): Promise<NamedAgentRow[]> {
    return this.#agents(tenantId).where("agent.id", "in", ids).execute();
  }

  list(
    tenantId: string,
    filter: { ownerId?: string | undefined },
    after: string | undefined,
    limit: number,
  ): Promise<NamedAgentRow[]> {
    let query = this.#agents(tenantId).where("principal.is_disabled", "=", 0);
    if (filter.ownerId !== undefined) query = query.where("principal.owner_id", "=", filter.ownerId);
    if (after !== undefined) query = query.where("agent.id", ">", after);
    return query.orderBy("agent.id").limit(limit).execute();
  }

  /** Those that are disabled, too, by id. */
  listAll(tenantId: string, after: string, limit: number): Promise<NamedAgentRow[]> {
    return this.#agents(tenantId).where("agent.id", ">", after).orderBy("agent.id").limit(limit).execute();
  }

  async add(row: AgentRow): Promise<void> {
    await this.#db.insertInto("agent").values(row).execute();
  }

  async update(tenantId: string, id: string, set: Partial<AgentRow>): Promise<void> {
    await this.#db.updateTable("agent").set(set).where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  async remove(tenantId: string, id: string): Promise<void> {
    await this.#db.deleteFrom("agent").where("tenant_id", "=", tenantId).where("id", "=", id).execute();
  }

  /** The return type is inferred: it is a query under construction. */
  #agents(tenantId: string) {
    return this.#db.selectFrom("agent")
      .innerJoin(
        "principal",
        (join) => join.onRef("principal.tenant_id", "=", "agent.tenant_id").onRef("principal.id", "=", "agent.id"),
      )
      .selectAll("agent")
      .select(["principal.handle", "principal.display_name", "principal.owner_id", "principal.role"])
      .select("principal.is_disabled")
      .where("agent.tenant_id", "=", tenantId);
  }
}
