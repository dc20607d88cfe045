// Writes the lines of an export: principals before they are named, then room by room with members, messages and documents,
// files before the messages that show them.
import { Buffer } from "node:buffer";
import type { AnyArchiveSection, ExportContext, ImportedPart } from "@/core/archive/section.ts";
import { createYielder, nextSlice } from "@/core/caller.ts";
import { isFault } from "@/core/fault.ts";
import { inChunks, paginate } from "@/core/page.ts";
import { FileArchiveStore, type FileRow } from "@/modules/file/mod.ts";
import { presentPrincipal, PrincipalArchiveStore, type PrincipalRow } from "@/modules/identity/mod.ts";
import { fileOwner, MessageArchiveStore, type MessageRow } from "@/modules/message/mod.ts";
import { RoomArchiveStore, type RoomRow, RoomStore, slugOf } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { Cancelled } from "../fault.ts";
import { ImportHistory, partOf } from "../import/history.ts";
import { contentRecords, type ModuleArchives } from "../format/content_records.ts";
import { LINE_MAX_BYTES } from "../format/json_items.ts";
import { type Counts, LINE_REACTIONS_MAX, zeroCounts } from "../schema.ts";
import type { ExportRow, TransferTables } from "../store.ts";
import { type OwnDataDeps, OwnDataReader } from "./own_data.ts";

const BATCH = 500;
/** Earlier texts of a message; they are part of its record. */
const EDITS_MAX = 1000;
const EDITS_MAX_BYTES = LINE_MAX_BYTES / 2;
/** Upper bound of the rest of a record, without edits and reactions. */
const REST_BYTES = 1024 ** 2;

type Deps = OwnDataDeps & {
  archives: ModuleArchives;
  sections: readonly AnyArchiveSection[];
  isStopping: () => boolean;
};

export class Exporter {
  readonly #database: Store<TransferTables>;
  readonly #principals: PrincipalArchiveStore;
  readonly #rooms: RoomArchiveStore;
  readonly #messages: MessageArchiveStore;
  readonly #files: FileArchiveStore;
  readonly #archives: ModuleArchives;
  readonly #sections: readonly AnyArchiveSection[];
  readonly #row: ExportRow;
  readonly #isStopping: () => boolean;
  readonly #ownData: OwnDataReader;
  readonly #exportedPrincipals = new Set<string>();
  readonly #exportedFiles = new Set<string>();
  /** Avatars of exported principals, by principal id. */
  readonly #avatars = new Map<string, string>();
  /** Exported records that leave no trace when deleted, not yet added to the history. */
  #pendingParts: ImportedPart[] = [];
  readonly counts: Counts;
  bytes = 0;

  constructor(deps: Deps, row: ExportRow) {
    const { store, archives, sections, isStopping } = deps;
    this.#database = store;
    this.#principals = new PrincipalArchiveStore(store.db);
    this.#rooms = new RoomArchiveStore(store.db);
    this.#messages = new MessageArchiveStore(store.db);
    this.#files = new FileArchiveStore(store.db);
    this.#archives = archives;
    this.#sections = sections;
    this.#row = row;
    this.counts = zeroCounts(sections);
    this.#isStopping = isStopping;
    this.#ownData = new OwnDataReader(deps, row);
  }

  /** The file, in chunks of some hundred lines. */
  async *content(at: string): AsyncGenerator<Uint8Array> {
    const yieldIfDue = createYielder();
    for await (const lines of this.#records(at)) {
      if (this.#isStopping()) throw new Cancelled("The gateway is shutting down");
      const chunk = new TextEncoder().encode(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      this.bytes += chunk.length;
      yield chunk;
      if (this.#pendingParts.length >= BATCH) await this.#saveHistory();
      // Several chunks fit into the buffer of a file.
      await yieldIfDue();
    }
    await this.#saveHistory();
  }

  #recordExported(parts: readonly ImportedPart[]): void {
    this.#pendingParts = [...this.#pendingParts, ...parts];
  }

  /** Records in the history what was exported, before there is an archive that could restore it after its deletion. */
  async #saveHistory(): Promise<void> {
    const parts = this.#pendingParts;
    this.#pendingParts = [];
    if (parts.length > 0) await this.#database.write((tx) => new ImportHistory(tx, this.#row.tenant_id).record(parts));
  }

  async *#records(at: string): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId, kind, room_id: roomId } = this.#row;
    yield [{ type: "export", version: 1, kind, at }];
    if (kind === "principal") yield* this.#ownRecords();
    if (kind === "tenant") {
      const read = (last?: { id: string }) => this.#principals.principalsAfter(tenantId, last?.id ?? "", BATCH);
      for await (const people of paginate(BATCH, read)) yield people.map((person) => this.#principalRecord(person));
    }
    if (roomId !== null) {
      for (const room of await this.#rooms.rooms(tenantId, [roomId])) yield* this.#room(room);
    } else if (kind === "tenant") {
      const read = (last?: RoomRow) => this.#rooms.roomsAfter(tenantId, last?.id ?? "", BATCH);
      for await (const rooms of paginate(BATCH, read)) for (const room of rooms) yield* this.#room(room);
      for (const section of this.#sections) yield* section.exportPersonal?.(this.#context) ?? [];
    }
    if (this.#row.with_files === 1) yield* this.#avatarFiles();
    yield [{ type: "end", counts: this.counts }];
  }

  /** What there is of the person who asked for it. */
  async *#ownRecords(): AsyncGenerator<unknown[]> {
    for await (const items of this.#ownData.items()) {
      const withContent = this.#row.with_files === 1 ? items.filter(({ type }) => type === "file") : [];
      const ids = withContent.map(({ id }) => String(id));
      for (const file of await this.#files.files(this.#row.tenant_id, ids)) yield* this.#file("file", file);
      const others = items.filter((item) => !withContent.includes(item));
      this.#countByType(others);
      yield others;
    }
    for (const section of this.#sections) {
      const { tenant_id: tenantId, requested_by: principalId } = this.#row;
      for await (const items of section.exportOwn?.(tenantId, principalId) ?? []) {
        this.#countByType(items);
        yield items;
        await nextSlice();
      }
    }
    const recordOf = async (row: MessageRow) => messageRecord(row, [], row.version > 1 ? await this.#edits(row) : []);
    for await (const items of this.#ownData.messages(recordOf)) {
      this.#countByType(items);
      yield items;
    }
  }

  /** Those that have a count. */
  #countByType(items: readonly { type?: unknown }[]): void {
    for (const { type } of items) {
      const name = `${type}s`;
      if (name in this.counts) this.counts[name] = (this.counts[name] ?? 0) + 1;
    }
  }

  async *#room(room: RoomRow): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const members = await this.#rooms.members(tenantId, room.id);
    yield await this.#principalRecords([...members.map((member) => member.principal_id), room.created_by]);
    this.counts.rooms++;
    this.counts.members += members.length;
    this.#recordExported(members.map((member) => partOf.member(room.id, member.principal_id)));
    yield [
      roomRecord(room, room.kind === "direct" ? members.map((member) => member.principal_id) : []),
      ...members.map((member) => ({
        type: "member",
        roomId: room.id,
        principalId: member.principal_id,
        role: member.role,
        joinedAt: member.joined_at,
      })),
    ];
    yield* this.#bans(room.id);
    const read = (last?: MessageRow) =>
      this.#messages.messagesAfter(tenantId, room.id, Number(last?.seq ?? this.#row.hidden_up_to), BATCH);
    for await (const messages of paginate(BATCH, read)) yield* this.#messageLines(messages);
    for (const section of this.#sections) yield* section.exportRoom?.(this.#context, room.id) ?? [];
  }

  async *#bans(roomId: string): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const read = (last?: { principal_id: string }) =>
      new RoomStore(this.#database.db).bans(tenantId, roomId, last?.principal_id ?? "", BATCH);
    for await (const bans of paginate(BATCH, read)) {
      yield await this.#principalRecords(bans.flatMap((ban) => [ban.principal_id, ban.created_by]));
      this.counts.bans += bans.length;
      yield bans.map((ban) => ({
        type: "ban",
        roomId,
        principalId: ban.principal_id,
        reason: ban.reason,
        createdBy: ban.created_by,
        createdAt: ban.created_at,
      }));
    }
  }

  async *#messageLines(rows: readonly MessageRow[]): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const ids = rows.map((row) => row.id);
    const showing = rows.filter((row) => row.deleted_at === null && row.files_json !== "[]");
    yield* this.#fileLines(showing.map((row) => fileOwner(row.id)));
    const reactions = Map.groupBy(await this.#messages.reactionsOf(tenantId, ids), (row) => row.message_id);
    yield await this.#principalRecords([
      ...rows.map((row) => row.sender_id),
      ...[...reactions.values()].flat().map((row) => row.principal_id),
      ...rows.flatMap((row): string[] => JSON.parse(row.mentions_json).principalIds),
    ]);
    let lines: unknown[] = [];
    for (const row of rows) {
      const before = row.version > 1 ? await this.#edits(row) : [];
      const reacted = (reactions.get(row.id) ?? []).map(({ key, principal_id, created_at }) => ({
        key,
        principalId: principal_id,
        at: created_at,
      }));
      const own = limitBytes(
        reacted.slice(0, LINE_REACTIONS_MAX),
        LINE_MAX_BYTES - REST_BYTES - Buffer.byteLength(JSON.stringify(before)),
      );
      this.counts.messages++;
      this.counts.reactions += own.length;
      this.counts.edits += before.length;
      lines.push(messageRecord(row, own, before));
      if (before.length === 0) continue;
      // Its texts may be many, and do not wait for those of others.
      yield lines;
      lines = [];
    }
    yield lines;
  }

  /** The newest earlier texts of a message, as many as fit into its record. */
  async #edits({ tenant_id: tenantId, id }: MessageRow): Promise<unknown[]> {
    const edits = (await this.#messages.editsOf(tenantId, id, EDITS_MAX)).map(({ version, text, editor_id, at }) => ({
      version,
      text,
      editorId: editor_id,
      at,
    }));
    return limitBytes(edits, EDITS_MAX_BYTES).reverse();
  }

  /** Files that these owners show, written before them, so that an import has them in time. */
  async *#fileLines(owners: readonly string[]): AsyncGenerator<unknown[]> {
    if (this.#row.with_files !== 1) return;
    const shown = await this.#files.filesOf(this.#row.tenant_id, owners);
    const files = shown.filter(({ id }) => !this.#exportedFiles.has(id));
    yield await this.#principalRecords(files.map((file) => file.uploader_id));
    for (const file of files) yield* this.#file("file", file);
  }

  /** Pictures of the principals, after their records. A picture is always uploaded by its principal. */
  async *#avatarFiles(): AsyncGenerator<unknown[]> {
    for (const ids of inChunks([...this.#avatars.values()], BATCH)) {
      for (const file of await this.#files.files(this.#row.tenant_id, ids)) {
        const isShown = this.#avatars.get(file.uploader_id) === file.id;
        if (isShown && ["linked", "unlinked"].includes(file.state)) yield* this.#file("picture", file);
      }
    }
  }

  /** A file, with its content unless that is already exported. */
  async *#file(type: "file" | "picture", file: FileRow): AsyncGenerator<unknown[]> {
    const isExported = this.#exportedFiles.has(file.id);
    const content = isExported ? [] : await this.#archives.files.open(file).catch(ignoreDeleted);
    if (content === undefined) return;
    if (!isExported) this.counts.files++;
    this.#exportedFiles.add(file.id);
    try {
      yield [{ type, ...fileFields(file) }];
      for await (const line of contentRecords(file.id, content)) yield [line];
    } finally {
      // An export may end before the content is read.
      if (content instanceof ReadableStream) await content.cancel();
    }
  }

  get #context(): ExportContext {
    return {
      tenantId: this.#row.tenant_id,
      requestedBy: this.#row.requested_by,
      isRoomOnly: this.#row.kind === "room",
      hiddenUpTo: Number(this.#row.hidden_up_to),
      withRevisions: this.#row.with_revisions === 1,
      principalRecords: (ids) => this.#principalRecords(ids),
      recordExported: (parts) => this.#recordExported(parts),
      contentRecords,
      fileRecords: (...owners) => this.#fileLines(owners),
      count: (name, items) => {
        this.counts[name] = (this.counts[name] ?? 0) + items;
      },
    };
  }

  /** Records of principals not exported yet, and of the owners of agents among them. */
  async #principalRecords(ids: readonly string[]): Promise<unknown[]> {
    const wanted = [...new Set(ids)].filter((id) => !this.#exportedPrincipals.has(id));
    const people = await this.#principals.principals(this.#row.tenant_id, wanted);
    const lines = people.map((person) => this.#principalRecord(person));
    const owners = people.flatMap(({ owner_id }) => owner_id ?? []);
    return owners.length === 0 ? lines : [...await this.#principalRecords(owners), ...lines];
  }

  #principalRecord(row: PrincipalRow): unknown {
    this.#exportedPrincipals.add(row.id);
    this.counts.principals++;
    if (row.avatar_file_id !== null) this.#avatars.set(row.id, row.avatar_file_id);
    // All that others see of them, but for what means something on this gateway, or at this moment, only.
    const { avatarFileId: _file, version: _version, updatedAt: _at, status: _status, ...person } = presentPrincipal(
      row,
      0,
    );
    return { type: "principal", ...person };
  }
}

/** The first items, as many as fit into so many bytes. */
function limitBytes<Item>(items: readonly Item[], bytes: number): Item[] {
  let left = bytes;
  const end = items.findIndex((item) => (left -= Buffer.byteLength(JSON.stringify(item)) + 1) < 0);
  return items.slice(0, end < 0 ? items.length : end);
}

/** A content that was deleted meanwhile is not exported. */
function ignoreDeleted(error: unknown): undefined {
  if (isFault(error, "gone")) return undefined;
  throw error;
}

function fileFields(row: FileRow): Record<string, unknown> {
  return {
    id: row.id,
    name: row.name,
    contentType: row.content_type,
    size: Number(row.size),
    sha256: row.sha256,
    uploaderId: row.uploader_id,
    roomId: row.room_id,
    createdAt: row.created_at,
  };
}

function roomRecord(row: RoomRow, memberIds: readonly string[]): unknown {
  return {
    type: "room",
    id: row.id,
    kind: row.kind,
    name: row.name,
    slug: slugOf(row),
    topic: row.topic,
    description: row.description,
    visibility: row.visibility,
    historyVisibility: row.history_visibility,
    state: row.state,
    agentPolicy: JSON.parse(row.agent_policy_json),
    retentionDays: row.retention_days,
    metadata: JSON.parse(row.metadata_json),
    createdBy: row.created_by,
    createdAt: row.created_at,
    memberIds,
  };
}

function messageRecord(row: MessageRow, reactions: unknown[], edits: unknown[]): Record<string, unknown> {
  return {
    type: "message",
    id: row.id,
    roomId: row.room_id,
    senderId: row.sender_id,
    kind: row.type,
    text: row.text,
    format: row.format,
    threadId: row.thread_id,
    replyToId: row.reply_to_id,
    mentions: JSON.parse(row.mentions_json),
    files: JSON.parse(row.files_json),
    reactions,
    edits,
    metadata: JSON.parse(row.metadata_json),
    ...row.elements_json === null ? {} : { elements: JSON.parse(row.elements_json) },
    clientMessageId: row.client_message_id,
    pinnedAt: row.pinned_at,
    editedAt: row.edited_at,
    editCount: row.edit_count,
    deletedAt: row.deleted_at,
    version: row.version,
    createdAt: row.created_at,
  };
}
