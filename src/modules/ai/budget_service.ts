// Budgets that admins set, and reports of usage.
import { type Actor, chargedId, isAdmin } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type BudgetRow, BudgetStore, type BudgetTables, type BudgetWindowRow } from "./budget_store.ts";
import { endOf, windowOf } from "./budgets.ts";
import { type Budget, type BudgetPeriod, type BudgetPut, BUDGETS_MAX, type Usage, type UsageRead } from "./schema.ts";
import { type UsageColumn, UsageStore, type UsageSum, type UsageTables } from "./usage_store.ts";

/** The key of the rooms that the caller cannot see; no room has this id. */
const HIDDEN = "*";
/** A stream without events: its lock serializes changes of the budgets of a tenant. */
const CHANGES_LOCK = "ai:budgets";
const USAGE_DEFAULT_DAYS = 30;
const COLUMNS: Readonly<Record<UsageRead["groupBy"], UsageColumn>> = {
  model: "model",
  provider: "provider",
  principal: "principal_id",
  agent: "agent_id",
  room: "room_id",
  day: "day",
};

/** Rooms that are read to find those that the caller sees. */
const ROOMS_MAX = 5000;

type Deps = {
  store: Store<BudgetTables & UsageTables>;
  clock: Clock;
  identity: Pick<IdentityService, "read">;
  roomAccess: Pick<RoomAccess, "findMany">;
};

export class BudgetService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list({ actor: { tenantId } }: Context): Promise<Budget[]> {
    const { store, clock } = this.#deps;
    const budgets = new BudgetStore(store.db);
    const rows = await budgets.budgets(tenantId);
    const now = clock.now();
    const starts = [...new Set(rows.map((row) => windowOf(row, iso(now)).startsAt))];
    const windows = new Map((await budgets.windows(tenantId, starts)).map((row) => [row.budget, row]));
    return rows.map((row) => present(row, windows.get(windowOf(row, iso(now)).budget), now));
  }

  /** Sets a budget; one without limits is removed. */
  async put({ actor }: Context, input: BudgetPut): Promise<Budget> {
    const { store, clock, identity } = this.#deps;
    const { tenantId, principalId } = actor;
    const { scope, subjectId, period, tokens, costMicros } = input;
    if ((scope === "tenant") !== (subjectId === null)) {
      const expected = scope === "tenant" ? "null for the tenant" : `the id of the ${scope}`;
      throw invalidField("/subjectId", `expected ${expected}`);
    }
    // Rooms are not looked up: an admin may bound the cost of those that it does not see, and learns nothing of them.
    if (subjectId !== null && scope !== "room") await identity.read(actor, subjectId);
    return await store.write(async (tx) => {
      await tx.lock(tenantId, CHANGES_LOCK);
      const budgets = new BudgetStore(tx.db);
      const key = { scope, subject_id: subjectId ?? "", period };
      const now = clock.now();
      const row: BudgetRow = {
        tenant_id: tenantId,
        ...key,
        token_limit: tokens,
        cost_limit: costMicros,
        created_by: principalId,
        updated_at: iso(now),
      };
      if (tokens === null && costMicros === null) await budgets.removeBudgets(tenantId, key);
      else {
        await budgets.putBudget(row);
        if (await budgets.countBudgets(tenantId) > BUDGETS_MAX) {
          throw new Fault("limit_reached", `A tenant has at most ${BUDGETS_MAX} budgets`);
        }
      }
      const { budget, startsAt } = windowOf(row, iso(now));
      const window = (await budgets.windows(tenantId, [startsAt], budget))[0];
      return present(row, window, now);
    });
  }

  /** Sums of usage: of the caller and its agents, or for admins of the tenant. */
  async usage({ actor }: Context, { of, groupBy, from, to, limit }: UsageRead): Promise<Usage> {
    const { store, clock } = this.#deps;
    if (of === "tenant" && !isAdmin(actor)) {
      throw new Fault("forbidden", "Usage of the tenant requires the tenant role admin");
    }
    const now = clock.now();
    const isByRoom = groupBy === "room";
    const found = await new UsageStore(store.db).sums(actor.tenantId, {
      column: COLUMNS[groupBy],
      from: from ?? iso(now - USAGE_DEFAULT_DAYS * DAY_MS).slice(0, 10),
      to: to ?? iso(now).slice(0, 10),
      principalId: of === "tenant" ? undefined : chargedId(actor),
      limit: isByRoom ? ROOMS_MAX : limit,
    });
    const sums = isByRoom ? (await this.#hideRooms(actor, found)).slice(0, limit) : found;
    return {
      items: sums.map((sum) => ({
        key: sum.key === "" || sum.key === HIDDEN ? null : sum.key,
        hidden: sum.key === HIDDEN,
        calls: sum.calls,
        inputTokens: sum.input_tokens,
        cachedTokens: sum.cached_tokens,
        outputTokens: sum.output_tokens,
        estimatedTokens: sum.estimated_tokens,
        costMicros: sum.cost,
      })),
    };
  }

  /** The sums of rooms, those that the actor cannot see as one; the largest first, as before. */
  async #hideRooms(actor: Actor, sums: readonly UsageSum[]): Promise<UsageSum[]> {
    const visible = await this.#deps.roomAccess.findMany(actor, sums.map(({ key }) => key));
    const isShown = ({ key }: UsageSum): boolean => key === "" || visible.has(key);
    const hidden = sums.filter((sum) => !isShown(sum));
    const all = [...sums.filter(isShown), ...hidden.length === 0 ? [] : [totalOf(HIDDEN, hidden)]];
    const tokens = ({ input_tokens, output_tokens }: UsageSum): number => input_tokens + output_tokens;
    return all.toSorted((one, other) => tokens(other) - tokens(one));
  }
}

/** The sums as one, under this key. */
function totalOf(key: string, sums: readonly UsageSum[]): UsageSum {
  const total = (name: Exclude<keyof UsageSum, "key">): number => sums.reduce((sum, one) => sum + one[name], 0);
  return {
    key,
    calls: total("calls"),
    input_tokens: total("input_tokens"),
    cached_tokens: total("cached_tokens"),
    output_tokens: total("output_tokens"),
    estimated_tokens: total("estimated_tokens"),
    cost: total("cost"),
  };
}

function present(row: BudgetRow, window: BudgetWindowRow | undefined, now: number): Budget {
  const period = row.period as BudgetPeriod;
  return {
    scope: row.scope as Budget["scope"],
    subjectId: row.subject_id === "" ? null : row.subject_id,
    period,
    tokens: row.token_limit,
    costMicros: row.cost_limit,
    used: { tokens: window?.tokens_used ?? 0, costMicros: window?.cost_used ?? 0 },
    reserved: { tokens: window?.tokens_reserved ?? 0, costMicros: window?.cost_reserved ?? 0 },
    endAt: iso(endOf(period, now)),
    updatedBy: row.created_by,
    updatedAt: row.updated_at,
  };
}
