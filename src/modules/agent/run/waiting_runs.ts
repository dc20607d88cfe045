// Runs that wait for an approval or a reply which can no longer come, or whose agent can no longer act, end at once: when somebody
// leaves the room or is disabled, and when the room is archived or deleted.
import { runAsSystem } from "@/core/caller.ts";
import { roomOfStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf, logOf } from "@/core/log.ts";
import { paginate } from "@/core/page.ts";
import { type RoomAccess, RoomStore } from "@/modules/room/mod.ts";
import { type AnyDatabase, type Store, streamKey } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import type { RunEnding } from "./ending.ts";
import { isWaiting, type RunFailure } from "./lifecycle.ts";
import type { RunActors } from "./run_actor.ts";
import { RunStore } from "./store.ts";

/** After these, agents or those who asked may no longer see the room, or cannot write there. */
const ROOM_EVENTS: ReadonlySet<string> = new Set(["member.left", "room.archived", "room.updated", "room.deleted"]);
/** Rooms to check at the same time. Those beyond are checked hourly, as is what a node that stopped left. */
const DUE_MAX = 1000;
const PAGE = 200;

/** Runs of a tenant; `roomId`: only in a room. */
type Due = { tenantId: string; roomId: string | undefined };
type Deps = { store: Store<AgentTables>; roomAccess: RoomAccess; actors: RunActors; ending: RunEnding };

const log = logOf("agent");

export class WaitingRuns {
  readonly #deps: Deps;
  readonly #due = new Map<string, Due>();
  #checking: Promise<void> | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  onCommit(events: readonly StoredEvent[]): void {
    for (const { tenantId, stream, type } of events) {
      const roomId = ROOM_EVENTS.has(type) ? roomOfStream(stream) : undefined;
      const isDue = roomId !== undefined || type === "principal.disabled";
      if (isDue && this.#due.size < DUE_MAX) this.#due.set(streamKey(tenantId, roomId ?? ""), { tenantId, roomId });
    }
    if (this.#due.size > 0) {
      this.#checking ??= runAsSystem(() => this.#checkDue()).finally(() => this.#checking = undefined);
    }
  }

  /** Checks the waiting runs of all tenants. */
  async checkAll(): Promise<void> {
    const { store } = this.#deps;
    const read = (last?: Pick<RunRow, "id">) => new RunStore(store.db).waitingAfter(last?.id ?? "", PAGE);
    for await (const page of paginate(PAGE, read)) {
      for (const { tenant_id, id } of page) await this.#check(tenant_id, id);
    }
  }

  async stop(): Promise<void> {
    this.#due.clear();
    await this.#checking;
  }

  async #checkDue(): Promise<void> {
    for (const [key, { tenantId, roomId }] of this.#due) {
      this.#due.delete(key);
      try {
        const runs = await new RunStore(this.#deps.store.db).waiting(tenantId, roomId);
        for (const { id } of runs) await this.#check(tenantId, id);
      } catch (cause) {
        log.warn("checking runs that wait failed; they are checked hourly", failureOf(cause));
      }
    }
  }

  async #check(tenantId: string, id: string): Promise<void> {
    const { store, ending } = this.#deps;
    // Most can continue: others do not wait for a transaction that changes nothing.
    if (await this.#obstacleOf(tenantId, id, store.db) === undefined) return;
    await store.write(async (tx) => {
      const obstacle = await this.#obstacleOf(tenantId, id, tx.db);
      if (obstacle !== undefined) await ending.abandon(tx, obstacle.run, obstacle.error);
    });
  }

  /** A run that waits and cannot continue, with the reason. */
  async #obstacleOf(
    tenantId: string,
    id: string,
    db: AnyDatabase,
  ): Promise<{ run: RunRow; error: RunFailure } | undefined> {
    const run = await new RunStore(db).find(tenantId, id);
    const error = run !== undefined && isWaiting(run) ? await this.#whyEnded(run, db) : undefined;
    return run === undefined || error === undefined ? undefined : { run, error };
  }

  async #whyEnded(run: RunRow, db: AnyDatabase): Promise<RunFailure | undefined> {
    const { actors, roomAccess } = this.#deps;
    const room = await new RoomStore(db).find(run.tenant_id, run.room_id);
    if (room === undefined || room.state === "deleted") return { code: "not_found", detail: "The room was deleted" };
    if (room.state === "archived") return { code: "room_archived", detail: "The room was archived" };
    try {
      const actor = await actors.of(run, db);
      // A person who left a public room can still see it.
      const isMember = await roomAccess.find(actor, run.room_id, db) !== undefined;
      return isMember ? undefined : { code: "not_found", detail: "The agent or one of those who asked left the room" };
    } catch (thrown) {
      if (!(thrown instanceof Fault) || thrown.spec.retryable) throw thrown;
      return { code: thrown.code, detail: thrown.message };
    }
  }
}
