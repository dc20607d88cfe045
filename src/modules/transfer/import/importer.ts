// Writes what a reader found in an archive: people, rooms, messages in batches, members last. Repeating it adds nothing.
import type { AnyArchiveSection, SectionImporter } from "@/core/archive/section.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventDraft, principalEvent, principalStream, roomEvent, roomStream } from "@/core/event/event.ts";
import { inChunks } from "@/core/page.ts";
import { adoptAgent, PrincipalArchiveStore } from "@/modules/identity/mod.ts";
import { MessageArchiveStore, type Unread } from "@/modules/message/mod.ts";
import {
  addMembers,
  DEFAULT_MEMBER_SETTINGS,
  directKeyOf,
  type MemberRow,
  newRoomData,
  NO_UNREAD,
  ownershipTransferJob,
  RoomArchiveStore,
  type RoomRow,
  RoomStore,
} from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { Cancelled } from "../fault.ts";
import type { ModuleArchives } from "../format/content_records.ts";
import {
  RefFactory,
  type SourceBan,
  type SourceMember,
  type SourceMessage,
  type SourcePrincipal,
  type SourceRoom,
} from "../format/model.ts";
import { type ImportRow, TransferJobStore, type TransferTables } from "../store.ts";
import { importContext } from "./context.ts";
import { FileImport } from "./files.ts";
import { banWithoutErased, namedIn, recordWithoutErased } from "./erased_people.ts";
import { ImportHistory, partOf } from "./history.ts";
import { MessageBatch } from "./message_batch.ts";
import { ImportedPrincipals } from "./principals.ts";
import type { Report } from "./report.ts";
import { newRoomRow } from "./room_row.ts";
import type { ImportRun, OpenRoom } from "./run.ts";

export const BATCH = 200;

type Deps = {
  store: Store<TransferTables>;
  clock: Clock;
  archives: ModuleArchives;
  sections: readonly AnyArchiveSection[];
  membersMax: number;
  isStopping: () => boolean;
};
type Tx = Transaction<TransferTables>;

export class Importer implements ImportRun {
  readonly #deps: Deps;
  readonly #row: ImportRow;
  readonly principals: ImportedPrincipals;
  readonly files: FileImport;
  readonly report: Report;
  /** Creates references to resources of the archive. */
  readonly refs: RefFactory;
  #recordsSeen = 0;
  /** Whether a person was erased here, some records ago. */
  #isErased: (id: string) => boolean = () => false;

  constructor(deps: Deps, row: ImportRow, report: Report) {
    this.#deps = deps;
    this.#row = row;
    this.report = report;
    this.refs = new RefFactory(row.tenant_id, row.namespace);
    this.principals = new ImportedPrincipals(row, report);
    this.files = new FileImport(this, deps.archives, row);
  }

  /** Importers of the sections of other modules. */
  createSections(): SectionImporter[] {
    return this.#deps.sections.map((section) => section.createImporter(importContext(this, this.#row)));
  }

  async importPrincipals(drafts: readonly SourcePrincipal[]): Promise<void> {
    for (const some of inChunks(drafts, BATCH)) {
      await this.write((tx) => this.principals.importPrincipals(tx, some, this.now));
    }
  }

  /** The room of a draft, created if it is missing; `undefined` if it was deleted here. It has no new members yet. */
  openRoom(draft: SourceRoom): Promise<OpenRoom | undefined> {
    const { tenant_id: tenantId } = this.#row;
    return this.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const directKey = draft.kind === "direct" ? directKeyOrNone(draft.directOf) : undefined;
      const direct = directKey === undefined ? undefined : await rooms.findByDirectKey(tenantId, directKey);
      if (direct !== undefined) return { id: direct.id, isNew: false, advancedReaders: new Set() };
      const [present] = await new RoomArchiveStore(tx.db).rooms(tenantId, candidateIds(draft.ref));
      if (present !== undefined) {
        if (present.state !== "deleted") return { id: present.id, isNew: false, advancedReaders: new Set() };
        this.report.skip("room_deleted", `${present.name} (${present.id})`);
        return undefined;
      }
      const row = await newRoomRow(tx, this, { row: this.#row, draft, directKey: directKey ?? null });
      await rooms.add(row);
      await tx.emit(roomEvent({ tenantId }, row.id, "room.created", newRoomData(row, "")));
      this.report.added.rooms++;
      return { id: row.id, isNew: true, advancedReaders: new Set() };
    });
  }

  /** Imports messages of a room, in their order; existing ones are unchanged. */
  async importMessages(room: OpenRoom, drafts: readonly SourceMessage[]): Promise<void> {
    for (const some of inChunks(drafts, BATCH)) {
      await this.write((tx) => new MessageBatch(this.#row.tenant_id, room, this).importMessages(tx, some));
      // Other readers and writers run between batches.
      await nextSlice();
    }
  }

  /**
   * Imports bans of a room while it has no members. Once it has members, they decide: a ban that they lifted is not imported
   * again.
   */
  async importBans({ id: roomId }: OpenRoom, drafts: readonly SourceBan[]): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    if (drafts.length === 0) return;
    await this.write(async (tx) => {
      const store = new RoomArchiveStore(tx.db);
      const [room] = await store.rooms(tenantId, [roomId]);
      if (room === undefined || room.member_count > 0) return;
      const wanted = [...new Map(drafts.map((draft) => [draft.principalId, draft])).values()];
      const before = await store.banned(tenantId, roomId, wanted.map(({ principalId }) => principalId));
      const peopleOf = (bans: readonly SourceBan[]): string[] =>
        bans.flatMap((ban) => [ban.principalId, ban.createdBy]);
      const erased = await this.principals.erasedAmong(tx, peopleOf(wanted), this.now);
      const fresh = wanted.filter(({ principalId }) => !before.has(principalId))
        .flatMap((ban) => (erased === undefined ? ban : banWithoutErased(ban, erased)) ?? []);
      await this.principals.createPlaceholders(tx, peopleOf(fresh), this.now);
      const rooms = new RoomStore(tx.db);
      for (const { principalId, reason, createdBy, createdAt } of fresh) {
        const ban = { principal_id: principalId, reason, created_by: createdBy, created_at: createdAt };
        await rooms.addBan({ tenant_id: tenantId, room_id: roomId, ...ban });
      }
      this.report.added.bans += fresh.length;
    });
  }

  /**
   * Adds members, after the room's history: each gets one event for the room, with everything in it read. A room without an
   * owner gets one. Not added: those banned here, those who have left since an earlier import or were erased since they joined, and
   * third members of a direct room.
   */
  async closeRoom(room: OpenRoom, drafts: readonly SourceMember[]): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    const wanted = [...new Map(drafts.map((draft) => [draft.principalId, draft])).values()];
    await this.write(async (tx) => {
      const rooms = new RoomStore(tx.db);
      const store = new RoomArchiveStore(tx.db);
      // While the stream is locked, no one joins or leaves.
      await tx.lock(tenantId, roomStream(room.id));
      const [row] = await store.rooms(tenantId, [room.id]);
      if (row === undefined || row.state === "deleted") return;
      const present = await store.members(tenantId, room.id);
      const banned = await store.banned(tenantId, room.id, wanted.map((draft) => draft.principalId));
      const before = new Set(present.map((member) => member.principal_id));
      const isComplete = row.kind === "direct" && present.length > 0;
      const free = this.#deps.membersMax - present.length;
      const absent = await this.#withoutErased(
        tx,
        wanted.filter(({ principalId }) => !before.has(principalId) && !banned.has(principalId)),
        row.name,
      );
      const history = new ImportHistory(tx, tenantId);
      const part = ({ principalId }: SourceMember) => partOf.member(room.id, principalId);
      const fresh = isComplete ? [] : await history.filterNew(absent, (draft) => [part(draft)]);
      if (fresh.length > free) this.report.skip("too_many_members", row.name, fresh.length - free);
      const admitted = fresh.slice(0, Math.max(0, free));
      await this.principals.createPlaceholders(tx, admitted.map(({ principalId }) => principalId), this.now);
      const added = row.kind === "direct" ? admitted : await this.#withOwner(tx, present, admitted);
      if (added.length > 0) await this.#addMembers(tx, rooms, row, added, present.length);
      await history.record(added.map(part));
      // A principal that cannot sign in does not manage a room.
      const owners = added.filter(({ role }) => role === "owner").map(({ principalId }) => principalId);
      const disabled = (await new PrincipalArchiveStore(tx.db).principals(tenantId, owners)).filter((one) =>
        one.is_disabled === 1
      );
      await tx.enqueue(...disabled.map(({ id }) => ownershipTransferJob(tenantId, id)));
      await this.#publishReadPositions(tx, room);
      this.report.added.members += added.length;
    });
    room.advancedReaders.clear();
  }

  /** Who imports the archive owns the agents whose owner is neither in it nor here, or an agent. */
  async adoptAgents(): Promise<void> {
    const { tenant_id: tenantId, requested_by: requestedBy } = this.#row;
    for (const ids of inChunks(this.principals.agentIds, BATCH)) {
      await this.write(async (tx) => {
        for (const id of ids) await adoptAgent(tx, tenantId, id, requestedBy);
      });
    }
  }

  /** A record of a section, see `recordWithoutErased`. */
  async withoutErased(record: unknown): Promise<unknown> {
    const ids = namedIn(record);
    // Each record has an id of its own, and to look it up takes longer than to import it.
    if (this.#recordsSeen++ % BATCH === 0) {
      this.#isErased = await new PrincipalArchiveStore(this.#deps.store.db).recognizeErased(this.#row.tenant_id);
    }
    if (!ids.values().some(this.#isErased)) return record;
    const erased = await this.write((tx) => this.principals.erasedAmong(tx, ids, this.now));
    return erased === undefined ? record : recordWithoutErased(record, erased);
  }

  /** Stores the progress, and throws if the import was cancelled. */
  async checkpoint(): Promise<void> {
    await this.write(() => Promise.resolve());
  }

  /** Throws while the gateway stops. */
  assertRunning(): void {
    if (this.#deps.isStopping()) throw new Cancelled("The gateway is shutting down");
  }

  /** A transaction of the running import: throws if that was cancelled or replaced, and stores the counts with the work. */
  async write<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
    const { tenant_id: tenantId, id, version } = this.#row;
    this.assertRunning();
    const before = this.report.snapshot();
    const result = await this.#deps.store.write(async (tx) => {
      // The work may run again from its start: what it counted before is undone.
      this.report.restore(before);
      this.principals.rollback();
      const imports = new TransferJobStore(tx.db, "transfer_import");
      // Locked, so that a cancellation waits for this write, and sees all of it.
      const row = await imports.lock(tenantId, id);
      if (row?.version !== version) throw new Cancelled(`The import is ${row?.state}, or running elsewhere`);
      const result = await work(tx);
      await imports.update(tenantId, id, {
        progress_json: JSON.stringify(this.report.progress()),
        report_json: JSON.stringify(this.report.items()),
      });
      return result;
    });
    this.principals.commit();
    return result;
  }

  /** A new principal with the id of a person who was erased has nothing of that person. */
  async #withoutErased(tx: Tx, members: readonly SourceMember[], room: string): Promise<readonly SourceMember[]> {
    await this.principals.loadErased(tx, members.map(({ principalId }) => principalId));
    const left = members.filter(({ principalId, joinedAt }) => !this.principals.isErased(principalId, joinedAt));
    if (left.length < members.length) this.report.skip("principal_erased", room, members.length - left.length);
    return left;
  }

  /** The new members, among them a person as owner if the room would have none. */
  async #withOwner(
    tx: Tx,
    present: readonly MemberRow[],
    added: readonly SourceMember[],
  ): Promise<readonly SourceMember[]> {
    const members = [...present.map(({ principal_id, role }) => ({ principalId: principal_id, role })), ...added];
    const ownerIds = members.filter(({ role }) => role === "owner").map(({ principalId }) => principalId);
    await this.principals.load(tx, ownerIds);
    const isAgent = (id: string): boolean => this.principals.kindOf(id) === "agent";
    if (ownerIds.some((id) => !isAgent(id))) return added;
    const { tenant_id: tenantId } = this.#row;
    const candidates = added.filter(({ principalId }) => !isAgent(principalId));
    const rows = await new PrincipalArchiveStore(tx.db).principals(tenantId, candidates.map((one) => one.principalId));
    const able = new Set(
      rows.filter((one) => one.kind === "human" && one.role !== "guest" && one.is_disabled === 0).map(({ id }) => id),
    );
    const nextOwner = candidates.find(({ principalId }) => able.has(principalId)) ?? candidates[0];
    if (nextOwner !== undefined) return added.map((one) => one === nextOwner ? { ...one, role: "owner" } : one);
    const principalId = this.#row.requested_by;
    if (members.some((one) => one.principalId === principalId)) return added;
    return [...added, { principalId, role: "owner", joinedAt: null }];
  }

  async #addMembers(
    tx: Tx,
    rooms: RoomStore,
    row: RoomRow,
    added: readonly SourceMember[],
    before: number,
  ): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    const messages = new MessageArchiveStore(tx.db);
    const memberCount = before + added.length;
    const joined = ({ principalId, role }: SourceMember, more = {}): EventDraft =>
      roomEvent({ tenantId }, row.id, "member.joined", { roomId: row.id, principalId, role, memberCount, ...more });
    const members = await Promise.all(added.map(async (draft): Promise<MemberRow> => ({
      tenant_id: tenantId,
      room_id: row.id,
      principal_id: draft.principalId,
      role: draft.role,
      joined_at: draft.joinedAt ?? row.created_at,
      // Positions are new here; the time of joining still determines which messages came after it.
      joined_seq: row.history_visibility === "joined" && draft.joinedAt !== null
        ? await messages.positionAt(tenantId, row.id, draft.joinedAt)
        : 0,
      last_read_seq: 0,
      // Here the event of joining says nothing of them.
      published_version: 0,
      ...DEFAULT_MEMBER_SETTINGS,
    })));
    const events = await tx.emit(...added.map((draft) => joined(draft)));
    const lastReadSeq = events.at(-1)?.seq ?? 0;
    await addMembers(tx, members.map((member) => ({ ...member, last_read_seq: lastReadSeq })));
    const room = newRoomData({ ...row, member_count: memberCount }, events[0]?.epoch ?? "");
    await tx.emit(...added.map((draft): EventDraft => ({
      ...joined(draft, { ...room, lastReadSeq }),
      stream: principalStream(draft.principalId),
    })));
    await rooms.update(tenantId, row.id, { member_count: memberCount });
  }

  /** Members who had read everything have read the imported messages, too; publishes their new positions. */
  async #publishReadPositions(tx: Tx, room: OpenRoom): Promise<void> {
    const { tenant_id: tenantId } = this.#row;
    if (room.advancedReaders.size === 0) return;
    const moved = await new RoomArchiveStore(tx.db).members(tenantId, room.id);
    await tx.emit(
      ...moved.filter((member) => room.advancedReaders.has(member.principal_id)).map((member): EventDraft => {
        // What was sent since is not counted.
        const lastReadSeq = Number(member.last_read_seq);
        const data: Unread = { roomId: room.id, lastReadSeq, ...NO_UNREAD, badgeCount: 0, lastSeq: lastReadSeq };
        return principalEvent({ tenantId }, member.principal_id, "read.updated", data);
      }),
    );
  }

  /** Members of an archived room in memory: if half of them are members already, the others fill the room. */
  get membersBuffered(): number {
    return 2 * this.#deps.membersMax;
  }

  /** The current time, as rows store it. */
  get now(): string {
    return iso(this.#deps.clock.now());
  }
}

/** The key of the direct room of these people; `undefined` if there are fewer than two. */
function directKeyOrNone(ids: readonly string[]): string | undefined {
  const people = [...new Set(ids)];
  return people.length < 2 ? undefined : directKeyOf(people);
}
