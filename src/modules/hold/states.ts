// States of tasks and events under a hold, before they were changed.
import type { Actor } from "@/core/actor.ts";
import type { HeldState as ReplacedState, IsHeld, KeepState } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import type { Store } from "@/ports/store.ts";
import type { HeldState, HeldStateList } from "./schema.ts";
import { type HeldStateRow, HoldStore, type HoldTables, type StateSubject } from "./store.ts";

/** Deleted in one transaction. */
const BATCH = 200;

type Deps = { store: Store<HoldTables>; clock: Clock; cursors: Cursors; isHeld: IsHeld };

export class HeldStates {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  readonly keep: KeepState = async (db, { tenantId, subject, type, id, version, state, replacedBy }: ReplacedState) => {
    await new HoldStore(db).addState({
      tenant_id: tenantId,
      id: newId("held"),
      type,
      resource_id: id,
      version,
      room_id: "roomId" in subject ? subject.roomId : null,
      principal_id: "roomId" in subject ? null : subject.principalId,
      state_json: JSON.stringify(state),
      replaced_by: replacedBy ?? null,
      replaced_at: iso(this.#deps.clock.now()),
    });
  };

  async list({ tenantId }: Actor, { limit, cursor, resourceId }: HeldStateList): Promise<Page<HeldState>> {
    const { store, cursors } = this.#deps;
    const bind = ["held_state.list", tenantId, resourceId ?? null];
    const before = cursors.decodeId(cursor, bind);
    const rows = await new HoldStore(store.db).listStates(tenantId, resourceId, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  purgeRoom(tenantId: string, roomId: string): Promise<void> {
    return this.#remove({ tenant_id: tenantId, room_id: roomId, principal_id: null });
  }

  /** Deletes the states of what is under no hold. */
  async purgeReleased(): Promise<void> {
    const { store, isHeld } = this.#deps;
    for (const subject of await new HoldStore(store.db).stateSubjects()) {
      const { tenant_id: tenantId, room_id: roomId, principal_id } = subject;
      const of = roomId === null ? { principalId: principal_id ?? "" } : { roomId };
      if (!await isHeld(store.db, tenantId, of)) await this.#remove(subject);
    }
  }

  async #remove(subject: StateSubject): Promise<void> {
    for (let isMore = true; isMore;) {
      isMore = await this.#deps.store.write((tx) => new HoldStore(tx.db).removeStates(subject, BATCH));
    }
  }
}

function present(row: HeldStateRow): HeldState {
  return {
    id: row.id,
    type: row.type,
    resourceId: row.resource_id,
    version: row.version,
    state: JSON.parse(row.state_json),
    replacedBy: row.replaced_by,
    replacedAt: row.replaced_at,
  };
}
