// Writes what a reader found in an archive: people, rooms, messages in batches, members last. Repeating it adds nothing.
import { type Clock, iso, nextTurn } from "@/core/clock.ts";
import { type EventDraft, principalStream, roomStream } from "@/core/event.ts";
import { directKeyOf, type MemberRow, presentShared, RoomStore, successionJob } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { AppendixImport } from "./appendices.ts";
import { MessageBatch } from "./batch.ts";
import { Brought, partOf } from "./brought.ts";
import { CalendarImport } from "./calendar_import.ts";
import type { Contents } from "./contents.ts";
import { DocumentImport } from "./documents.ts";
import type { BanDraft, MemberDraft, MessageDraft, PersonDraft, Refs, RoomDraft } from "./draft.ts";
import { FileImport } from "./files.ts";
import { MeetingImport } from "./meeting_import.ts";
import { People } from "./people.ts";
import { idsOf } from "./places.ts";
import { Halted, type Report } from "./report.ts";
import type { Section } from "./section.ts";
import { type ImportRow, TransferRows, TransferStore, type TransferTables } from "./store.ts";
import { TaskImport } from "./task_import.ts";

export const BATCH = 200;
const NAME_MAX = 120;
const TOPIC_MAX = 500;
const DESCRIPTION_MAX = 4000;

type Deps = {
  store: Store<TransferTables>;
  clock: Clock;
  contents: Contents;
  membersMax: number;
  isStopping: () => boolean;
};
type Tx = Transaction<TransferTables>;

/** A room that messages are being put into. */
export type OpenRoom = { id: string; isNew: boolean; movedOn: Set<string> };

export class Importer {
  readonly #deps: Deps;
  readonly #row: ImportRow;
  readonly people: People;
  readonly files: FileImport;
  readonly documents: DocumentImport;
  readonly appendices: AppendixImport;
  readonly report: Report;

  constructor(deps: Deps, row: ImportRow, report: Report) {
    this.#deps = deps;
    this.#row = row;
    this.report = report;
    this.people = new People(row, report);
    this.files = new FileImport(this, deps.contents, row);
    this.documents = new DocumentImport(this, deps.contents.carrier, row);
    this.appendices = new AppendixImport(this, deps.contents.carrier, row.tenant_id);
  }

  /** Parts of an archive of our own that hang on its rooms. */
  sections(refs: Refs): Section[] {
    const { contents } = this.#deps;
    const { tenant_id: tenantId } = this.#row;
    return [
      new TaskImport(this, refs, contents.tasks, tenantId),
      new MeetingImport(this, refs, contents.meetings, tenantId),
      new CalendarImport(this, refs, contents.calendar, tenantId),
    ];
  }

  async putPeople(drafts: readonly PersonDraft[]): Promise<void> {
    for (let at = 0; at < drafts.length; at += BATCH) {
      await this.write((tx) => this.people.put(tx, drafts.slice(at, at + BATCH), this.now));
    }
  }

  /** The room of a draft, made if it is missing; `undefined` when it was deleted here. It has no new members yet. */
  openRoom(draft: RoomDraft): Promise<OpenRoom | undefined> {
    const { tenant_id: tenantId } = this.#row;
    return this.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const directKey = draft.kind === "direct" ? keyOf(draft.directOf) : undefined;
      const direct = directKey === undefined ? undefined : await rooms.byDirectKey(tenantId, directKey);
      if (direct !== undefined) return { id: direct.id, isNew: false, movedOn: new Set() };
      const store = new TransferStore(tx.db);
      const [present] = await store.rooms(tenantId, idsOf(draft.ref));
      if (present !== undefined) {
        if (present.state !== "deleted") return { id: present.id, isNew: false, movedOn: new Set() };
        this.report.skip("room_deleted", `${draft.name} (${present.id})`);
        return undefined;
      }
      const row = await this.#roomRow(tx, draft, directKey ?? null);
      await rooms.add(row);
      await tx.emit({
        tenantId,
        stream: roomStream(row.id),
        type: "room.created",
        data: { room: presentShared(row, "") },
      });
      this.report.added.rooms++;
      return { id: row.id, isNew: true, movedOn: new Set() };
    });
  }

  /** Puts messages of a room, given in their order; those that are there already stay as they are. */
  async putMessages(room: OpenRoom, drafts: readonly MessageDraft[]): Promise<void> {
    for (let at = 0; at < drafts.length; at += BATCH) {
      await this.write((tx) =>
        new MessageBatch(this.#row.tenant_id, room, this)
          .put(tx, drafts.slice(at, at + BATCH))
      );
      // Readers and writers of others get their turn between batches.
      await nextTurn();
    }
  }

  /**
   * Keeps those out of a room who were kept out, as long as it has no members. Once it has, whom they let in is theirs to
   * say: a ban that they lifted does not come back.
   */
  async putBans({ id: roomId }: OpenRoom, drafts: readonly BanDraft[]): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    if (drafts.length === 0) return;
    await this.write(async (tx) => {
      const store = new TransferStore(tx.db);
      const [room] = await store.rooms(tenantId, [roomId]);
      if (room === undefined || room.member_count > 0) return;
      const wanted = [...new Map(drafts.map((draft) => [draft.principalId, draft])).values()];
      const before = await store.banned(tenantId, roomId, wanted.map(({ principalId }) => principalId));
      const fresh = wanted.filter(({ principalId }) => !before.has(principalId));
      await this.people.standIn(tx, fresh.flatMap(({ principalId, createdBy }) => [principalId, createdBy]), this.now);
      const rooms = new RoomStore(tx.db);
      for (const { principalId, reason, createdBy, createdAt } of fresh) {
        const ban = { principal_id: principalId, reason, created_by: createdBy, created_at: createdAt };
        await rooms.addBan({ tenant_id: tenantId, room_id: roomId, ...ban });
      }
      this.report.added.bans += fresh.length;
    });
  }

  /**
   * Lets members in, now that the room's history is there: each hears of the room once, with everything in it read.
   * A room that would be nobody's gets an owner, and nobody comes in who is banned here or has left since they came in, or
   * to those of a direct room.
   */
  async closeRoom(room: OpenRoom, drafts: readonly MemberDraft[]): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    const wanted = [...new Map(drafts.map((draft) => [draft.principalId, draft])).values()];
    await this.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const store = new TransferStore(tx.db);
      // With the line held nobody joins or leaves meanwhile.
      await tx.reserve(tenantId, roomStream(room.id), 0);
      const [row] = await store.rooms(tenantId, [room.id]);
      if (row === undefined || row.state === "deleted") return;
      const present = await store.members(tenantId, room.id);
      const banned = await store.banned(tenantId, room.id, wanted.map((draft) => draft.principalId));
      const before = new Set(present.map((member) => member.principal_id));
      const isComplete = row.kind === "direct" && present.length > 0;
      const free = this.#deps.membersMax - present.length;
      const absent = wanted.filter(({ principalId }) => !before.has(principalId) && !banned.has(principalId));
      const brought = new Brought(tx, tenantId);
      const part = ({ principalId }: MemberDraft) => partOf.member(room.id, principalId);
      const fresh = isComplete ? [] : await brought.fresh(absent, (draft) => [part(draft)]);
      if (fresh.length > free) this.report.skip("too_many_members", row.name, fresh.length - free);
      const admitted = fresh.slice(0, Math.max(0, free));
      await this.people.standIn(tx, admitted.map(({ principalId }) => principalId), this.now);
      const added = row.kind === "direct" ? admitted : await this.#owned(tx, present, admitted);
      if (added.length > 0) await this.#admit(tx, rooms, row, added, present.length);
      await brought.note(added.map(part));
      // Who cannot sign in does not manage a room.
      const owners = added.filter(({ role }) => role === "owner").map(({ principalId }) => principalId);
      const disabled = (await store.principals(tenantId, owners)).filter((one) => one.is_disabled === 1);
      await tx.enqueue(...disabled.map(({ id }) => successionJob(tenantId, id)));
      await this.#tellReaders(tx, room);
      this.report.added.members += added.length;
    });
    room.movedOn.clear();
  }

  /** Notes progress, so that it is seen and a cancel is noticed. */
  async checkpoint(): Promise<void> {
    await this.write(() => Promise.resolve());
  }

  /** Ends the work of a gateway that stops. */
  assertRunning(): void {
    if (this.#deps.isStopping()) throw new Halted("The gateway is stopping");
  }

  /** One transaction that belongs to the running import: it sees whether the import still is, and takes the counts along. */
  async write<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
    const { tenant_id: tenantId, id, version } = this.#row;
    this.assertRunning();
    const standing = this.report.standing();
    const result = await this.#deps.store.write(async (tx) => {
      // The work may run again from its start, and then what it noted before is not so.
      this.report.restore(standing);
      this.people.forget();
      const imports = new TransferRows(tx.db, "transfer_import");
      // Held, so that who cancels it waits for this, and finds all of it.
      const row = await imports.lock(tenantId, id);
      if (row?.version !== version) throw new Halted(`The import is ${row?.state}, or another run's`);
      const result = await work(tx);
      await imports.update(tenantId, id, {
        progress_json: JSON.stringify(this.report.progress()),
        report_json: JSON.stringify(this.report.items()),
      });
      return result;
    });
    this.people.settle();
    return result;
  }

  /** Those who come into a room, among them an owner if it would have none, or none but agents, who manage it for nobody else. */
  async #owned(tx: Tx, present: readonly MemberRow[], added: readonly MemberDraft[]): Promise<readonly MemberDraft[]> {
    const members = [...present.map(({ principal_id, role }) => ({ principalId: principal_id, role })), ...added];
    const ownerIds = members.filter(({ role }) => role === "owner").map(({ principalId }) => principalId);
    await this.people.learn(tx, ownerIds);
    const isAgent = (id: string): boolean => this.people.kindOf(id) === "agent";
    if (ownerIds.some((id) => !isAgent(id))) return added;
    const heir = added.find(({ principalId }) => !isAgent(principalId));
    if (heir !== undefined) return added.map((one) => one === heir ? { ...one, role: "owner" } : one);
    const principalId = this.#row.requested_by;
    if (members.some((one) => one.principalId === principalId)) return added;
    return [...added, { principalId, role: "owner", joinedAt: null }];
  }

  async #roomRow(tx: Tx, draft: RoomDraft, directKey: string | null): Promise<TransferTables["room"]> {
    const { tenant_id: tenantId } = this.#row;
    const { own, derived } = draft.ref;
    const isOwnFree = own !== null &&
      !(await new TransferStore(tx.db).takenElsewhere(tenantId, "room", [own])).has(own);
    const isSlugTaken = draft.slug !== null && await new RoomStore(tx.db).isSlugTaken(tenantId, draft.slug);
    if (isSlugTaken) this.report.skip("slug_taken", `${draft.name}: ${draft.slug}`);
    const at = draft.createdAt ?? this.now;
    const fit = (text: string, max: number, what: string): string =>
      this.report.fit(text, max, `${what}: ${draft.name}`);
    return {
      tenant_id: tenantId,
      id: isOwnFree ? own : derived,
      name: fit(draft.name.trim(), NAME_MAX, "name") || "unnamed",
      slug: isSlugTaken ? null : draft.slug,
      topic: draft.topic === null ? null : fit(draft.topic, TOPIC_MAX, "topic"),
      description: draft.description === null ? null : fit(draft.description, DESCRIPTION_MAX, "description"),
      kind: draft.kind,
      visibility: draft.kind === "direct" ? "private" : draft.visibility,
      history_visibility: draft.historyVisibility,
      state: draft.isArchived ? "archived" : "active",
      agent_policy_json: JSON.stringify(draft.agentPolicy),
      retention_days: draft.retentionDays,
      metadata_json: JSON.stringify(this.report.fitMetadata(draft.metadata, `metadata: ${draft.name}`)),
      member_count: 0,
      direct_key: directKey,
      last_message_at: null,
      active_at: at,
      version: 1,
      created_by: draft.createdBy ?? this.#row.requested_by,
      created_at: at,
      updated_at: at,
      deleted_at: null,
      undo_json: null,
    };
  }

  async #admit(
    tx: Tx,
    rooms: RoomStore,
    row: TransferTables["room"],
    added: readonly MemberDraft[],
    before: number,
  ): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    const store = new TransferStore(tx.db);
    const memberCount = before + added.length;
    const joined = (draft: MemberDraft): EventDraft => ({
      tenantId,
      stream: roomStream(row.id),
      type: "member.joined",
      data: { roomId: row.id, principalId: draft.principalId, role: draft.role, memberCount },
    });
    const members = await Promise.all(added.map(async (draft): Promise<MemberRow> => ({
      tenant_id: tenantId,
      room_id: row.id,
      principal_id: draft.principalId,
      role: draft.role,
      joined_at: draft.joinedAt ?? row.created_at,
      // Positions are new here; when somebody came still tells what came after.
      joined_seq: row.history_visibility === "joined" && draft.joinedAt !== null
        ? await store.positionAt(tenantId, row.id, draft.joinedAt)
        : 0,
      last_read_seq: 0,
      // Here the event of joining says nothing of them.
      told_version: 0,
    })));
    const events = await tx.emit(...added.map(joined));
    const lastReadSeq = events.at(-1)?.seq ?? 0;
    await tx.insertMany("member", members.map((member) => ({ ...member, last_read_seq: lastReadSeq })));
    const room = presentShared({ ...row, member_count: memberCount }, events[0]?.epoch ?? "");
    await tx.emit(...added.map((draft): EventDraft => {
      const event = joined(draft);
      const data = { roomId: row.id, principalId: draft.principalId, role: draft.role, memberCount, room, lastReadSeq };
      return { ...event, stream: principalStream(draft.principalId), data };
    }));
    await rooms.update(tenantId, row.id, { member_count: memberCount });
  }

  /** Members who had read everything have read what came in, too; their devices hear so. */
  async #tellReaders(tx: Tx, room: OpenRoom): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    if (room.movedOn.size === 0) return;
    const { first } = await tx.reserve(tenantId, roomStream(room.id), 0);
    const lastSeq = first - 1;
    const moved = await new TransferStore(tx.db).members(tenantId, room.id);
    await tx.emit(
      ...moved.filter((member) => room.movedOn.has(member.principal_id)).map((member): EventDraft => ({
        tenantId,
        stream: principalStream(member.principal_id),
        type: "read.updated",
        data: {
          roomId: room.id,
          lastReadSeq: Number(member.last_read_seq),
          unreadCount: 0,
          mentionCount: 0,
          lastSeq,
        },
      })),
    );
  }

  /** As many members of an archive's room are kept in mind: were half of them here already, the others would fill it. */
  get membersKept(): number {
    return 2 * this.#deps.membersMax;
  }

  /** The time, as rows have it. */
  get now(): string {
    return iso(this.#deps.clock.now());
  }
}

/** The key that makes a direct room the only one of its people; `undefined` where too few are left for it to be that. */
function keyOf(ids: readonly string[]): string | undefined {
  const people = [...new Set(ids)];
  return people.length < 2 ? undefined : directKeyOf(people);
}
