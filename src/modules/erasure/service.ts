// Erasures of people: created with a delay, cancelled, and done by a job that may stop anywhere and run again.
import { type Actor, isAdmin } from "@/core/actor.ts";
import { runOutsideCalls } from "@/core/caller.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import type { ErasedPerson } from "@/core/erasure.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, isFault, notFound } from "@/core/fault.ts";
import type { Holds } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type ErasedPrincipals, resolvePrincipalId } from "@/modules/identity/mod.ts";
import { type AnyDatabase, type AnyTransaction, type Store, whenTaken } from "@/ports/store.ts";
import { removeOwnStream } from "@/ports/store_erasure.ts";
import { summed } from "./counts.ts";
import type { Eraser } from "./eraser.ts";
import type { Erasure, ErasureCreate, ErasureList } from "./schema.ts";
import { type ErasureRow, ErasureStore, type ErasureTables } from "./store.ts";

export const ERASE_JOB = "erasure.run";
/** Passes over all tables: the last one finds nothing. What others write meanwhile may name the person again. */
const PASSES_MAX = 10;
/** Used in a dry run, which replaces nothing. */
const NO_PSEUDONYM = "";

type Deps = {
  store: Store<ErasureTables>;
  clock: Clock;
  cursors: Cursors;
  principals: ErasedPrincipals;
  holds: Holds;
  eraser: Eraser;
  /** Days between the request and the work. */
  days: number;
  onDone: (mode: ErasureRow["mode"]) => void;
};

export class ErasureService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(actor: Actor, { principalId: ref, mode, dryRun, confirm }: ErasureCreate): Promise<Erasure> {
    const { store, clock, principals, holds, days } = this.#deps;
    const { tenantId } = actor;
    const principalId = resolvePrincipalId(actor, ref);
    if (!dryRun && confirm !== principalId) {
      throw Fault.forField("/confirm", "required", "expected the id of the principal again");
    }
    const now = clock.now();
    const dueAt = dryRun ? now : now + days * DAY_MS;
    return await store.write(async (tx) => {
      const isEnabled = await principals.assertMayErase(tx, actor, principalId);
      if (dryRun) await assertNotCounted(tx, tenantId, principalId);
      else {
        await assertNotHeld(holds, tx.db, { tenantId, principalId });
        await principals.setDisabled(actor, principalId, true);
      }
      const row: ErasureRow = {
        tenant_id: tenantId,
        id: newId("era"),
        principal_id: principalId,
        pseudonym_id: null,
        mode,
        is_dry_run: dryRun ? 1 : 0,
        was_enabled: isEnabled ? 1 : 0,
        state: "waiting",
        counts_json: "[]",
        requested_by: actor.principalId,
        due_at: iso(dueAt),
        created_at: iso(now),
        finished_at: null,
      };
      await new ErasureStore(tx.db).add(row);
      await tx.enqueue({ ...jobOf(row), runAt: dueAt });
      return present(row);
    }).catch(whenTaken((cause) => new Fault("already_running", "The principal is being erased already", { cause })));
  }

  async read(actor: Actor, id: string): Promise<Erasure> {
    const row = await new ErasureStore(this.#deps.store.db).find(actor.tenantId, id);
    if (row === undefined || !(isAdmin(actor) || row.principal_id === actor.principalId)) throw notFound("erasure");
    return present(row);
  }

  /** Those of the tenant for admins, and of themselves for others. */
  async list(actor: Actor, { limit, cursor }: ErasureList): Promise<Page<Erasure>> {
    const { store, cursors } = this.#deps;
    const about = isAdmin(actor) ? undefined : actor.principalId;
    const bind = ["erasure.list", actor.tenantId, about ?? null];
    const before = cursors.decodeId(cursor, bind);
    const rows = await new ErasureStore(store.db).page(actor.tenantId, about, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async cancel(actor: Actor, id: string): Promise<Erasure> {
    const { store, clock, principals } = this.#deps;
    return await store.write(async (tx) => {
      const erasures = new ErasureStore(tx.db);
      const row = await erasures.lock(actor.tenantId, id);
      if (row === undefined) throw notFound("erasure");
      await principals.assertMayErase(tx, actor, row.principal_id);
      if (row.state !== "waiting") throw new Fault("conflict", `The erasure is ${row.state}`);
      const set = { state: "cancelled", finished_at: iso(clock.now()) } as const;
      await erasures.update(actor.tenantId, id, set);
      if (row.was_enabled === 1 && row.is_dry_run === 0) await principals.setDisabled(actor, row.principal_id, false);
      return present({ ...row, ...set });
    });
  }

  /** The job: does what is left of it. It is charged to nobody: what it enqueues would name the person as the account. */
  run(tenantId: string, id: string): Promise<void> {
    return runOutsideCalls(() => this.#run(tenantId, id));
  }

  async #run(tenantId: string, id: string): Promise<void> {
    const { store, eraser } = this.#deps;
    const row = await new ErasureStore(store.db).find(tenantId, id);
    if (row === undefined || row.state === "done" || row.state === "cancelled") return;
    if (row.is_dry_run === 1) return await this.#count(row);
    const pseudonymId = await this.#begin(tenantId, id);
    if (pseudonymId === undefined) return;
    const person = await this.#personOf(row, pseudonymId);
    if (person === undefined) return;
    try {
      await eraser.runRemovals(person);
      for (let pass = 1; await eraser.runTables(person); pass++) {
        if (pass === PASSES_MAX) throw new Fault("unavailable", "Others still write about the principal");
      }
    } catch (thrown) {
      // A hold that was created meanwhile, on the person or on a room: the rest is done after its release.
      if (!isFault(thrown, "legal_hold")) throw thrown;
      return await store.write((tx) => tx.enqueue({ ...jobOf(row), runAt: this.#deps.clock.now() + DAY_MS }));
    }
    await this.#finish(id, person);
  }

  async #count(row: ErasureRow): Promise<void> {
    const { store, clock, eraser } = this.#deps;
    const person = await this.#personOf(row, NO_PSEUDONYM);
    const counts = person === undefined ? [] : summed(await eraser.count(person));
    await store.write((tx) =>
      new ErasureStore(tx.db).update(row.tenant_id, row.id, {
        state: "done",
        counts_json: JSON.stringify(counts),
        finished_at: iso(clock.now()),
      })
    );
  }

  /** `undefined` once another run of the job has removed the principal. */
  async #personOf(
    { tenant_id: tenantId, principal_id: principalId, mode }: ErasureRow,
    pseudonymId: string,
  ): Promise<ErasedPerson | undefined> {
    const displayName = await this.#deps.principals.displayName(tenantId, principalId);
    if (displayName === undefined) return undefined;
    return { tenantId, principalId, pseudonymId, displayName, deletesContent: mode === "delete_content" };
  }

  /** Resolves to the id of the pseudonym, or `undefined` if the erasure was cancelled, or waits for the end of a legal hold. */
  #begin(tenantId: string, id: string): Promise<string | undefined> {
    return this.#deps.store.write(async (tx) => {
      const erasures = new ErasureStore(tx.db);
      const row = await erasures.lock(tenantId, id);
      if (row?.state !== "waiting" && row?.state !== "running") return undefined;
      const { principals, holds } = this.#deps;
      const subject = { principalId: row.principal_id };
      if (row.state === "waiting" && await holds.postpones(tx, jobOf(row), subject)) return undefined;
      await principals.ensureDisabled(tx, tenantId, row.principal_id);
      if (row.pseudonym_id !== null) return row.pseudonym_id;
      const pseudonymId = await principals.addPseudonym(tx, tenantId);
      await erasures.update(tenantId, id, { state: "running", pseudonym_id: pseudonymId });
      return pseudonymId;
    });
  }

  async #finish(id: string, { tenantId, principalId, pseudonymId }: ErasedPerson): Promise<void> {
    const { store, clock, principals, onDone } = this.#deps;
    const mode = await store.write(async (tx) => {
      const erasures = new ErasureStore(tx.db);
      const row = await erasures.lock(tenantId, id);
      if (row?.state !== "running") return undefined;
      await principals.finish(tx, tenantId, principalId);
      await removeOwnStream(tx, tenantId, principalId);
      await erasures.replacePrincipal(tenantId, principalId, pseudonymId);
      await erasures.update(tenantId, id, { state: "done", finished_at: iso(clock.now()) });
      return row.mode;
    });
    if (mode !== undefined) onDone(mode);
  }
}

function jobOf({ tenant_id: tenantId, id }: ErasureRow): JobDraft {
  return { tenantId, kind: ERASE_JOB, payload: { id }, key: id };
}

/** A dry run reads all tables, so there is one of a principal at a time. */
async function assertNotCounted(tx: AnyTransaction, tenantId: string, principalId: string): Promise<void> {
  await tx.lock(tenantId, principalStream(principalId));
  if (!await new ErasureStore(tx.db).hasDryRun(tenantId, principalId)) return;
  throw new Fault("already_running", "What would be erased of the principal is being counted already");
}

export async function assertNotHeld(
  holds: Holds,
  db: AnyDatabase,
  { tenantId, principalId }: Pick<ErasedPerson, "tenantId" | "principalId">,
): Promise<void> {
  await holds.assertNotHeld("The principal cannot be erased", db, tenantId, { principalId });
}

function present(row: ErasureRow): Erasure {
  return {
    id: row.id,
    principalId: row.principal_id,
    pseudonymId: row.pseudonym_id,
    mode: row.mode,
    dryRun: row.is_dry_run === 1,
    state: row.state,
    counts: JSON.parse(row.counts_json),
    requestedBy: row.requested_by,
    dueAt: row.due_at,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
  };
}
