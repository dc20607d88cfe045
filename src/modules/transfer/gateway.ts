// Reads our own NDJSON export: principals, rooms, and each room's members and messages in the order of its line, files and
// documents with what follows them.
import type { z } from "@zod/zod";
import { Lines } from "./contents.ts";
import type { BanDraft, MemberDraft, MessageDraft, Refs } from "./draft.ts";
import {
  BanLine,
  CommentLine,
  DocumentLine,
  FileLine,
  HeadLine,
  MemberLine,
  MessageLine,
  PrincipalLine,
  RevisionLine,
  RoomLine,
} from "./gateway_line.ts";
import { BATCH, type Importer, type OpenRoom } from "./importer.ts";
import type { Line } from "./lines.ts";
import { ArchiveFault } from "./report.ts";
import { readAs, type Section } from "./section.ts";

/** Longer messages do not wait for others. */
const WAITING_MAX_BYTES = 1024 * 1024;

export class GatewayReader {
  readonly #importer: Importer;
  readonly #refs: Refs;
  readonly #sections: readonly Section[];
  /** The part that took the last line of any. */
  #last: Section | undefined;
  #room:
    | { sourceId: string; open: OpenRoom | undefined; members: Map<string, MemberDraft>; bans: BanDraft[] }
    | undefined;
  /** The last document, by the id it has there and, unless it was left out, here. */
  #document: { sourceId: string; id: string | undefined } | undefined;
  #waiting: MessageDraft[] = [];
  #waitingBytes = 0;

  constructor(importer: Importer, refs: Refs) {
    this.#importer = importer;
    this.#refs = refs;
    this.#sections = importer.sections(refs);
  }

  async read(lines: AsyncIterable<Line>): Promise<void> {
    const ahead = new Lines(lines);
    try {
      await this.#read(ahead);
    } finally {
      await ahead.close();
    }
  }

  async #read(lines: Lines): Promise<void> {
    if (!await isHead(lines)) {
      throw new ArchiveFault("unsupported_version", "The first line is not the head of an export of version 1");
    }
    let hasEnd = false;
    for (let line = await lines.next(); line !== undefined; line = await lines.next()) {
      const { value } = line;
      const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
      if (type === "end") hasEnd = true;
      else await this.#take(type, line, lines);
    }
    await this.#leave();
    if (!hasEnd) this.#importer.report.skip("archive_truncated", "The last line is not the end of an export");
  }

  async #take(type: unknown, { number, value, bytes }: Line, lines: Lines): Promise<void> {
    const where = `line ${number}`;
    switch (type) {
      case "principal":
        return await this.#with(PrincipalLine, value, where, (principal) => this.#person(principal));
      case "room":
        return await this.#with(RoomLine, value, where, (room) => this.#enter(room));
      case "member":
        return await this.#with(MemberLine, value, where, (member) => this.#member(member, where));
      case "ban":
        return await this.#with(BanLine, value, where, (ban) => this.#ban(ban, where));
      case "message":
        return await this.#with(MessageLine, value, where, (message) => this.#message(message, where, bytes));
      case "file":
        return await this.#with(FileLine, value, where, (file) => this.#file(file, where, lines));
      case "picture":
        return await this.#with(FileLine, value, where, (file) => this.#picture(file, where, lines));
      case "document":
        return await this.#with(DocumentLine, value, where, (document) => this.#openDocument(document, where, lines));
      case "revision":
        return await this.#with(RevisionLine, value, where, (revision) => this.#revision(revision, where));
      case "comment":
        return await this.#with(CommentLine, value, where, (comment) => this.#comment(comment, where));
      case "content":
        // A piece that is left is of something left out.
        return;
      default:
        if (!await this.#section(type, value, where)) {
          this.#importer.report.skip("unknown_type", `${where}: ${String(type)}`);
        }
    }
  }

  async #with<Schema extends z.ZodType>(
    schema: Schema,
    value: unknown,
    where: string,
    use: (value: z.output<Schema>) => Promise<void>,
  ): Promise<void> {
    const parsed = readAs(schema, value, where, this.#importer.report);
    if (parsed !== undefined) await use(parsed);
  }

  /** Gives a line to the part that takes it, behind all that came before it; false when there is none. */
  async #section(type: unknown, value: unknown, where: string): Promise<boolean> {
    if (typeof type !== "string") return false;
    const section = this.#sections.find(({ types }) => types.includes(type));
    if (section === undefined) return false;
    await this.#flush();
    if (section !== this.#last) await this.#last?.flush();
    this.#last = section;
    await section.take(type, value, where, this.#room);
    return true;
  }

  async #person({ disabled, ...person }: z.output<typeof PrincipalLine>): Promise<void> {
    await this.#importer.putPeople([{ ...person, isDisabled: disabled }]);
  }

  async #enter({ id, state, memberIds, ...room }: z.output<typeof RoomLine>): Promise<void> {
    await this.#leave();
    const open = await this.#importer.openRoom({
      ...room,
      ref: this.#refs.room(id, id),
      directOf: memberIds,
      isArchived: state === "archived",
    });
    this.#room = { sourceId: id, open, members: new Map(), bans: [] };
  }

  async #ban({ roomId, ...ban }: z.output<typeof BanLine>, where: string): Promise<void> {
    if (this.#room?.sourceId !== roomId) return this.#importer.report.skip("unknown_room", where);
    this.#room.bans.push(ban);
    if (this.#room.bans.length >= BATCH) await this.#flushBans();
  }

  #member({ roomId, ...member }: z.output<typeof MemberLine>, where: string): Promise<void> {
    const { report, membersKept } = this.#importer;
    if (this.#room?.sourceId !== roomId) report.skip("unknown_room", where);
    else if (this.#room.members.size >= membersKept) report.skip("too_many_members", where);
    else this.#room.members.set(member.principalId, member);
    return Promise.resolve();
  }

  async #message(message: z.output<typeof MessageLine>, where: string, bytes: number): Promise<void> {
    const { id, roomId, kind, threadId, replyToId, createdAt, ...rest } = message;
    if (this.#room?.sourceId !== roomId) return this.#importer.report.skip("unknown_room", where);
    const ref = (one: string) => this.#refs.message(one, one);
    this.#waiting.push({
      ...rest,
      ref: ref(id),
      where,
      at: createdAt,
      type: kind,
      thread: threadId === null ? null : ref(threadId),
      replyTo: replyToId === null ? null : ref(replyToId),
    });
    this.#waitingBytes += bytes;
    if (this.#waiting.length >= BATCH || this.#waitingBytes >= WAITING_MAX_BYTES) await this.#flush();
  }

  async #file({ id, roomId, ...file }: z.output<typeof FileLine>, where: string, lines: Lines): Promise<void> {
    const room = this.#room;
    if (room === undefined) return this.#importer.report.skip("unknown_room", where);
    if (room.open === undefined) return;
    const entry = { ...file, ref: this.#refs.file(id), where, isOfRoom: roomId === room.sourceId };
    await this.#importer.files.put(entry, room.open.id, lines.content(id));
  }

  /** A file that is the picture of who uploaded it; no room shows it. */
  async #picture(
    { id, roomId: _roomId, ...file }: z.output<typeof FileLine>,
    where: string,
    lines: Lines,
  ): Promise<void> {
    const entry = { ...file, ref: this.#refs.file(id), where, isOfRoom: false };
    const { files } = this.#importer;
    if (!files.hasContent(id)) await files.put(entry, "", lines.content(id));
    await files.showAsPicture(entry);
  }

  async #openDocument(document: z.output<typeof DocumentLine>, where: string, lines: Lines): Promise<void> {
    const { id, roomId, parentId, ...rest } = document;
    this.#document = { sourceId: id, id: undefined };
    if (roomId !== null && this.#room?.sourceId !== roomId) {
      return this.#importer.report.skip("unknown_room", where);
    }
    const open = roomId === null ? null : this.#room?.open;
    if (open === undefined) return;
    await this.#flush();
    const parent = parentId === null ? null : this.#refs.document(parentId);
    const entry = { ...rest, ref: this.#refs.document(id), where, parent };
    this.#document.id = await this.#importer.documents.put(entry, open?.id ?? null, lines.content(id));
  }

  async #revision({ documentId, ...revision }: z.output<typeof RevisionLine>, where: string): Promise<void> {
    const id = this.#documentHere(documentId, where);
    if (id !== undefined) await this.#importer.appendices.revision(id, { ...revision, where });
  }

  async #comment(comment: z.output<typeof CommentLine>, where: string): Promise<void> {
    const { documentId, id: sourceId, parentId, ...rest } = comment;
    const id = this.#documentHere(documentId, where);
    if (id === undefined) return;
    const ref = (one: string) => this.#refs.comment(documentId, one);
    const parent = parentId === null ? null : ref(parentId);
    await this.#importer.appendices.comment(id, { ...rest, ref: ref(sourceId), where, parent });
  }

  /** The document that something is of, by its id here; it comes right after it. */
  #documentHere(sourceId: string, where: string): string | undefined {
    if (this.#document?.sourceId !== sourceId) this.#importer.report.skip("unknown_document", where);
    else return this.#document.id;
    return undefined;
  }

  async #flush(): Promise<void> {
    const drafts = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (this.#room?.open !== undefined) await this.#importer.putMessages(this.#room.open, drafts);
  }

  async #flushBans(): Promise<void> {
    if (this.#room === undefined) return;
    const { open, bans } = this.#room;
    this.#room.bans = [];
    if (open !== undefined) await this.#importer.putBans(open, bans);
  }

  async #leave(): Promise<void> {
    await this.#flush();
    await this.#importer.appendices.flush();
    await this.#last?.flush();
    this.#last = undefined;
    await this.#flushBans();
    if (this.#room?.open !== undefined) {
      await this.#importer.closeRoom(this.#room.open, [...this.#room.members.values()]);
    }
    this.#room = undefined;
  }
}

/** Whether there is a head; a stream without a line is no export either. */
async function isHead(lines: Lines): Promise<boolean> {
  const line = await lines.next();
  if (line === undefined) throw new ArchiveFault("missing_file", "The export is empty");
  return HeadLine.safeParse(line.value).success;
}
