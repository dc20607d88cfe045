// Budgets of AI: what a step may cost at most is reserved before it, of all budgets that apply, and settled with it.
import { compareText } from "@/core/text/text.ts";
import { type Clock, DAY_MS, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { principalEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { withoutUndefined } from "@/core/patch.ts";
import type { ModelUsage } from "@/ports/model.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import {
  type Amount,
  type BudgetRow,
  BudgetStore,
  type BudgetTables,
  type ReservationRow,
  type WindowKey,
} from "./budget_store.ts";
import type { BudgetPeriod, BudgetScope } from "./schema.ts";

/** Longer than any step: what a node that stopped left behind. */
const RESERVATION_MS = 15 * MINUTE_MS;
/** Longer than the longest period. */
const WINDOW_DAYS = 62;
/** Characters of an ISO time that a period begins with. */
const PERIOD_CHARS: Readonly<Record<BudgetPeriod, number>> = { hour: 13, day: 10, month: 7 };

/** What a step used, of which model. */
export type Used = Omit<ModelUsage, "estimated"> & { model: string; costMicros: number };

/** Who is charged for a step, and where it belongs. */
export type AiCharge = {
  tenantId: string;
  /** The human who pays; absent for background work of the tenant, which only its own budgets limit. */
  principalId?: string | undefined;
  agentId?: string | undefined;
  roomId?: string | undefined;
  runId?: string | undefined;
  /** What the agent may use a day, by its own configuration. */
  agentTokensPerDay?: number | undefined;
  /** A repeated step with the same one replaces its reservation. */
  reservation?: string | undefined;
  /** Notes what was used, however the step ended; part of the transaction that settles it, and first there. */
  onUsed?: ((tx: AnyTransaction, used: Used) => Promise<void>) | undefined;
};

/** Tokens a day by default, whatever budgets a tenant sets; `undefined` without limits. */
export type TokenLimits = { principalPerDay: number; tenantPerDay: number } | undefined;

/** What was reserved for a step. `expiresAt` distinguishes it from one that replaced it. */
export type Reservation = { id: string; expiresAt: string; charge: AiCharge; windows: readonly WindowKey[] };

/** A budget that applies to a step, in its current period. */
type Applied = WindowKey & {
  scope: BudgetScope;
  subjectId: string;
  period: BudgetPeriod;
  tokenLimit: number | null;
  costLimit: number | null;
  /** Who set it; absent for the limits of the operator. */
  setBy?: string;
};

/** Rolls a reservation back. */
class BudgetRefused extends Error {
  readonly by: readonly Applied[];

  constructor(by: readonly Applied[]) {
    super("Budget exceeded");
    this.by = by;
  }
}

type Deps = { store: Store<BudgetTables>; clock: Clock; limits: TokenLimits };

export class Budgets {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Reserves of all budgets that apply, or of none. `cost` is absent where a price is unknown. Throws `budget_exceeded`, and
   * `price_unknown` where a budget limits the cost.
   */
  async reserve(charge: AiCharge, amount: { tokens: number; cost: number | undefined }): Promise<Reservation> {
    const { tenantId } = charge;
    try {
      return await this.#tryReserve(charge, amount);
    } catch (thrown) {
      if (!(thrown instanceof BudgetRefused)) throw thrown;
      if (await this.#freeExpired(tenantId) === 0) return await this.#refuse(charge, thrown.by);
    }
    try {
      return await this.#tryReserve(charge, amount);
    } catch (thrown) {
      if (!(thrown instanceof BudgetRefused)) throw thrown;
      return await this.#refuse(charge, thrown.by);
    }
  }

  /** Replaces a reservation with what was used. */
  async settle(tx: AnyTransaction, { id, expiresAt, charge, windows }: Reservation, used: Amount): Promise<void> {
    const { tenantId } = charge;
    const budgets = new BudgetStore(tx.db);
    // None, if it was released meanwhile, or another node has taken over the step.
    const [reserved = { tokens: 0, cost: 0 }] = await budgets.takeReservations(tenantId, { id, expiresAt });
    for (const window of windows) await budgets.settle(tenantId, window, reserved, used);
  }

  /** Frees what steps of a run reserved that will not be repeated. */
  async releaseRun(tx: AnyTransaction, tenantId: string, runId: string): Promise<void> {
    const budgets = new BudgetStore(tx.db);
    await free(budgets, tenantId, await budgets.takeReservations(tenantId, { runId }));
  }

  /** Hourly: frees what nodes that stopped left behind, and forgets old periods. */
  async maintain(): Promise<void> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    for (const tenantId of await new BudgetStore(store.db).tenantsWithExpired(iso(now))) {
      await this.#freeExpired(tenantId);
    }
    const before = iso(now - WINDOW_DAYS * DAY_MS).slice(0, PERIOD_CHARS.month);
    await store.write((tx) => new BudgetStore(tx.db).removeWindowsBefore(before));
  }

  #tryReserve(charge: AiCharge, { tokens, cost }: { tokens: number; cost: number | undefined }): Promise<Reservation> {
    const { store, clock } = this.#deps;
    const { tenantId, reservation: id = newId("reservation") } = charge;
    return store.write(async (tx) => {
      const budgets = new BudgetStore(tx.db);
      await free(budgets, tenantId, await budgets.takeReservations(tenantId, { id }));
      const applied = await this.#applied(budgets, charge);
      if (cost === undefined && applied.some(({ costLimit }) => costLimit !== null)) {
        throw new Fault("price_unknown", "A budget limits the cost, and the model has no price");
      }
      const amount = { tokens, cost: cost ?? 0 };
      if (applied.length > 0) {
        await budgets.openWindows(tenantId, applied);
        const reserved = await budgets.reserve(tenantId, applied, amount);
        const exceeded = applied.filter(({ budget }) => !reserved.has(budget));
        if (exceeded.length > 0) throw new BudgetRefused(exceeded);
      }
      const windows = applied.map(({ budget, startsAt }) => ({ budget, startsAt }));
      const expiresAt = iso(clock.now() + RESERVATION_MS);
      await budgets.addReservation({
        tenant_id: tenantId,
        id,
        run_id: charge.runId ?? null,
        ...amount,
        windows_json: JSON.stringify(windows),
        expires_at: expiresAt,
      });
      return { id, expiresAt, charge, windows };
    });
  }

  /** In the order in which their rows are locked. */
  async #applied(budgets: BudgetStore, charge: AiCharge): Promise<Applied[]> {
    const { tenantId, principalId, agentId, roomId } = charge;
    const now = iso(this.#deps.clock.now());
    const subjects = withoutUndefined({ tenant: "", principal: principalId, agent: agentId, room: roomId });
    const rows = await budgets.budgets(tenantId, subjects);
    const own = rows.map((row): Applied => ({ ...appliedOf(row, now), setBy: row.created_by }));
    return [...own, ...this.#operatorLimits(principalId, now), ...agentLimits(charge, now)]
      .toSorted((one, other) => compareText(one.budget, other.budget));
  }

  #operatorLimits(principalId: string | undefined, now: string): Applied[] {
    const { limits } = this.#deps;
    if (limits === undefined) return [];
    const limit = (scope: "tenant" | "principal", subjectId: string, tokens: number) =>
      dailyLimit(scope, subjectId, tokens, now);
    return [
      ...(principalId === undefined ? [] : [limit("principal", principalId, limits.principalPerDay)]),
      limit("tenant", "", limits.tenantPerDay),
    ];
  }

  /** Reports the first refusal of each window, to the principals that set the budget and that pay. */
  async #refuse({ tenantId, principalId }: AiCharge, by: readonly Applied[]): Promise<never> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    await store.write(async (tx) => {
      const budgets = new BudgetStore(tx.db);
      // Rolled back with the reservation, if it was the first of the period.
      await budgets.openWindows(tenantId, by);
      for (const { scope, subjectId, period, setBy = principalId, ...window } of by) {
        if (!await budgets.markExhausted(tenantId, window, iso(now))) continue;
        const data = { scope, subjectId: subjectId === "" ? null : subjectId, period, endAt: iso(endOf(period, now)) };
        const ids = [principalId, setBy].filter((id) => id !== undefined);
        await tx.emit(...[...new Set(ids)].map((id) => principalEvent({ tenantId }, id, "budget.exhausted", data)));
      }
    });
    const [first] = by;
    if (first === undefined) {
      throw new Fault("unavailable", "The budget was changed concurrently", { retryAfterMs: 1000 });
    }
    throw new Fault("budget_exceeded", `The AI budget of this ${first.scope} for this ${first.period} is used up`, {
      retryAfterMs: endOf(first.period, now) - now,
    });
  }

  /** Resolves to the number of reservations that were freed. */
  #freeExpired(tenantId: string): Promise<number> {
    const { store, clock } = this.#deps;
    return store.write(async (tx) => {
      const budgets = new BudgetStore(tx.db);
      const expired = await budgets.takeReservations(tenantId, { expiredAt: iso(clock.now()) });
      await free(budgets, tenantId, expired);
      return expired.length;
    });
  }
}

/** The name of a budget, and the beginning of its current period. */
export function windowOf(
  { scope, subject_id, period }: Pick<BudgetRow, "scope" | "subject_id" | "period">,
  now: string,
): WindowKey {
  const chars = PERIOD_CHARS[period as BudgetPeriod];
  return { budget: `${scope}/${subject_id}/${period}`, startsAt: now.slice(0, chars) };
}

/** The end of the period that is now, in ms. */
export function endOf(period: BudgetPeriod, now: number): number {
  const end = new Date(now);
  if (period === "hour") end.setUTCHours(end.getUTCHours() + 1, 0, 0, 0);
  if (period === "day") end.setUTCHours(24, 0, 0, 0);
  if (period === "month") {
    end.setUTCMonth(end.getUTCMonth() + 1, 1);
    end.setUTCHours(0, 0, 0, 0);
  }
  return end.getTime();
}

/** What an agent is configured to use at most. */
function agentLimits({ agentId, agentTokensPerDay }: AiCharge, now: string): Applied[] {
  if (agentId === undefined || agentTokensPerDay === undefined) return [];
  return [dailyLimit("agent", agentId, agentTokensPerDay, now)];
}

/** A limit besides the budgets that admins set. */
function dailyLimit(scope: BudgetScope, subjectId: string, tokenLimit: number, now: string): Applied {
  return {
    budget: `limit/${scope}/${subjectId}`,
    startsAt: now.slice(0, PERIOD_CHARS.day),
    scope,
    subjectId,
    period: "day",
    tokenLimit,
    costLimit: null,
  };
}

function appliedOf(row: BudgetRow, now: string): Applied {
  return {
    ...windowOf(row, now),
    scope: row.scope as BudgetScope,
    subjectId: row.subject_id,
    period: row.period as BudgetPeriod,
    tokenLimit: row.token_limit,
    costLimit: row.cost_limit,
  };
}

async function free(budgets: BudgetStore, tenantId: string, reservations: readonly ReservationRow[]): Promise<void> {
  for (const { windows_json, tokens, cost } of reservations) {
    for (const window of JSON.parse(windows_json) as WindowKey[]) {
      await budgets.settle(tenantId, window, { tokens, cost }, { tokens: 0, cost: 0 });
    }
  }
}
