// The keeper of meetings: who may touch one, one change at a time, and what time or a lost right brings about.
import { isAtLeast, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import type { StoredEvent } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Context } from "@/core/operation.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Entry, RoomGate } from "@/modules/room/mod.ts";
import { type Store, type Transaction, UniqueViolation } from "@/ports/store.ts";
import { type HeldDeps, HeldMeeting } from "./held.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow, MeetingTables } from "./tables.ts";

type Deps = HeldDeps & { store: Store<MeetingTables>; gate: RoomGate; identity: IdentityService };

/** Events after which somebody in a meeting may have lost the right to be there. */
const LOSSES: ReadonlySet<string> = new Set(["member.left", "member.updated"]);
/** Events after which there is no meeting in a room. */
const CLOSINGS: ReadonlySet<string> = new Set(["room.archived", "room.deleted"]);

const log = logOf("meeting");

export class MeetingKeeper {
  readonly #deps: Deps;
  readonly #running = new Set<Promise<void>>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A meeting the caller may meet with the rights of the running operation. */
  async find(context: Context, id: string): Promise<{ row: MeetingRow; entry: Entry }> {
    return await this.#enter(context, await new MeetingStore(this.#deps.store.db).find(context.actor.tenantId, id));
  }

  /** A meeting as the gateway itself sees it. */
  peek(tenantId: string, id: string): Promise<MeetingRow | undefined> {
    return new MeetingStore(this.#deps.store.db).find(tenantId, id);
  }

  /** Runs `work` with a meeting held for the caller; rights are looked at when nobody else can change it any more. */
  hold<Result>(
    context: Context,
    id: string,
    work: (held: HeldMeeting, entry: Entry) => Promise<Result>,
  ): Promise<Result> {
    return this.write(async (tx) => {
      const locked = await new MeetingStore(tx.db).lock(context.actor.tenantId, id);
      const { row, entry } = await this.#enter(context, locked);
      const result = await this.#tended(tx, row, (held) => work(held, entry));
      // What was told holds the room: a removal that came before is seen, and one to come waits for this.
      await this.#deps.gate.enter(context, row.room_id);
      return result;
    });
  }

  /** The same for one that must not have ended. */
  holdOpen<Result>(
    context: Context,
    id: string,
    work: (held: HeldMeeting, entry: Entry) => Promise<Result>,
  ): Promise<Result> {
    return this.hold(context, id, (held, entry) => {
      if (held.row.state === "ended") throw new Fault("gone", "The meeting has ended");
      return work(held, entry);
    });
  }

  /** The same for the gateway itself; nothing when the meeting is no more. */
  async tend(tenantId: string, id: string, work?: (held: HeldMeeting) => Promise<void>): Promise<void> {
    await this.write(async (tx) => {
      const row = await new MeetingStore(tx.db).lock(tenantId, id);
      if (row !== undefined) await this.#tended(tx, row, work ?? (() => Promise.resolve()));
    });
  }

  /** Takes hold of a meeting that the transaction has just made. */
  async adopt(
    tx: Transaction<MeetingTables>,
    row: MeetingRow,
    work: (held: HeldMeeting) => Promise<void>,
  ): Promise<HeldMeeting> {
    return await this.#tended(tx, row, async (held) => {
      await work(held);
      return held;
    });
  }

  async write<Result>(work: (tx: Transaction<MeetingTables>) => Promise<Result>): Promise<Result> {
    try {
      return await this.#deps.store.write(work);
    } catch (error) {
      // Two meetings of a room began at the same time.
      if (error instanceof UniqueViolation) {
        throw new Fault("meeting_active", "The room has a meeting already", { cause: error });
      }
      throw error;
    }
  }

  /** Told of what was committed on this node: who lost a right leaves at once, not when their lease runs out. */
  heard(events: readonly StoredEvent[]): void {
    for (const { tenantId, stream, type } of events) {
      const id = stream.slice(stream.indexOf(":") + 1);
      if (type === "principal.disabled") this.#run(() => this.#recheckPrincipal(tenantId, id));
      else if (!stream.startsWith("room:")) continue;
      else if (LOSSES.has(type)) this.#run(() => this.#recheck(tenantId, id));
      else if (CLOSINGS.has(type)) this.#run(() => this.#close(tenantId, id));
    }
  }

  /** Resolves when everything heard so far has been acted upon. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Ends the participation of everybody who may not be in the room's meeting any more. */
  async #recheck(tenantId: string, roomId: string): Promise<void> {
    await this.#tendIn(tenantId, roomId, async (held) => {
      for (const person of [...held.people]) {
        const role = await this.#roleOf(tenantId, person.principal_id, roomId);
        if (!isAtLeast(ROOM_ROLES, role, "member")) await held.part(person, "no_access");
      }
    });
  }

  async #close(tenantId: string, roomId: string): Promise<void> {
    await this.#tendIn(tenantId, roomId, async (held) => {
      if (held.row.state !== "ended") await held.end("room_closed");
    });
  }

  async #tendIn(tenantId: string, roomId: string, work: (held: HeldMeeting) => Promise<void>): Promise<void> {
    const open = await new MeetingStore(this.#deps.store.db).openIn(tenantId, roomId);
    if (open !== undefined) await this.tend(tenantId, open.id, work);
  }

  async #recheckPrincipal(tenantId: string, id: string): Promise<void> {
    const { store, identity } = this.#deps;
    const ids = [id, ...await identity.agentsOf(tenantId, id)];
    for (const roomId of await new MeetingStore(store.db).roomsWith(tenantId, ids)) {
      await this.#recheck(tenantId, roomId);
    }
  }

  /** Never throws: whoever is missed here may not renew the lease, and goes with it. */
  #run(work: () => Promise<void>): void {
    const running = work().catch((cause) => {
      log.warning("rights in a meeting could not be looked at", { code: Fault.from(cause).code });
    }).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #enter(context: Context, row: MeetingRow | undefined): Promise<{ row: MeetingRow; entry: Entry }> {
    const absent = new Fault("not_found", "No such meeting, or not visible to the caller");
    if (row === undefined || await this.#deps.gate.look(context.actor, row.room_id) === undefined) throw absent;
    return { row, entry: await this.#deps.gate.enter(context, row.room_id) };
  }

  async #tended<Result>(
    tx: Transaction<MeetingTables>,
    row: MeetingRow,
    work: (held: HeldMeeting) => Promise<Result>,
  ): Promise<Result> {
    const held = await HeldMeeting.open(this.#deps, tx, row);
    await held.settle();
    const result = await work(held);
    await held.schedule();
    return result;
  }

  /** The role of somebody in a room; no access at all is less than any. */
  async #roleOf(tenantId: string, principalId: string, roomId: string): Promise<RoomRole> {
    const row = (await this.#deps.identity.enabled(tenantId, [principalId])).get(principalId);
    if (row === undefined) return "observer";
    const who = { tenantId, principalId, kind: row.kind, role: row.role, ownerId: row.owner_id };
    return (await this.#deps.gate.look(who, roomId))?.role ?? "observer";
  }
}
