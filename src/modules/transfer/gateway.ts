// Reads our own NDJSON export: principals, rooms, and each room's members and messages in the order of its line, files and
// documents with what follows them.
import { z } from "@zod/zod";
import { PRINCIPAL_KINDS, ROOM_ROLES, TENANT_ROLES } from "@/core/actor.ts";
import { Json } from "@/core/json.ts";
import { ACCESS_ROLES, DOCUMENT_STATES, DocumentId } from "@/modules/document/mod.ts";
import { FileId } from "@/modules/file/mod.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { Mentions, MESSAGE_TYPES, MessageFile, MessageId } from "@/modules/message/mod.ts";
import { AgentPolicy, RoomId } from "@/modules/room/mod.ts";
import { Lines } from "./contents.ts";
import type { MemberDraft, MessageDraft, Refs } from "./draft.ts";
import { BATCH, type Importer, type OpenRoom } from "./importer.ts";
import type { Line } from "./lines.ts";
import { ArchiveFault } from "./report.ts";

const Time = z.iso.datetime();
const Reacted = z.object({ key: z.string(), principalId: PrincipalId, at: Time });
const Edited = z.object({ version: z.int().min(1), text: z.string().nullable(), editorId: PrincipalId, at: Time });

const Head = z.object({ type: z.literal("export"), version: z.literal(1) });
const Person = z.object({
  id: PrincipalId,
  kind: z.enum(PRINCIPAL_KINDS),
  handle: z.string().nullable(),
  displayName: z.string(),
  role: z.enum(TENANT_ROLES),
  ownerId: PrincipalId.nullable(),
  externalId: z.string().max(200).nullable(),
  timezone: z.string().max(64).nullable(),
  locale: z.string().max(35).nullable(),
  disabled: z.boolean(),
  createdAt: Time,
});
const Place = z.object({
  id: RoomId,
  kind: z.enum(["channel", "direct", "task", "meeting"]),
  name: z.string(),
  slug: z.string().max(64).nullable(),
  topic: z.string().max(2000).nullable(),
  description: z.string().max(16_000).nullable(),
  visibility: z.enum(["public", "private"]),
  historyVisibility: z.enum(["shared", "joined"]),
  state: z.enum(["active", "archived"]),
  agentPolicy: AgentPolicy,
  retentionDays: z.int().nullable(),
  metadata: z.record(z.string(), Json),
  createdBy: PrincipalId,
  createdAt: Time,
  memberIds: z.array(PrincipalId).max(8).default([]).describe("Of direct rooms"),
});
const Joined = z.object({ roomId: RoomId, principalId: PrincipalId, role: z.enum(ROOM_ROLES), joinedAt: Time });
const Said = z.object({
  id: MessageId,
  roomId: RoomId,
  senderId: PrincipalId,
  kind: z.enum(MESSAGE_TYPES),
  text: z.string().nullable(),
  format: z.enum(["markdown", "plain"]),
  threadId: MessageId.nullable(),
  replyToId: MessageId.nullable(),
  mentions: Mentions,
  files: z.array(MessageFile),
  reactions: z.array(Reacted),
  edits: z.array(Edited),
  metadata: z.record(z.string(), Json),
  clientMessageId: z.string().max(128).nullable(),
  pinnedAt: Time.nullable(),
  editedAt: Time.nullable(),
  editCount: z.int().min(0),
  deletedAt: Time.nullable(),
  version: z.int().min(1),
  createdAt: Time,
});

const Page = z.object({
  id: DocumentId,
  roomId: RoomId.nullable(),
  parentId: DocumentId.nullable(),
  title: z.string(),
  state: z.enum(DOCUMENT_STATES),
  locked: z.boolean(),
  revision: z.int().min(1),
  metadata: z.record(z.string(), Json),
  version: z.int().min(1),
  createdBy: PrincipalId,
  createdAt: Time,
  updatedAt: Time,
  editedBy: PrincipalId,
  editedAt: Time,
  readers: z.array(z.object({ principalId: PrincipalId, role: z.enum(ACCESS_ROLES) })),
});
const Attached = z.object({
  id: FileId,
  name: z.string(),
  contentType: z.string(),
  size: z.int().min(0),
  sha256: z.string(),
  uploaderId: PrincipalId,
  roomId: RoomId.nullable(),
  createdAt: Time,
});

export class GatewayReader {
  readonly #importer: Importer;
  readonly #refs: Refs;
  #room: { sourceId: string; open: OpenRoom | undefined; members: MemberDraft[] } | undefined;
  #waiting: MessageDraft[] = [];

  constructor(importer: Importer, refs: Refs) {
    this.#importer = importer;
    this.#refs = refs;
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
    const { report } = this.#importer;
    if (!await isHead(lines)) {
      throw new ArchiveFault("unsupported_version", "The first line is not the head of an export of version 1");
    }
    let hasEnd = false;
    for (let line = await lines.next(); line !== undefined; line = await lines.next()) {
      const { number, value } = line;
      const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
      const where = `line ${number}`;
      if (type === "principal") await this.#with(Person, value, where, (person) => this.#person(person));
      else if (type === "room") await this.#with(Place, value, where, (room) => this.#enter(room));
      else if (type === "member") await this.#with(Joined, value, where, (member) => this.#member(member, where));
      else if (type === "message") await this.#with(Said, value, where, (said) => this.#message(said, where));
      else if (type === "file") await this.#with(Attached, value, where, (file) => this.#file(file, where, lines));
      else if (type === "document") await this.#with(Page, value, where, (page) => this.#document(page, where, lines));
      else if (type === "end") hasEnd = true;
      // Pieces that are left are of something left out.
      else if (type !== "content") report.skip("unknown_type", `${where}: ${String(type)}`);
    }
    await this.#leave();
    if (!hasEnd) report.skip("archive_truncated", "The last line is not the end of an export");
  }

  async #with<Schema extends z.ZodType>(
    schema: Schema,
    value: unknown,
    where: string,
    use: (value: z.output<Schema>) => Promise<void>,
  ): Promise<void> {
    const parsed = schema.safeParse(value);
    if (parsed.success) return await use(parsed.data);
    const [issue] = parsed.error.issues;
    this.#importer.report.skip("invalid_record", `${where}: ${issue?.path.join("/") ?? ""} ${issue?.message ?? ""}`);
  }

  async #person({ disabled, ...person }: z.output<typeof Person>): Promise<void> {
    await this.#importer.putPeople([{ ...person, isDisabled: disabled }]);
  }

  async #enter({ id, state, memberIds, ...room }: z.output<typeof Place>): Promise<void> {
    await this.#leave();
    const open = await this.#importer.openRoom({
      ...room,
      ref: this.#refs.room(id, id),
      directOf: memberIds,
      isArchived: state === "archived",
    });
    this.#room = { sourceId: id, open, members: [] };
  }

  #member({ roomId, ...member }: z.output<typeof Joined>, where: string): Promise<void> {
    if (this.#room?.sourceId === roomId) this.#room.members.push(member);
    else this.#importer.report.skip("unknown_room", where);
    return Promise.resolve();
  }

  async #message(said: z.output<typeof Said>, where: string): Promise<void> {
    const { id, roomId, kind, threadId, replyToId, createdAt, ...rest } = said;
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
    if (this.#waiting.length >= BATCH) await this.#flush();
  }

  async #file({ id, roomId, ...file }: z.output<typeof Attached>, where: string, lines: Lines): Promise<void> {
    const room = this.#room;
    if (room === undefined) return this.#importer.report.skip("unknown_room", where);
    if (room.open === undefined) return;
    const entry = { ...file, ref: this.#refs.file(id), where, isOfRoom: roomId === room.sourceId };
    await this.#importer.files.put(entry, room.open.id, lines.content(id));
  }

  async #document(page: z.output<typeof Page>, where: string, lines: Lines): Promise<void> {
    const { id, roomId, parentId, ...rest } = page;
    if (roomId !== null && this.#room?.sourceId !== roomId) {
      return this.#importer.report.skip("unknown_room", where);
    }
    const open = roomId === null ? null : this.#room?.open;
    if (open === undefined) return;
    await this.#flush();
    const parent = parentId === null ? null : this.#refs.document(parentId);
    const entry = { ...rest, ref: this.#refs.document(id), where, parent };
    await this.#importer.documents.put(entry, open?.id ?? null, lines.content(id));
  }

  async #flush(): Promise<void> {
    const drafts = this.#waiting;
    this.#waiting = [];
    if (this.#room?.open !== undefined) await this.#importer.putMessages(this.#room.open, drafts);
  }

  async #leave(): Promise<void> {
    await this.#flush();
    if (this.#room?.open !== undefined) await this.#importer.closeRoom(this.#room.open, this.#room.members);
    this.#room = undefined;
  }
}

/** Whether there is a head; a stream without a line is no export either. */
async function isHead(lines: Lines): Promise<boolean> {
  const line = await lines.next();
  if (line === undefined) throw new ArchiveFault("missing_file", "The export is empty");
  return Head.safeParse(line.value).success;
}
