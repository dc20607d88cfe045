// Writes the lines of an export: principals before they are named, then room by room with members, messages and documents,
// files before the messages that show them.
import { Buffer } from "node:buffer";
import { Fault } from "@/core/fault.ts";
import { byPages } from "@/core/page.ts";
import type { Carried } from "@/modules/document/mod.ts";
import { presentPrincipal } from "@/modules/identity/mod.ts";
import { fileOwner, type MessageRow } from "@/modules/message/mod.ts";
import { RoomStore } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { Brought, type Part, partOf } from "./brought.ts";
import { calendarLines } from "./calendar_export.ts";
import { type Contents, pieces } from "./contents.ts";
import { meetingLines } from "./meeting_export.ts";
import { Halted, noCounts } from "./report.ts";
import { type Counts, LINE_MAX_BYTES } from "./schema.ts";
import { type ExportRow, type FileRow, TransferStore, type TransferTables } from "./store.ts";
import type { Telling } from "./section.ts";
import { taskLines } from "./task_export.ts";

const BATCH = 500;
/** Earlier texts of a message, which are in its line with everything else of it. */
const EDITS_MAX = 1000;
const EDITS_MAX_BYTES = LINE_MAX_BYTES / 2;
/** What is in the line besides those and the reactions comes to less. */
const REST_BYTES = 1024 ** 2;
type Room = TransferTables["room"];

type Deps = { store: Store<TransferTables>; contents: Contents; isStopping: () => boolean };

export class Exporter {
  readonly #database: Store<TransferTables>;
  readonly #store: TransferStore;
  readonly #rooms: RoomStore;
  readonly #contents: Contents;
  readonly #row: ExportRow;
  readonly #isStopping: () => boolean;
  readonly #told = new Set<string>();
  readonly #toldFiles = new Set<string>();
  /** Pictures of principals that were told of, by whose they are. */
  readonly #pictures = new Map<string, string>();
  /** What was told of, leaves no trace when it is gone, and has yet to be written down. */
  #parts: Part[] = [];
  readonly counts: Counts = noCounts();
  bytes = 0;

  constructor({ store, contents, isStopping }: Deps, row: ExportRow) {
    this.#database = store;
    this.#store = new TransferStore(store.db);
    this.#rooms = new RoomStore(store.db);
    this.#contents = contents;
    this.#row = row;
    this.#isStopping = isStopping;
  }

  /** The file, in chunks of some hundred lines. */
  async *content(at: string): AsyncGenerator<Uint8Array> {
    for await (const lines of this.#lines(at)) {
      if (this.#isStopping()) throw new Halted("The gateway is stopping");
      const chunk = new TextEncoder().encode(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      this.bytes += chunk.length;
      yield chunk;
      if (this.#parts.length >= BATCH) await this.#note();
    }
    await this.#note();
  }

  #remember(parts: readonly Part[]): void {
    this.#parts = [...this.#parts, ...parts];
  }

  /** Writes down what was told of, before there is an archive that could bring it back. */
  async #note(): Promise<void> {
    const parts = this.#parts;
    this.#parts = [];
    if (parts.length > 0) await this.#database.write((tx) => new Brought(tx, this.#row.tenant_id).note(parts));
  }

  async *#lines(at: string): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId, kind, room_id: roomId } = this.#row;
    yield [{ type: "export", version: 1, kind, at }];
    if (kind === "tenant") {
      const read = (last?: { id: string }) => this.#store.principalsAfter(tenantId, last?.id ?? "", BATCH);
      for await (const people of byPages(BATCH, read)) yield people.map((person) => this.#person(person));
    }
    if (roomId !== null) {
      for (const room of await this.#store.rooms(tenantId, [roomId])) yield* this.#room(room);
    } else {
      const read = (last?: Room) => this.#store.roomsAfter(tenantId, last?.id ?? "", BATCH);
      for await (const rooms of byPages(BATCH, read)) for (const room of rooms) yield* this.#room(room);
      yield* this.#documents(null);
      yield* calendarLines(this.#contents.calendar, this.#telling, null, false);
    }
    if (this.#row.with_files === 1) yield* this.#picturesTold();
    yield [{ type: "end", counts: this.counts }];
  }

  async *#room(room: Room): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const members = await this.#store.members(tenantId, room.id);
    yield await this.#people([...members.map((member) => member.principal_id), room.created_by]);
    this.counts.rooms++;
    this.counts.members += members.length;
    this.#remember(members.map((member) => partOf.member(room.id, member.principal_id)));
    yield [
      roomLine(room, room.kind === "direct" ? members.map((member) => member.principal_id) : []),
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
      this.#store.messagesAfter(tenantId, room.id, Number(last?.seq ?? this.#row.hidden_up_to), BATCH);
    for await (const messages of byPages(BATCH, read)) yield* this.#messages(messages);
    yield* this.#documents(room.id);
    const isAlone = this.#row.kind === "room";
    yield* taskLines(this.#contents.tasks, this.#telling, room.id, isAlone);
    yield* meetingLines(this.#contents.meetings, this.#telling, room.id);
    // Behind the meetings that they may have.
    yield* calendarLines(this.#contents.calendar, this.#telling, room.id, isAlone);
  }

  /** Who is kept out. */
  async *#bans(roomId: string): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const read = (last?: { principal_id: string }) =>
      this.#rooms.bans(tenantId, roomId, last?.principal_id ?? "", BATCH);
    for await (const bans of byPages(BATCH, read)) {
      yield await this.#people(bans.flatMap((ban) => [ban.principal_id, ban.created_by]));
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

  async *#messages(rows: readonly MessageRow[]): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const ids = rows.map((row) => row.id);
    if (this.#row.with_files === 1) yield* this.#files(rows);
    const reactions = Map.groupBy(await this.#store.reactionsOf(tenantId, ids), (row) => row.message_id);
    yield await this.#people([
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
      const own = fitting(reacted, LINE_MAX_BYTES - REST_BYTES - Buffer.byteLength(JSON.stringify(before)));
      this.counts.messages++;
      this.counts.reactions += own.length;
      this.counts.edits += before.length;
      lines.push(messageLine(row, own, before));
      if (before.length === 0) continue;
      // Its texts may be many, and do not wait for those of others.
      yield lines;
      lines = [];
    }
    yield lines;
  }

  /** What a message said before: the last of it, as far as that fits into its line. */
  async #edits({ tenant_id: tenantId, id }: MessageRow): Promise<unknown[]> {
    const edits = (await this.#store.editsOf(tenantId, id, EDITS_MAX)).map(({ version, text, editor_id, at }) => ({
      version,
      text,
      editorId: editor_id,
      at,
    }));
    return fitting(edits, EDITS_MAX_BYTES).reverse();
  }

  /** Files that these messages show, before them: whoever reads on has them by then. */
  async *#files(rows: readonly MessageRow[]): AsyncGenerator<unknown[]> {
    const showing = rows.filter((row) => row.deleted_at === null && row.files_json !== "[]");
    const shown = await this.#store.filesOf(this.#row.tenant_id, showing.map((row) => fileOwner(row.id)));
    const files = shown.filter(({ id }) => !this.#toldFiles.has(id));
    yield await this.#people(files.map((file) => file.uploader_id));
    for (const file of files) yield* this.#file("file", file);
  }

  /** Pictures, after everybody who is named; only what principals uploaded themselves can be theirs. */
  async *#picturesTold(): AsyncGenerator<unknown[]> {
    const ids = [...this.#pictures.values()];
    for (let at = 0; at < ids.length; at += BATCH) {
      for (const file of await this.#store.files(this.#row.tenant_id, ids.slice(at, at + BATCH))) {
        const isShown = this.#pictures.get(file.uploader_id) === file.id;
        if (isShown && ["linked", "unlinked"].includes(file.state)) yield* this.#file("picture", file);
      }
    }
  }

  /** A file, with its content if that has not been told. */
  async *#file(type: "file" | "picture", file: FileRow): AsyncGenerator<unknown[]> {
    const isTold = this.#toldFiles.has(file.id);
    const content = isTold ? [] : await this.#contents.files.open(file).catch(unlessGone);
    if (content === undefined) return;
    if (!isTold) this.counts.files++;
    this.#toldFiles.add(file.id);
    yield [{ type, ...fileFacts(file) }];
    for await (const line of pieces(file.id, content)) yield [line];
  }

  /** Documents of a room, or private ones (null), each after the one it lies under. */
  async *#documents(roomId: string | null): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const { carrier } = this.#contents;
    for (const id of await carrier.ids(tenantId, roomId)) {
      const carried = await carrier.read(tenantId, id);
      if (carried === undefined || carried.document.roomId !== roomId) continue;
      const { document, readers, text, update, origin } = carried;
      const readerIds = readers.map(({ principalId }) => principalId);
      yield await this.#people([document.createdBy, document.editedBy, ...readerIds, ...origin.principalIds]);
      this.counts.documents++;
      this.#remember([partOf.document(roomId, id)]);
      // A document that comes in begins a generation of its own.
      const { generation: _generation, deletedAt: _deletedAt, ...rest } = document;
      yield [{ type: "document", ...rest, readers, origin, text }];
      for await (const line of pieces(id, [update])) yield [line];
      yield* this.#appendix(carried);
    }
  }

  /** Earlier revisions of a document, the newest first, and its comments, each after the one it replies to. */
  async *#appendix({ document: { id }, revisions, commentIds }: Carried): AsyncGenerator<unknown[]> {
    const { tenant_id: tenantId } = this.#row;
    const { appendix } = this.#contents.carrier;
    for (const number of this.#row.with_revisions === 1 ? revisions : []) {
      const revision = await appendix.revision(tenantId, id, number);
      if (revision === undefined) continue;
      yield await this.#people(revision.principalIds);
      this.counts.revisions++;
      yield [{ type: "revision", documentId: id, ...revision }];
    }
    for (let at = 0; at < commentIds.length; at += BATCH) {
      const comments = await appendix.comments(tenantId, id, commentIds.slice(at, at + BATCH));
      yield await this.#people(
        comments.flatMap(({ authorId, resolvedBy }) => resolvedBy === null ? [authorId] : [authorId, resolvedBy]),
      );
      this.counts.comments += comments.length;
      this.#remember(comments.map((comment) => partOf.comment(id, comment.id)));
      yield comments.map((comment) => ({ type: "comment", documentId: id, ...comment }));
    }
  }

  get #telling(): Telling {
    return {
      tenantId: this.#row.tenant_id,
      people: (ids) => this.#people(ids),
      remember: (parts) => this.#remember(parts),
      counts: this.counts,
    };
  }

  /** Lines of those not told of yet, and of the owners of agents among them. */
  async #people(ids: readonly string[]): Promise<unknown[]> {
    const wanted = [...new Set(ids)].filter((id) => !this.#told.has(id));
    const people = await this.#store.principals(this.#row.tenant_id, wanted);
    const lines = people.map((person) => this.#person(person));
    const owners = people.flatMap(({ owner_id }) => owner_id ?? []);
    return owners.length === 0 ? lines : [...await this.#people(owners), ...lines];
  }

  #person(row: TransferTables["principal"]): unknown {
    this.#told.add(row.id);
    this.counts.principals++;
    if (row.avatar_file_id !== null) this.#pictures.set(row.id, row.avatar_file_id);
    // All that others see of them, but for what means something on this gateway only.
    const { avatarFileId: _avatarFileId, version: _version, updatedAt: _updatedAt, ...person } = presentPrincipal(row);
    return { type: "principal", ...person };
  }
}

/** The first of them, as many as fit into so many bytes of a line. */
function fitting<Item>(items: readonly Item[], bytes: number): Item[] {
  let left = bytes;
  const end = items.findIndex((item) => (left -= Buffer.byteLength(JSON.stringify(item)) + 1) < 0);
  return items.slice(0, end < 0 ? items.length : end);
}

/** A content that went meanwhile is none to be told of. */
function unlessGone(error: unknown): undefined {
  if (error instanceof Fault && error.code === "gone") return undefined;
  throw error;
}

function fileFacts(row: FileRow): Record<string, unknown> {
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

function roomLine(row: Room, memberIds: readonly string[]): unknown {
  return {
    type: "room",
    id: row.id,
    kind: row.kind,
    name: row.name,
    slug: row.slug,
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

function messageLine(row: MessageRow, reactions: unknown[], edits: unknown[]): unknown {
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
    clientMessageId: row.client_message_id,
    pinnedAt: row.pinned_at,
    editedAt: row.edited_at,
    editCount: row.edit_count,
    deletedAt: row.deleted_at,
    version: row.version,
    createdAt: row.created_at,
  };
}
