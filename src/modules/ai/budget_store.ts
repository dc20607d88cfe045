// SQL of budgets, their windows and reservations.
import { type Kysely, sql } from "kysely";

export type BudgetRow = {
  tenant_id: string;
  scope: string;
  /** Id of the room, agent or principal; empty for the tenant. */
  subject_id: string;
  period: string;
  token_limit: number | null;
  cost_limit: number | null;
  created_by: string;
  updated_at: string;
};

/** What was used of a budget in one of its periods. The limits are those at the last reservation. */
export type BudgetWindowRow = {
  tenant_id: string;
  budget: string;
  starts_at: string;
  token_limit: number | null;
  cost_limit: number | null;
  tokens_used: number;
  tokens_reserved: number;
  cost_used: number;
  cost_reserved: number;
  /** When it first refused a step. */
  exhausted_at: string | null;
};

export type ReservationRow = {
  tenant_id: string;
  id: string;
  run_id: string | null;
  tokens: number;
  cost: number;
  /** The windows that it reserves of, as `[budget, startsAt]`. */
  windows_json: string;
  expires_at: string;
};

export type BudgetTables = {
  ai_budget: BudgetRow;
  ai_budget_window: BudgetWindowRow;
  ai_reservation: ReservationRow;
};

/** One period of one budget. */
export type WindowKey = { budget: string; startsAt: string };
export type Amount = { tokens: number; cost: number };

export class BudgetStore {
  readonly #db: Kysely<BudgetTables>;

  constructor(db: Kysely<BudgetTables>) {
    this.#db = db;
  }

  /** All budgets of a tenant, or those of some subjects by scope. */
  async budgets(tenantId: string, subjects?: Readonly<Record<string, string>>): Promise<BudgetRow[]> {
    const all = this.#db.selectFrom("ai_budget").selectAll().where("tenant_id", "=", tenantId)
      .orderBy("scope").orderBy("subject_id").orderBy("period");
    if (subjects === undefined) return await all.execute();
    return await all.where((row) =>
      row.or(Object.entries(subjects).map(([scope, id]) => row.and({ scope, subject_id: id })))
    ).execute();
  }

  async putBudget(row: BudgetRow): Promise<void> {
    await this.#db.insertInto("ai_budget").values(row).onConflict((conflict) =>
      conflict.columns(["tenant_id", "scope", "subject_id", "period"]).doUpdateSet({
        token_limit: row.token_limit,
        cost_limit: row.cost_limit,
        created_by: row.created_by,
        updated_at: row.updated_at,
      })
    ).execute();
  }

  async removeBudgets(tenantId: string, by: { scope: string; subject_id: string; period?: string }): Promise<void> {
    const rows = this.#db.deleteFrom("ai_budget").where("tenant_id", "=", tenantId)
      .where("scope", "=", by.scope).where("subject_id", "=", by.subject_id);
    await (by.period === undefined ? rows : rows.where("period", "=", by.period)).execute();
  }

  async countBudgets(tenantId: string): Promise<number> {
    const row = await this.#db.selectFrom("ai_budget").select(({ fn }) => fn.countAll().as("count"))
      .where("tenant_id", "=", tenantId).executeTakeFirstOrThrow();
    return Number(row.count);
  }

  /** Windows that begin at one of these times, of all budgets or of one. */
  async windows(tenantId: string, starts: readonly string[], budget?: string): Promise<BudgetWindowRow[]> {
    if (starts.length === 0) return [];
    const rows = this.#db.selectFrom("ai_budget_window").selectAll().where("tenant_id", "=", tenantId)
      .where("starts_at", "in", starts);
    return await (budget === undefined
      ? rows.where("budget", "not like", "limit/%")
      : rows.where("budget", "=", budget))
      .execute();
  }

  /** Creates the windows, or sets their limits. Locks them in their order. */
  async openWindows(
    tenantId: string,
    windows: readonly (WindowKey & { tokenLimit: number | null; costLimit: number | null })[],
  ): Promise<void> {
    await this.#db.insertInto("ai_budget_window").values(windows.map((window) => ({
      tenant_id: tenantId,
      budget: window.budget,
      starts_at: window.startsAt,
      token_limit: window.tokenLimit,
      cost_limit: window.costLimit,
      tokens_used: 0,
      tokens_reserved: 0,
      cost_used: 0,
      cost_reserved: 0,
      exhausted_at: null,
    }))).onConflict((conflict) =>
      conflict.columns(["tenant_id", "budget", "starts_at"]).doUpdateSet((row) => ({
        token_limit: row.ref("excluded.token_limit"),
        cost_limit: row.ref("excluded.cost_limit"),
      }))
    ).execute();
  }

  /** Reserves of those windows that have enough left; resolves to their budgets. */
  async reserve(tenantId: string, keys: readonly WindowKey[], { tokens, cost }: Amount): Promise<ReadonlySet<string>> {
    const rows = await this.#db.updateTable("ai_budget_window")
      .set((row) => ({
        tokens_reserved: row("tokens_reserved", "+", tokens),
        cost_reserved: row("cost_reserved", "+", cost),
      }))
      .where("tenant_id", "=", tenantId)
      .where((row) => row.or(keys.map(({ budget, startsAt }) => row.and({ budget, starts_at: startsAt }))))
      .where((row) =>
        row.or([
          row("token_limit", "is", null),
          row(sql<number>`tokens_used + tokens_reserved + ${tokens}`, "<=", row.ref("token_limit")),
        ])
      )
      .where((row) =>
        row.or([
          row("cost_limit", "is", null),
          row(sql<number>`cost_used + cost_reserved + ${cost}`, "<=", row.ref("cost_limit")),
        ])
      )
      .returning("budget").execute();
    return new Set(rows.map((row) => row.budget));
  }

  /** Takes back what was reserved of a window, and adds what was used. */
  async settle(tenantId: string, { budget, startsAt }: WindowKey, reserved: Amount, used: Amount): Promise<void> {
    await this.#db.updateTable("ai_budget_window").set((row) => ({
      tokens_reserved: row("tokens_reserved", "-", reserved.tokens),
      cost_reserved: row("cost_reserved", "-", reserved.cost),
      tokens_used: row("tokens_used", "+", used.tokens),
      cost_used: row("cost_used", "+", used.cost),
    })).where("tenant_id", "=", tenantId).where("budget", "=", budget).where("starts_at", "=", startsAt).execute();
  }

  /** Whether this is the first time that the window refuses a step. */
  async markExhausted(tenantId: string, { budget, startsAt }: WindowKey, at: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#db.updateTable("ai_budget_window").set({ exhausted_at: at })
      .where("tenant_id", "=", tenantId).where("budget", "=", budget).where("starts_at", "=", startsAt)
      .where("exhausted_at", "is", null).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async addReservation(row: ReservationRow): Promise<void> {
    await this.#db.insertInto("ai_reservation").values(row).execute();
  }

  /** Deletes reservations; resolves to those that there were. */
  takeReservations(
    tenantId: string,
    by: { id: string; expiresAt?: string } | { runId: string } | { expiredAt: string },
  ): Promise<ReservationRow[]> {
    const rows = this.#db.deleteFrom("ai_reservation").where("tenant_id", "=", tenantId).returningAll();
    if ("id" in by) {
      const { id, expiresAt } = by;
      const own = rows.where("id", "=", id);
      return (expiresAt === undefined ? own : own.where("expires_at", "=", expiresAt)).execute();
    }
    return ("runId" in by ? rows.where("run_id", "=", by.runId) : rows.where("expires_at", "<=", by.expiredAt))
      .execute();
  }

  /** Tenants with reservations that have expired. */
  async tenantsWithExpired(at: string): Promise<string[]> {
    const rows = await this.#db.selectFrom("ai_reservation").select("tenant_id").distinct()
      .where("expires_at", "<=", at).execute();
    return rows.map((row) => row.tenant_id);
  }

  async removeWindowsBefore(startsAt: string): Promise<void> {
    await this.#db.deleteFrom("ai_budget_window").where("starts_at", "<", startsAt).execute();
  }
}
