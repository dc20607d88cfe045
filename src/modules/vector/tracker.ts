// Follows the search index: what changes there waits for new vectors, and loses its old ones in the same transaction.
import { type Clock, iso } from "@/core/time/clock.ts";
import type { SearchEntry } from "@/core/searchable.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { Dialect } from "@/core/migration.ts";
import type { VectorRef } from "@/ports/vectors.ts";
import type { Engines } from "./engines.ts";
import { hashOf } from "./chunks.ts";
import { ItemStore } from "./item_store.ts";
import { CHECK_JOB, EMBED_JOB } from "./jobs.ts";
import { type SpaceRow, SpaceStore } from "./space_store.ts";

/** A text that changes is embedded when it has not changed for so long: each version would be paid for. */
const SETTLE_MS = 30_000;

type Deps = {
  clock: Clock;
  dialect: Dialect;
  engines: Engines; /** Whether every tenant has a model. */
  hasModel: boolean;
};

export class Tracker {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Entries of a tenant were added or changed; each resource is there once. */
  async put(tx: AnyTransaction, tenantId: string, entries: readonly SearchEntry[]): Promise<void> {
    const spaces = await new SpaceStore(tx.db).all(tenantId);
    const current = spaces.filter(({ state }) => state !== "retired");
    if (current.length === 0 && this.#deps.hasModel) {
      await tx.enqueue({ tenantId, kind: CHECK_JOB, payload: {}, key: CHECK_JOB });
    }
    let missing = 0;
    for (const space of current) missing += await this.putInSpace(tx, space, entries);
    if (missing > 0) await this.enqueue(tx, tenantId, current);
  }

  /** The same for one space; resolves to how many resources wait. The caller enqueues the job. */
  async putInSpace(tx: AnyTransaction, space: SpaceRow, entries: readonly SearchEntry[]): Promise<number> {
    const { clock, dialect, engines } = this.#deps;
    const items = new ItemStore(tx.db, dialect);
    const [now, settled] = [iso(clock.now()), iso(clock.now() + SETTLE_MS)];
    let missing = 0;
    for (const [kind, group] of Map.groupBy(entries, (entry) => entry.kind)) {
      const known = await items.hashes(space.tenant_id, space.id, kind, group.map(({ id }) => id));
      const changed = group.map(({ id, ...entry }) => ({ id, hash: hashOf({ id, ...entry }) }))
        .filter(({ id, hash }) => known.get(id) !== hash);
      if (changed.length === 0) continue;
      await items.put(changed.map((item) => ({
        tenant_id: space.tenant_id,
        space: space.id,
        kind,
        due_at: known.has(item.id) ? settled : now,
        ...item,
      })));
      // It still represents the text that its author has replaced.
      const stale = changed.filter(({ id }) => known.has(id));
      if (stale.length > 0) await engines.remove(tx, space, stale.map(({ id }) => ({ kind, id })));
      missing += changed.length;
    }
    return missing;
  }

  /** Resources were removed: they leave all spaces. */
  async remove(tx: AnyTransaction, tenantId: string, refs: readonly VectorRef[]): Promise<void> {
    const spaces = await new SpaceStore(tx.db).all(tenantId);
    if (spaces.length === 0) return;
    for (const [kind, group] of Map.groupBy(refs, (ref) => ref.kind)) {
      // First the items: a writer of vectors has locked them, and has committed when this continues.
      const removed = await new ItemStore(tx.db, this.#deps.dialect).remove(tenantId, kind, group.map(({ id }) => id));
      for (const space of spaces) {
        const ids = removed.filter((item) => item.space === space.id);
        if (ids.length > 0) await this.#deps.engines.remove(tx, space, ids.map(({ id }) => ({ kind, id })));
      }
    }
  }

  /** Embeds what waits, unless all these spaces are paused: then a later run is enqueued already. */
  async enqueue(tx: AnyTransaction, tenantId: string, spaces: readonly SpaceRow[]): Promise<void> {
    const now = iso(this.#deps.clock.now());
    if (spaces.every(({ paused_until: until }) => until !== null && until > now)) return;
    await tx.enqueue({ tenantId, kind: EMBED_JOB, payload: {}, key: EMBED_JOB });
  }
}
