// A meeting locked for a change: its row, its participants and its recording, and what follows from each change.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { type EventActor, type EventDraft, principalStream, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { principalChanged } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { Transaction } from "@/ports/store.ts";
import {
  meetingEventData,
  presentMeeting,
  presentParticipant,
  recordingOf,
  type StoredRecording,
} from "./presenter.ts";
import type { Meeting } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingRow, MeetingTables, ParticipantRow } from "./tables.ts";

const RING_MS = 90_000;
/** After this, a meeting that nobody joined ends. */
const UNJOINED_TIMEOUT_MS = 300_000;
/** After this, a meeting that everybody left ends. */
const EMPTY_TIMEOUT_MS = 30_000;
/** How long after its time a scheduled meeting can still start. */
export const MISSED_MS = DAY_MS;

/** Columns of every meeting before it starts. */
export const INITIAL_STATE = {
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

/** Columns of every participant who has left. */
const LEFT = { state: "left", hand_raised_at: null } as const satisfies Partial<ParticipantRow>;

export type LockedMeetingDeps = {
  clock: Clock;
  leaseMs: number;
  /** Whether a media server has to follow changes of participants. */
  hasSfu: boolean;
  notify: Notify;
};

/** Locked until the transaction ends. Counts in events are of the participants in memory. */
export class LockedMeeting {
  readonly tx: Transaction<MeetingTables>;
  readonly store: MeetingStore;
  readonly now: number;
  row: MeetingRow;
  participants: ParticipantRow[];
  consentedIds: string[] = [];
  readonly #deps: LockedMeetingDeps;

  private constructor(
    deps: LockedMeetingDeps,
    tx: Transaction<MeetingTables>,
    row: MeetingRow,
    participants: ParticipantRow[],
  ) {
    this.#deps = deps;
    this.tx = tx;
    this.store = new MeetingStore(tx.db);
    this.now = deps.clock.now();
    this.row = row;
    this.participants = participants;
  }

  /** Loads a meeting whose row the transaction has locked or just created. */
  static async open(deps: LockedMeetingDeps, tx: Transaction<MeetingTables>, row: MeetingRow): Promise<LockedMeeting> {
    const store = new MeetingStore(tx.db);
    const meeting = new LockedMeeting(deps, tx, row, await store.currentParticipants(row.tenant_id, row.id));
    const recording = recordingOf(row);
    if (recording !== null) meeting.consentedIds = await store.consentedIds(row.tenant_id, row.id, recording.id);
    return meeting;
  }

  get joined(): ParticipantRow[] {
    return this.participants.filter((participant) => participant.state === "joined");
  }

  /** Time of a hand raised now: after all that are raised, also if clocks of nodes differ and within one millisecond. */
  get handTime(): string {
    const latest = Math.max(...this.participants.map(({ hand_raised_at: at }) => at === null ? 0 : Date.parse(at)));
    return iso(Math.max(this.now, latest + 1));
  }

  /** When a lease granted now expires. */
  get leaseEnd(): string {
    return iso(this.now + this.#deps.leaseMs);
  }

  /** Counts participants who have not left in memory, so that leases that expired together still end one by one. */
  present(): Meeting {
    return presentMeeting(this.row, this.participants, this.consentedIds);
  }

  async save(set: Partial<MeetingRow>): Promise<void> {
    const changed = { ...set, version: this.row.version + 1, updated_at: iso(this.now) };
    await this.store.update(this.row.tenant_id, this.row.id, changed);
    this.row = { ...this.row, ...changed };
  }

  /** Publishes to the room, whose stream is locked from then on; with `toRinging` also to ringing principals who are still members. */
  async emit(
    type: string,
    actor: EventActor | undefined,
    data: Record<string, unknown> = {},
    toRinging = false,
  ): Promise<void> {
    const { tenant_id: tenantId, room_id: roomId } = this.row;
    const draft: EventDraft = {
      tenantId,
      stream: roomStream(roomId),
      type,
      data: { ...meetingEventData(this.present()), ...data },
      actor,
    };
    await this.tx.emit(draft);
    if (!toRinging) return;
    await this.tx.emit(...(await this.#ringingMembers()).map((id) => ({ ...draft, stream: principalStream(id) })));
  }

  /** Starts the meeting; with `ringIds` it rings for these principals until one of them joins. */
  async start(actor: EventActor, ringIds: readonly string[] | undefined): Promise<void> {
    const opensAt = Math.max(this.now, this.row.scheduled_for === null ? 0 : Date.parse(this.row.scheduled_for));
    const expiresAt = iso(this.now + RING_MS);
    await this.save({
      state: ringIds === undefined ? "active" : "ringing",
      is_open: 1,
      started_at: iso(this.now),
      close_at: iso(opensAt + UNJOINED_TIMEOUT_MS),
      ...(ringIds === undefined ? {} : { ring_ids_json: JSON.stringify(ringIds), ring_expires_at: expiresAt }),
    });
    const ring = ringIds === undefined ? null : { callerId: actor.principalId, expiresAt };
    await this.emit("meeting.started", actor, { ring }, true);
  }

  async addParticipant(participant: ParticipantRow, actor: EventActor): Promise<void> {
    await this.store.addParticipant(participant);
    this.participants.push(participant);
    if (this.row.close_at !== null) await this.save({ close_at: null });
    if (participant.state === "joined") await this.#onJoined(participant, actor);
    else await this.emit("meeting.updated", actor, { participant: presentParticipant(participant) });
  }

  async updateParticipant(participant: ParticipantRow, set: Partial<ParticipantRow>): Promise<ParticipantRow> {
    await this.store.updateParticipant(participant.tenant_id, participant.id, set);
    // Revalidates the subscriptions of a principal who left, which ends their signaling.
    if (set.state === "left") this.tx.signal(principalChanged.create(participant.tenant_id, participant.principal_id));
    const changed = { ...participant, ...set };
    this.participants = this.participants.map((one) => one.id === participant.id ? changed : one)
      .filter((one) => one.state !== "left");
    return changed;
  }

  /** Admits a participant from the lobby. */
  async admit(participant: ParticipantRow, actor: EventActor): Promise<ParticipantRow> {
    const admitted = await this.updateParticipant(participant, { state: "joined", joined_at: iso(this.now) });
    await this.#onJoined(admitted, actor);
    return admitted;
  }

  /** Ends a participation, once. */
  async leave(
    before: ParticipantRow,
    reason: Exclude<ParticipantRow["left_reason"], null | "ended">,
    actor?: EventActor,
  ): Promise<void> {
    const after = await this.updateParticipant(before, { ...LEFT, left_at: iso(this.now), left_reason: reason });
    const participant = presentParticipant(after);
    if (this.participants.length === 0) await this.#scheduleClose();
    if (before.state === "waiting") return await this.emit("meeting.updated", actor, { participant });
    await this.emit("meeting.participant_left", actor, { participant, reason });
    if (this.#deps.hasSfu) await this.enqueueSfu({ action: "remove", participantId: before.id });
    await this.updateRecording();
  }

  /** Ends the meeting for everybody. */
  async end(reason: Exclude<MeetingRow["end_reason"], null>, actor?: EventActor): Promise<void> {
    const wasRinging = this.row.state === "ringing";
    const wasOpen = this.row.is_open === 1;
    const left = { ...LEFT, left_at: iso(this.now), left_reason: "ended" } as const;
    for (const participant of [...this.participants]) await this.updateParticipant(participant, left);
    await this.stopRecording();
    await this.save({ state: "ended", is_open: 0, close_at: null, ended_at: iso(this.now), end_reason: reason });
    await this.emit("meeting.ended", actor, { reason }, wasRinging);
    if (reason === "unanswered") await this.#notifyMissed();
    if (this.#deps.hasSfu && wasOpen) await this.enqueueSfu({ action: "close" });
  }

  /** Ends what has expired: leases, unanswered calls, a meeting without participants. */
  async applyTimeouts(): Promise<void> {
    const now = iso(this.now);
    for (const participant of [...this.participants]) {
      if (participant.lease_expires_at <= now) await this.leave(participant, "expired");
    }
    const { state, ring_expires_at: ringEnd, close_at: closeAt, scheduled_for: scheduledFor } = this.row;
    if (state === "ringing" && ringEnd !== null && ringEnd <= now) await this.end("unanswered");
    else if (this.row.is_open === 1 && closeAt !== null && closeAt <= now) await this.end("empty");
    else if (state === "scheduled" && Date.parse(scheduledFor ?? now) + MISSED_MS <= this.now) await this.end("missed");
  }

  /** Enqueues the job for the next expiry. */
  async scheduleUpkeep(): Promise<void> {
    const { state, tenant_id: tenantId, id: meetingId } = this.row;
    if (state === "ended") return;
    const times = [
      ...this.participants.map((participant) => Date.parse(participant.lease_expires_at)),
      ...[state === "ringing" ? this.row.ring_expires_at : null, this.row.close_at]
        .flatMap((at) => at === null ? [] : [Date.parse(at)]),
      ...(state === "scheduled" ? [Date.parse(this.row.scheduled_for ?? iso(this.now)) + MISSED_MS] : []),
    ];
    if (times.length === 0) return;
    await this.tx.enqueue({
      tenantId,
      kind: "meeting.upkeep",
      payload: { meetingId },
      key: meetingId,
      runAt: Math.min(...times),
    });
  }

  /** Enqueues a request to the media server. */
  async enqueueSfu(request: { action: "remove" | "mute"; participantId: string } | { action: "close" }): Promise<void> {
    const { tenant_id: tenantId, id: meetingId } = this.row;
    await this.tx.enqueue({ tenantId, kind: "meeting.sfu", payload: { meetingId, ...request } });
  }

  /** The recording that runs or was requested. */
  get openRecording(): StoredRecording | undefined {
    const recording = recordingOf(this.row);
    const isOpen = recording !== null && ["requested", "starting", "recording"].includes(recording.state);
    return isOpen ? recording : undefined;
  }

  /** Throws if the principal would join a running recording without having consented to it. */
  assertConsent(principalId: string): void {
    const recording = this.openRecording;
    if (recording === undefined || recording.state === "requested" || this.consentedIds.includes(principalId)) return;
    throw new Fault(
      "conflict",
      "The participant has not consented to the recording; joining with recordingConsent: true does",
    );
  }

  /** Stores the consent of a participant; the last one starts the recording. */
  async giveConsent(recording: StoredRecording, actor: EventActor): Promise<void> {
    if (this.consentedIds.includes(actor.principalId)) return;
    await this.addConsent(recording, actor.principalId);
    await this.emit("meeting.recording_changed", actor);
    await this.updateRecording();
  }

  async addConsent({ id: recording_id }: StoredRecording, principal_id: string): Promise<void> {
    if (this.consentedIds.includes(principal_id)) return;
    const { tenant_id, id: meeting_id } = this.row;
    const given_at = iso(this.now);
    await this.store.addConsent({ tenant_id, meeting_id, recording_id, principal_id, given_at });
    this.consentedIds.push(principal_id);
  }

  /** Starts a recording that all participants have consented to; stops one without participants. */
  async updateRecording(): Promise<void> {
    const recording = this.openRecording;
    if (recording === undefined) return;
    if (this.joined.length === 0) return await this.stopRecording();
    if (recording.state !== "requested") return;
    if (!this.joined.every(({ principal_id: id }) => this.consentedIds.includes(id))) return;
    await this.saveRecording({ ...recording, state: "starting" });
    await this.#enqueueRecorder("start", recording.id);
  }

  /** Stops a recording, or withdraws the request for it. */
  async stopRecording(): Promise<void> {
    const recording = this.openRecording;
    if (recording === undefined) return;
    if (recording.state === "requested") {
      return await this.saveRecording({ ...recording, state: "stopped", endedAt: iso(this.now) });
    }
    await this.saveRecording({ ...recording, state: "stopping", endedAt: null });
    await this.#enqueueRecorder("stop", recording.id);
  }

  async saveRecording(recording: StoredRecording): Promise<void> {
    await this.save({ recording_json: JSON.stringify(recording) });
    await this.emit("meeting.recording_changed", undefined);
  }

  async #enqueueRecorder(action: "start" | "stop", recordingId: string): Promise<void> {
    const { tenant_id: tenantId, id: meetingId } = this.row;
    // One key for both actions: a later request replaces one that is still waiting.
    await this.tx.enqueue({
      tenantId,
      kind: "meeting.record",
      payload: { meetingId, recordingId, action },
      key: meetingId,
    });
  }

  async #onJoined(participant: ParticipantRow, actor: EventActor): Promise<void> {
    const isAnswer = this.row.state === "ringing" && this.#ringingIds().includes(participant.principal_id);
    if (isAnswer) await this.save({ state: "active", ring_expires_at: null });
    await this.emit("meeting.participant_joined", actor, { participant: presentParticipant(participant) }, isAnswer);
    await this.updateRecording();
  }

  /** A scheduled meeting that was joined early does not close before its time. */
  async #scheduleClose(): Promise<void> {
    const { scheduled_for: scheduledFor } = this.row;
    const opensAt = scheduledFor === null ? 0 : Date.parse(scheduledFor) + UNJOINED_TIMEOUT_MS;
    await this.save({ close_at: iso(Math.max(this.now + EMPTY_TIMEOUT_MS, opensAt)) });
  }

  #ringingIds(): string[] {
    return this.row.ring_ids_json === null ? [] : JSON.parse(this.row.ring_ids_json);
  }

  /** Without those who have left the room or were removed from it. */
  async #ringingMembers(): Promise<string[]> {
    const memberIds = new Set(await new RoomStore(this.tx.db).memberIds(this.row.tenant_id, this.row.room_id));
    return this.#ringingIds().filter((id) => memberIds.has(id));
  }

  async #notifyMissed(): Promise<void> {
    const { tenant_id: tenantId, id, room_id: roomId, title, created_by: callerId } = this.row;
    await this.#deps.notify({
      tenantId,
      principalIds: await this.#ringingMembers(),
      kind: "missed_call",
      roomId,
      resource: { type: "meeting", id },
      ...(title === null ? {} : { title }),
      data: { callerId },
    });
  }
}
