// A meeting held for a change: its row, everybody in it, and what follows from each coming and going.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import { presentMeeting, presentParticipant, recordingOf } from "./presenter.ts";
import { settleRecording, stopRecording } from "./consent.ts";
import type { Meeting } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow, MeetingTables, ParticipantRow } from "./tables.ts";

const RING_MS = 90_000;
/** A meeting nobody came to. */
const UNJOINED_MS = 300_000;
/** A meeting everybody has left. */
const DESERTED_MS = 30_000;
/** A scheduled meeting that never began is kept this long after its time. */
export const MISSED_MS = 86_400_000;

/** What every meeting is like before it begins. */
export const NOT_BEGUN = {
  state: "scheduled",
  is_open: 0,
  is_locked: 0,
  ring_ids_json: null,
  ring_expires_at: null,
  close_at: null,
  recording_json: null,
  started_at: null,
  ended_at: null,
  end_reason: null,
  version: 1,
} as const satisfies Partial<MeetingRow>;

/** What everybody is like who is not in a meeting any more. */
const GONE = { state: "left", hand_raised_at: null } as const satisfies Partial<ParticipantRow>;

type Who = Pick<Actor, "principalId" | "kind">;

export type HeldDeps = {
  clock: Clock;
  leaseMs: number;
  /** Media goes through a server, which must be told who has to go. */
  hasSfu: boolean;
  notify: Notify;
};

/** Nobody else changes the meeting until the transaction ends. All counts in events are of what is held here. */
export class HeldMeeting {
  readonly tx: Transaction<MeetingTables>;
  readonly meetings: MeetingStore;
  readonly now: number;
  row: MeetingRow;
  people: ParticipantRow[];
  consentedIds: string[] = [];
  readonly #deps: HeldDeps;

  private constructor(deps: HeldDeps, tx: Transaction<MeetingTables>, row: MeetingRow, people: ParticipantRow[]) {
    this.#deps = deps;
    this.tx = tx;
    this.meetings = new MeetingStore(tx.db);
    this.now = deps.clock.now();
    this.row = row;
    this.people = people;
  }

  /** Takes hold of a meeting whose row the transaction has locked or just made. */
  static async open(deps: HeldDeps, tx: Transaction<MeetingTables>, row: MeetingRow): Promise<HeldMeeting> {
    const meetings = new MeetingStore(tx.db);
    const held = new HeldMeeting(deps, tx, row, await meetings.live(row.tenant_id, row.id));
    const recording = recordingOf(row);
    if (recording !== null) held.consentedIds = await meetings.consented(row.tenant_id, row.id, recording.id);
    return held;
  }

  get joined(): ParticipantRow[] {
    return this.people.filter((person) => person.state === "joined");
  }

  /** When a hand goes up that goes up now: after all that are up, also on nodes whose clocks differ and within a millisecond. */
  get handTime(): string {
    const latest = Math.max(...this.people.map(({ hand_raised_at: at }) => at === null ? 0 : Date.parse(at)));
    return iso(Math.max(this.now, latest + 1));
  }

  /** When a lease given now runs out. */
  get leaseEnd(): string {
    return iso(this.now + this.#deps.leaseMs);
  }

  /** Counts are of who has not left here, so that several who vanished together still go one by one. */
  present(): Meeting {
    return presentMeeting(this.row, this.people, this.consentedIds);
  }

  async save(set: Partial<MeetingRow>): Promise<void> {
    const changed = { ...set, version: this.row.version + 1, updated_at: iso(this.now) };
    await this.meetings.update(this.row.tenant_id, this.row.id, changed);
    this.row = { ...this.row, ...changed };
  }

  /** Tells the room, which it holds from then on; and those who are rung, as far as they are in it still, when `isForRung`. */
  async emit(
    type: string,
    actor: Who | undefined,
    data: Record<string, unknown> = {},
    isForRung = false,
  ): Promise<void> {
    const { tenant_id: tenantId, room_id: roomId } = this.row;
    const draft: EventDraft = {
      tenantId,
      stream: roomStream(roomId),
      type,
      data: { meeting: this.present(), ...data },
      ...(actor === undefined ? {} : { actor }),
    };
    await this.tx.emit(draft);
    if (!isForRung) return;
    await this.tx.emit(...(await this.#rungMembers()).map((id) => ({ ...draft, stream: principalStream(id) })));
  }

  /** The meeting begins; with `ringIds` it rings at these principals until somebody answers. */
  async begin(actor: Who, ringIds: readonly string[] | undefined): Promise<void> {
    const opensAt = Math.max(this.now, this.row.scheduled_for === null ? 0 : Date.parse(this.row.scheduled_for));
    const expiresAt = iso(this.now + RING_MS);
    await this.save({
      state: ringIds === undefined ? "active" : "ringing",
      is_open: 1,
      started_at: iso(this.now),
      close_at: iso(opensAt + UNJOINED_MS),
      ...(ringIds === undefined ? {} : { ring_ids_json: JSON.stringify(ringIds), ring_expires_at: expiresAt }),
    });
    const ring = ringIds === undefined ? null : { callerId: actor.principalId, expiresAt };
    await this.emit("meeting.started", actor, { ring }, true);
  }

  async add(person: ParticipantRow, actor: Who): Promise<void> {
    await this.meetings.addParticipant(person);
    this.people.push(person);
    if (this.row.close_at !== null) await this.save({ close_at: null });
    if (person.state === "joined") await this.#entered(person, actor);
    else await this.emit("meeting.updated", actor, { participant: presentParticipant(person) });
  }

  async change(person: ParticipantRow, set: Partial<ParticipantRow>): Promise<ParticipantRow> {
    await this.meetings.updateParticipant(person.tenant_id, person.id, set);
    // Who is out of it is not signalled to any more: subscriptions are looked at again.
    if (set.state === "left") {
      this.tx.signal({ kind: "principal", tenantId: person.tenant_id, id: person.principal_id });
    }
    const changed = { ...person, ...set };
    this.people = this.people.map((one) => one.id === person.id ? changed : one)
      .filter((one) => one.state !== "left");
    return changed;
  }

  /** Lets somebody in from the lobby. */
  async admit(person: ParticipantRow, actor: Who): Promise<ParticipantRow> {
    const admitted = await this.change(person, { state: "joined", joined_at: iso(this.now) });
    await this.#entered(admitted, actor);
    return admitted;
  }

  /** Ends somebody's participation, once. */
  async part(
    person: ParticipantRow,
    reason: Exclude<ParticipantRow["left_reason"], null | "ended">,
    actor?: Who,
  ): Promise<void> {
    const gone = await this.change(person, { ...GONE, left_at: iso(this.now), left_reason: reason });
    const participant = presentParticipant(gone);
    if (this.people.length === 0) await this.#desert();
    if (person.state === "waiting") return await this.emit("meeting.updated", actor, { participant });
    await this.emit("meeting.participant_left", actor, { participant, reason });
    if (this.#deps.hasSfu) await this.enqueueSfu({ action: "remove", participantId: person.id });
    await settleRecording(this);
  }

  /** Ends the meeting for everybody. */
  async end(reason: Exclude<MeetingRow["end_reason"], null>, actor?: Who): Promise<void> {
    const wasRinging = this.row.state === "ringing";
    const wasOpen = this.row.is_open === 1;
    const left = { ...GONE, left_at: iso(this.now), left_reason: "ended" } as const;
    for (const person of [...this.people]) await this.change(person, left);
    await stopRecording(this);
    await this.save({ state: "ended", is_open: 0, close_at: null, ended_at: iso(this.now), end_reason: reason });
    await this.emit("meeting.ended", actor, { reason }, wasRinging);
    if (reason === "unanswered") await this.#tellMissed();
    if (this.#deps.hasSfu && wasOpen) await this.enqueueSfu({ action: "close" });
  }

  /** Does what time has brought about: leases that ran out, a ring nobody answered, a meeting nobody is in. */
  async settle(): Promise<void> {
    const now = iso(this.now);
    for (const person of [...this.people]) if (person.lease_expires_at <= now) await this.part(person, "expired");
    const { state, ring_expires_at: ringEnd, close_at: closeAt, scheduled_for: scheduledFor } = this.row;
    if (state === "ringing" && ringEnd !== null && ringEnd <= now) await this.end("unanswered");
    else if (this.row.is_open === 1 && closeAt !== null && closeAt <= now) await this.end("empty");
    else if (state === "scheduled" && Date.parse(scheduledFor ?? now) + MISSED_MS <= this.now) await this.end("missed");
  }

  /** Promises to look again when time next brings something about. */
  async schedule(): Promise<void> {
    const { state, tenant_id: tenantId, id: meetingId } = this.row;
    if (state === "ended") return;
    const times = [
      ...this.people.map((person) => Date.parse(person.lease_expires_at)),
      ...[state === "ringing" ? this.row.ring_expires_at : null, this.row.close_at]
        .flatMap((at) => at === null ? [] : [Date.parse(at)]),
      ...(state === "scheduled" ? [Date.parse(this.row.scheduled_for ?? iso(this.now)) + MISSED_MS] : []),
    ];
    if (times.length === 0) return;
    await this.tx.enqueue({
      tenantId,
      kind: "meeting.tend",
      payload: { meetingId },
      key: meetingId,
      runAt: Math.min(...times),
    });
  }

  /** Has the media server follow, outside of the transaction. */
  async enqueueSfu(order: { action: "remove" | "mute"; participantId: string } | { action: "close" }): Promise<void> {
    const { tenant_id: tenantId, id: meetingId } = this.row;
    await this.tx.enqueue({ tenantId, kind: "meeting.sfu", payload: { meetingId, ...order } });
  }

  async #entered(person: ParticipantRow, actor: Who): Promise<void> {
    const isAnswer = this.row.state === "ringing" && this.#rungIds().includes(person.principal_id);
    if (isAnswer) await this.save({ state: "active", ring_expires_at: null });
    await this.emit("meeting.participant_joined", actor, { participant: presentParticipant(person) }, isAnswer);
    await settleRecording(this);
  }

  /** A scheduled meeting that people came to early is still there at its time. */
  async #desert(): Promise<void> {
    const { scheduled_for: scheduledFor } = this.row;
    const opensAt = scheduledFor === null ? 0 : Date.parse(scheduledFor) + UNJOINED_MS;
    await this.save({ close_at: iso(Math.max(this.now + DESERTED_MS, opensAt)) });
  }

  #rungIds(): string[] {
    return this.row.ring_ids_json === null ? [] : JSON.parse(this.row.ring_ids_json);
  }

  /** Who has left the room since, or was put out, is not told what goes on there. */
  async #rungMembers(): Promise<string[]> {
    const memberIds = new Set(await new RoomStore(this.tx.db).memberIds(this.row.tenant_id, this.row.room_id));
    return this.#rungIds().filter((id) => memberIds.has(id));
  }

  async #tellMissed(): Promise<void> {
    const { tenant_id: tenantId, id, room_id: roomId, title, created_by: callerId } = this.row;
    await this.#deps.notify({
      tenantId,
      principalIds: await this.#rungMembers(),
      kind: "missed_call",
      roomId,
      resource: { type: "meeting", id },
      ...(title === null ? {} : { title }),
      data: { callerId },
    });
  }
}
