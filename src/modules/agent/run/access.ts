// Access to runs: those who can see the room of a run, and its trigger, can see the run; its texts, if they can see all that it has read.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { hiddenUpTo, type RoomAccess, type RoomGrant, type RoomsRead } from "@/modules/room/mod.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import type { AgentTables, RunRow } from "../tables.ts";
import { askersOf, roomsReadBy } from "./presenter.ts";
import { RunStore } from "./store.ts";

type Reader = Pick<Actor, "tenantId" | "principalId" | "kind" | "role" | "ownerId" | "bounds">;
type Deps = { store: Store<AgentTables>; roomAccess: RoomAccess };

export class RunAccess {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A run that the actor can see; throws `not_found`. */
  async find(actor: Actor, id: string): Promise<RunRow> {
    const { store, roomAccess } = this.#deps;
    const run = await new RunStore(store.db).find(actor.tenantId, id);
    const grant = run === undefined ? undefined : await roomAccess.find(actor, run.room_id);
    if (run === undefined || !isVisible(run, grant)) throw notVisible("run");
    return run;
  }

  /** The same, for readers of its texts. */
  async findReadable(actor: Actor, id: string): Promise<RunRow> {
    const run = await this.find(actor, id);
    await this.assertCanSee(actor, roomsReadBy(run));
    return run;
  }

  /** Whether the actor may read the texts of the run. */
  async isReadable(actor: Actor, run: RunRow, db?: AnyDatabase): Promise<boolean> {
    return await this.canSee(actor, roomsReadBy(run), db);
  }

  /** Ids of those of the runs whose texts the actor may read: it can see all that the run has read. */
  async readable(actor: Actor, runs: readonly RunRow[]): Promise<ReadonlySet<string>> {
    const { roomAccess } = this.#deps;
    const reads = runs.map((run) => ({ id: run.id, read: roomsReadBy(run) }));
    const grants = await roomAccess.findMany(actor, reads.flatMap(({ read }) => [...read.keys()]));
    return new Set(reads.filter(({ read }) => showAll(grants, read)).map(({ id }) => id));
  }

  /** Throws unless the principal can see all that a run has read, and so may read its texts. */
  async assertCanSee(principal: Reader, read: RoomsRead, db: AnyDatabase = this.#deps.store.db): Promise<void> {
    if (await this.canSee(principal, read, db)) return;
    throw new Fault("forbidden", "The run has read what the caller cannot see");
  }

  /** Whether a principal can see all of this. */
  async canSee(principal: Reader, read: RoomsRead, db: AnyDatabase = this.#deps.store.db): Promise<boolean> {
    return showAll(await this.#deps.roomAccess.findMany(principal, read.keys(), db), read);
  }

  /** The same for a change, with the room locked until the commit. */
  async requireForUpdate(tx: AnyTransaction, context: Context, id: string): Promise<{ run: RunRow; grant: RoomGrant }> {
    const { roomAccess } = this.#deps;
    const { actor } = context;
    const runs = new RunStore(tx.db);
    const found = await runs.find(actor.tenantId, id);
    const visible = found === undefined ? undefined : await roomAccess.find(actor, found.room_id, tx.db);
    if (found === undefined || !isVisible(found, visible)) throw notVisible("run");
    const grant = await roomAccess.requireForUpdate(tx, context, found.room_id);
    const run = await runs.find(actor.tenantId, id);
    if (run === undefined || !isVisible(run, grant)) throw notVisible("run");
    return { run, grant };
  }

  /** Throws unless the caller asked for the run, is its agent, or moderates the room. */
  assertMayStop({ principalId }: Actor, run: RunRow, { role }: RoomGrant): void {
    const isModerator = role !== null && isAtLeast(ROOM_ROLES, role, "moderator");
    if (isModerator || run.agent_id === principalId || askersOf(run).includes(principalId)) return;
    throw new Fault(
      "forbidden",
      "Only the principal that asked for a run, its agent and moderators of the room may cancel it",
    );
  }
}

function showAll(grants: ReadonlyMap<string, RoomGrant>, read: RoomsRead): boolean {
  return [...read].every(([roomId, floor]) => {
    const grant = grants.get(roomId);
    return grant !== undefined && hiddenUpTo(grant) <= floor;
  });
}

function isVisible(run: RunRow, grant: RoomGrant | undefined): boolean {
  return grant !== undefined && Number(run.seq) > hiddenUpTo(grant);
}
