// Meetings: started now or for later, listed, read, changed and ended.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { checkVersion } from "@/core/patch.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { type Entry, type RoomGate, RoomStore } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type HeldMeeting, NOT_BEGUN } from "./held.ts";
import type { MeetingKeeper } from "./keeper.ts";
import { isPresent, presentMeeting, recordingOf } from "./presenter.ts";
import { requireModerator, roleIn } from "./rights.ts";
import { type Meeting, type MeetingList, type MeetingStart, type MeetingUpdate, RELAY_MAX, SFU_MAX } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow, MeetingTables, ParticipantRow } from "./tables.ts";

const PURGE_BATCH = 100;

type Deps = {
  store: Store<MeetingTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  identity: IdentityService;
  keeper: MeetingKeeper;
  hasSfu: boolean;
};

export class MeetingService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  start(context: Context, { scheduledFor, maxParticipants, ...input }: MeetingStart): Promise<Meeting> {
    const { actor } = context;
    const { clock, gate, keeper } = this.#deps;
    const mostParticipants = this.#deps.hasSfu ? SFU_MAX : RELAY_MAX;
    if ((maxParticipants ?? 0) > mostParticipants) {
      throw new Fault("validation_failed", `/maxParticipants: at most ${mostParticipants} without a media server`);
    }
    return keeper.write(async (tx) => {
      const entry = await gate.enter(context, input.roomId, "member");
      if (actor.kind === "agent") throw new Fault("forbidden", "Agents take part in meetings, people start them");
      const now = clock.now();
      const row: MeetingRow = {
        ...NOT_BEGUN,
        tenant_id: actor.tenantId,
        id: newId("mtg"),
        room_id: input.roomId,
        title: input.title ?? null,
        kind: input.kind,
        host_id: actor.principalId,
        scheduled_for: scheduledFor === undefined ? null : inFuture(scheduledFor, now),
        max_participants: maxParticipants ?? mostParticipants,
        is_lobby: input.lobby ? 1 : 0,
        agent_ids_json: JSON.stringify(input.agentIds),
        created_by: actor.principalId,
        created_at: iso(now),
        updated_at: iso(now),
      };
      await new MeetingStore(tx.db).add(row);
      const held = await keeper.adopt(tx, row, async (held) => {
        if (scheduledFor === undefined) await this.begin(held, actor, entry);
        else await held.emit("meeting.updated", actor);
      });
      // The room is held by now: a removal that came before is seen, and one to come waits for this.
      await gate.enter(context, input.roomId, "member");
      return held.present();
    });
  }

  /** A meeting begins; a call in a direct room rings the others, who know of one that was scheduled. */
  async begin(held: HeldMeeting, actor: Actor, { room }: Entry): Promise<void> {
    const { store, identity } = this.#deps;
    await this.#refuseSecond(actor.tenantId, room.id);
    if (room.kind !== "direct" || held.row.scheduled_for !== null) return await held.begin(actor, undefined);
    const memberIds = await new RoomStore(store.db).memberIds(actor.tenantId, room.id);
    const people = (await identity.enabled(actor.tenantId, memberIds)).values();
    const others = [...people].filter((person) => person.kind !== "agent" && person.id !== actor.principalId);
    await held.begin(actor, others.map((person) => person.id));
  }

  async list(context: Context, { limit, cursor, ...filter }: MeetingList): Promise<Page<Meeting>> {
    const { actor } = context;
    const { store, cursors, gate } = this.#deps;
    if (filter.roomId !== undefined) await gate.enter(context, filter.roomId, "observer");
    const bind = ["meeting.list", actor.tenantId, actor.principalId, filter];
    const before = cursors.open(cursor, bind)?.[0]?.toString();
    const meetings = new MeetingStore(store.db);
    const rows = await meetings.list(
      actor.tenantId,
      { principalId: actor.principalId, ownerId: actor.ownerId ?? "", isOwned: actor.ownerId !== null },
      filter,
      before,
      limit + 1,
    );
    const people = Map.groupBy(
      await meetings.liveIn(actor.tenantId, rows.map((row) => row.id)),
      (person) => person.meeting_id,
    );
    const page = cursors.page(rows, limit, bind, (row) => [row.id], (row) => row);
    return { ...page, items: await Promise.all(page.items.map((row) => this.#present(row, people.get(row.id) ?? []))) };
  }

  async read(context: Context, id: string): Promise<Meeting> {
    const { row } = await this.#deps.keeper.find(context, id);
    return await this.#present(row, await new MeetingStore(this.#deps.store.db).live(row.tenant_id, row.id));
  }

  /** Changes a meeting; for its host and moderators. */
  update(context: Context, { id, version, scheduledFor, agentIds, ...input }: MeetingUpdate): Promise<Meeting> {
    const { actor } = context;
    return this.#deps.keeper.holdOpen(context, id, async (held, entry) => {
      requireModerator(roleIn(actor, held.row, entry, held.people), "Changing a meeting");
      checkVersion("meeting", held.row.version, version);
      if (agentIds !== undefined && actor.kind === "agent") {
        throw new Fault("forbidden", "/agentIds: agents do not let in agents");
      }
      if (scheduledFor !== undefined && held.row.state !== "scheduled") {
        throw new Fault("conflict", "/scheduledFor: the meeting has begun");
      }
      await held.save({
        ...(input.title === undefined ? {} : { title: input.title }),
        ...(input.locked === undefined ? {} : { is_locked: input.locked ? 1 : 0 }),
        ...(input.lobby === undefined ? {} : { is_lobby: input.lobby ? 1 : 0 }),
        ...(agentIds === undefined ? {} : { agent_ids_json: JSON.stringify(agentIds) }),
        ...(scheduledFor === undefined ? {} : { scheduled_for: inFuture(scheduledFor, held.now) }),
      });
      await held.emit("meeting.updated", actor);
      for (const person of held.people.filter((one) => isUngranted(one, agentIds))) {
        await held.part(person, "removed", actor);
      }
      return held.present();
    });
  }

  /** Ends a meeting for everybody; the one who is called may decline a ringing call of two. */
  end(context: Context, id: string): Promise<Meeting> {
    const { actor } = context;
    return this.#deps.keeper.holdOpen(context, id, async (held, entry) => {
      const { row } = held;
      const rung: string[] = JSON.parse(row.ring_ids_json ?? "[]");
      const isDeclined = row.state === "ringing" && rung.length === 1 && rung[0] === actor.principalId;
      if (!isDeclined) requireModerator(roleIn(actor, row, entry, held.people), "Ending a meeting");
      await held.end(isDeclined ? "declined" : row.state === "active" ? "ended" : "cancelled", actor);
      return held.present();
    });
  }

  /** Removes the meetings of a purged room, batch by batch. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    for (let ids = [""]; ids.length > 0;) {
      ids = await this.#deps.store.write(async (tx) => {
        const meetings = new MeetingStore(tx.db);
        const found = await meetings.idsIn(tenantId, roomId, PURGE_BATCH);
        await meetings.purge(tenantId, found);
        return found;
      });
    }
  }

  /** A room has one meeting at a time; one that time has ended already does not count. */
  async #refuseSecond(tenantId: string, roomId: string): Promise<void> {
    const meetings = new MeetingStore(this.#deps.store.db);
    const before = await meetings.openIn(tenantId, roomId);
    if (before === undefined) return;
    await this.#deps.keeper.tend(tenantId, before.id);
    const open = await meetings.openIn(tenantId, roomId);
    if (open !== undefined) throw new Fault("meeting_active", `The room has the meeting ${open.id} already; join it`);
  }

  async #present(row: MeetingRow, people: readonly ParticipantRow[]): Promise<Meeting> {
    const { store, clock } = this.#deps;
    const recording = recordingOf(row);
    const consented = recording === null
      ? []
      : await new MeetingStore(store.db).consented(row.tenant_id, row.id, recording.id);
    return presentMeeting(row, people.filter((person) => isPresent(person, clock.now())), consented);
  }
}

function inFuture(time: string, now: number): string {
  if (Date.parse(time) <= now) throw new Fault("validation_failed", "/scheduledFor: must be in the future");
  return iso(Date.parse(time));
}

function isUngranted(person: ParticipantRow, agentIds: readonly string[] | undefined): boolean {
  return agentIds !== undefined && person.principal_kind === "agent" && !agentIds.includes(person.principal_id);
}
