// Reads our own NDJSON export: principals, rooms, and each room's members and messages in the order of its line, files and
// documents with what follows them.
import type { z } from "@zod/zod";
import { PENDING_MAX_UNITS, type RecordHandler, type SectionImporter } from "@/core/archive/section.ts";
import { ArchiveFault } from "../fault.ts";
import { BATCH, type Importer } from "../import/importer.ts";
import { parseRecord } from "../import/report.ts";
import type { OpenRoom } from "../import/run.ts";
import { RecordCursor } from "./content_records.ts";
import type { JsonValue } from "./json_reader.ts";
import type { RefFactory, SourceBan, SourceMember, SourceMessage } from "./model.ts";
import {
  BanRecord,
  FileRecord,
  HeaderRecord,
  MemberRecord,
  MessageRecord,
  PrincipalRecord,
  RoomRecord,
} from "./native_records.ts";

/** Types of records that belong to no section. */
const OWN_TYPES: ReadonlySet<string> = new Set([
  "principal",
  "room",
  "member",
  "ban",
  "message",
  "file",
  "picture",
  "content",
  "end",
]);

export class NativeReader {
  readonly #importer: Importer;
  readonly #refs: RefFactory;
  /** Sections of other modules, by the types of their records. */
  readonly #handlers = new Map<string, { section: SectionImporter; handler: RecordHandler }>();
  /** The section of the last record of any. */
  #lastSection: SectionImporter | undefined;
  #room:
    | { sourceId: string; open: OpenRoom | undefined; members: Map<string, SourceMember>; bans: SourceBan[] }
    | undefined;
  #pending: SourceMessage[] = [];
  #pendingUnits = 0;

  constructor(importer: Importer) {
    this.#importer = importer;
    this.#refs = importer.refs;
    for (const section of importer.createSections()) {
      for (const [type, handler] of Object.entries(section.records)) {
        if (OWN_TYPES.has(type) || this.#handlers.has(type)) {
          throw new TypeError(`Expected one section with records ${type}, received two`);
        }
        this.#handlers.set(type, { section, handler });
      }
    }
  }

  async read(lines: AsyncIterable<JsonValue>): Promise<void> {
    const ahead = new RecordCursor(lines);
    try {
      await this.#read(ahead);
    } finally {
      await ahead.close();
    }
  }

  async #read(lines: RecordCursor): Promise<void> {
    if (!await hasHeader(lines)) {
      throw new ArchiveFault("unsupported_version", "The first line is not the header of an export of version 1");
    }
    let hasEnd = false;
    for (let line = await lines.next(); line !== undefined; line = await lines.next()) {
      const { value } = line;
      const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
      if (type === "end") hasEnd = true;
      else await this.#dispatch(type, { ...line, value: withPresentNames(value) }, lines);
    }
    await this.#closeRoom();
    await this.#importer.adoptAgents();
    if (!hasEnd) this.#importer.report.skip("archive_truncated", "The last line is not the end of an export");
  }

  async #dispatch(type: unknown, { value, where, units }: JsonValue, lines: RecordCursor): Promise<void> {
    switch (type) {
      case "principal":
        return await this.#withRecord(PrincipalRecord, value, where, (principal) => this.#principal(principal));
      case "room":
        return await this.#withRecord(RoomRecord, value, where, (room) => this.#openRoom(room));
      case "member":
        return await this.#withRecord(MemberRecord, value, where, (member) => this.#member(member, where));
      case "ban":
        return await this.#withRecord(BanRecord, value, where, (ban) => this.#ban(ban, where));
      case "message":
        return await this.#withRecord(MessageRecord, value, where, (message) => this.#message(message, where, units));
      case "file":
        return await this.#withRecord(FileRecord, value, where, (file) => this.#file(file, where, lines));
      case "picture":
        return await this.#withRecord(FileRecord, value, where, (file) => this.#avatar(file, where, lines));
      case "content":
        // A piece that is left is of something left out.
        return;
      default:
        if (!await this.#dispatchToSection(type, value, where, lines)) {
          this.#importer.report.skip("unknown_type", `${where}: ${String(type)}`);
        }
    }
  }

  async #withRecord<Schema extends z.ZodType>(
    schema: Schema,
    value: unknown,
    where: string,
    use: (value: z.output<Schema>) => Promise<void> | void,
  ): Promise<void> {
    const parsed = parseRecord(schema, value, where, this.#importer.report);
    if (parsed !== undefined) await use(parsed);
  }

  /** Passes a record to its section, after all records before it were written; false if there is none. */
  async #dispatchToSection(type: unknown, value: unknown, where: string, lines: RecordCursor): Promise<boolean> {
    const found = typeof type === "string" ? this.#handlers.get(type) : undefined;
    if (typeof type !== "string" || found === undefined) return false;
    const { section, handler } = found;
    await this.#flush();
    if (section !== this.#lastSection) await this.#lastSection?.flush();
    this.#lastSection = section;
    await section.beforeRecord?.(type);
    const room = this.#room && { sourceId: this.#room.sourceId, id: this.#room.open?.id };
    const position = { where, room, content: (of: string) => lines.content(of) };
    const left = await this.#importer.withoutErased(value);
    if (left === undefined) this.#importer.report.skip("principal_erased", where);
    else await this.#withRecord(handler.schema, left, where, (record) => handler.importRecord(record, position));
    return true;
  }

  async #principal({ disabled, ...person }: z.output<typeof PrincipalRecord>): Promise<void> {
    await this.#importer.importPrincipals([{ ...person, isDisabled: disabled }]);
  }

  async #openRoom({ id, state, memberIds, ...room }: z.output<typeof RoomRecord>): Promise<void> {
    await this.#closeRoom();
    const open = await this.#importer.openRoom({
      ...room,
      ref: this.#refs.of("room", id),
      directOf: memberIds,
      isArchived: state === "archived",
    });
    this.#room = { sourceId: id, open, members: new Map(), bans: [] };
  }

  async #ban({ roomId, ...ban }: z.output<typeof BanRecord>, where: string): Promise<void> {
    if (this.#room?.sourceId !== roomId) return this.#importer.report.skip("unknown_room", where);
    this.#room.bans.push(ban);
    if (this.#room.bans.length >= BATCH) await this.#flushBans();
  }

  #member({ roomId, ...member }: z.output<typeof MemberRecord>, where: string): Promise<void> {
    const { report, membersBuffered } = this.#importer;
    if (this.#room?.sourceId !== roomId) report.skip("unknown_room", where);
    else if (this.#room.members.size >= membersBuffered) report.skip("too_many_members", where);
    else this.#room.members.set(member.principalId, member);
    return Promise.resolve();
  }

  async #message(message: z.output<typeof MessageRecord>, where: string, units: number): Promise<void> {
    const { id, roomId, kind, threadId, replyToId, createdAt, ...rest } = message;
    if (this.#room?.sourceId !== roomId) return this.#importer.report.skip("unknown_room", where);
    const ref = (one: string) => this.#refs.of("msg", one);
    this.#pending.push({
      ...rest,
      ref: ref(id),
      where,
      at: createdAt,
      type: kind,
      thread: threadId === null ? null : ref(threadId),
      replyTo: replyToId === null ? null : ref(replyToId),
    });
    this.#pendingUnits += units;
    if (this.#pending.length >= BATCH || this.#pendingUnits >= PENDING_MAX_UNITS) await this.#flush();
  }

  async #file({ id, roomId, ...file }: z.output<typeof FileRecord>, where: string, lines: RecordCursor): Promise<void> {
    const room = this.#room;
    if (room === undefined) return this.#importer.report.skip("unknown_room", where);
    if (room.open === undefined) return;
    const entry = { ...file, ref: this.#refs.file(id), where, isOfRoom: roomId === room.sourceId };
    await this.#importer.files.importFile(entry, room.open.id, lines.content(id));
  }

  /** A file that is the picture of its uploader; no room shows it. */
  async #avatar(
    { id, roomId: _roomId, ...file }: z.output<typeof FileRecord>,
    where: string,
    lines: RecordCursor,
  ): Promise<void> {
    const entry = { ...file, ref: this.#refs.file(id), where, isOfRoom: false };
    const { files } = this.#importer;
    if (!files.hasContent(id)) await files.importFile(entry, "", lines.content(id));
    await files.setAvatar(entry);
  }

  async #flush(): Promise<void> {
    const drafts = this.#pending;
    this.#pending = [];
    this.#pendingUnits = 0;
    if (this.#room?.open !== undefined) await this.#importer.importMessages(this.#room.open, drafts);
  }

  async #flushBans(): Promise<void> {
    if (this.#room === undefined) return;
    const { open, bans } = this.#room;
    this.#room.bans = [];
    if (open !== undefined) await this.#importer.importBans(open, bans);
  }

  async #closeRoom(): Promise<void> {
    await this.#flush();
    await this.#lastSection?.flush();
    this.#lastSection = undefined;
    await this.#flushBans();
    if (this.#room?.open !== undefined) {
      await this.#importer.closeRoom(this.#room.open, [...this.#room.members.values()]);
    }
    this.#room = undefined;
  }
}

/** A record of an earlier version, in which one field had another name, as those of this version. */
function withPresentNames(record: unknown): unknown {
  if (typeof record !== "object" || record === null || !("timezone" in record) || "timeZone" in record) return record;
  const { timezone: timeZone, ...rest } = record;
  return { ...rest, timeZone };
}

/** Whether there is a head; a stream without a line is no export either. */
async function hasHeader(lines: RecordCursor): Promise<boolean> {
  const line = await lines.next();
  if (line === undefined) {
    throw new ArchiveFault("missing_file", "No line is JSON; expected an export as it was downloaded, not compressed");
  }
  return HeaderRecord.safeParse(line.value).success;
}
