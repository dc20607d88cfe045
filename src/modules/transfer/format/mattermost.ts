// Reads a Mattermost bulk export: posts are in any order, so they wait in a table until they can be read by room and time.
import { z } from "@zod/zod";
import { createYielder } from "@/core/caller.ts";
import { iso } from "@/core/time/clock.ts";
import { paginate } from "@/core/page.ts";
import { emojiNamed, withEmoji } from "@/core/text/emoji_names.ts";
import { trimTrailing } from "@/core/text/text.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { DIRECT_MEMBERS_MAX } from "@/modules/room/mod.ts";
import { SlackMarkup } from "@/modules/webhook/mod.ts";
import type { Store } from "@/ports/store.ts";
import { ArchiveFault } from "../fault.ts";
import { BATCH, type Importer } from "../import/importer.ts";
import { parseRecord } from "../import/report.ts";
import type { OpenRoom } from "../import/run.ts";
import { type ImportRow, type LineRow, TransferStore, type TransferTables } from "../store.ts";
import type { JsonValue } from "./json_reader.ts";
import type { MattermostFiles } from "./mattermost_files.ts";
import { Bot, Channel, Direct, Post, type Reply, User } from "./mattermost_records.ts";
import {
  GROUP_NAME,
  MENTIONED_NAMES_MAX,
  plainMessage,
  plainPrincipal,
  plainRoom,
  type RefFactory,
  type SourceMessage,
  type SourceRoom,
} from "./model.ts";

const LINES_PER_WRITE = 500;
/** A post and its replies have places of their own in the order of lines; more replies do not fit into a line. */
const POSITIONS_PER_LINE = 1_000_000;
/** What waits to be written, and what a line may have to wait there, in UTF-16 units: no more of it is ever read at a time. */
const PENDING_MAX_UNITS = 1024 * 1024;
const LINE_MAX_UNITS = 256 * 1024;

/** Rooms are in memory until all lines were read: their names and texts in UTF-16 units, and memberships of all. */
const ROOMS_MAX_UNITS = 64 * 1024 ** 2;
const MEMBERS_MAX = 1_000_000;

type PendingRoom = { draft: SourceRoom; members: Map<string, "owner" | "member"> };
/** A post, by the ids that it and the one it replies to have here. */
type NumberedPost = { post: z.output<typeof Reply>; id: string; rootId: string | null };
/** A post whose text has what integrations attached. */
type StagedPost = Omit<NumberedPost, "post"> & { post: Omit<NumberedPost["post"], "props">; attached: string };
type ReadFrom = { refs: RefFactory; map: ReadonlyMap<string, string>; files?: MattermostFiles | undefined };

export class MattermostReader {
  readonly #store: Store<TransferTables>;
  readonly #row: ImportRow;
  readonly #importer: Importer;
  readonly #refs: RefFactory;
  readonly #map: ReadonlyMap<string, string>;
  /** Those that are in the zip of the export. */
  readonly #files: MattermostFiles | undefined;
  readonly #rooms = new Map<string, PendingRoom>();
  readonly #bounds: { roomUnits: number; members: number };
  #staged: LineRow[] = [];
  #units = 0;

  constructor(
    store: Store<TransferTables>,
    row: ImportRow,
    importer: Importer,
    { refs, map, files }: ReadFrom,
    { roomUnits = ROOMS_MAX_UNITS, members = MEMBERS_MAX }: { roomUnits?: number; members?: number } = {},
  ) {
    this.#bounds = { roomUnits, members };
    this.#store = store;
    this.#row = row;
    this.#importer = importer;
    this.#refs = refs;
    this.#map = map;
    this.#files = files;
  }

  async read(lines: AsyncIterable<JsonValue>): Promise<void> {
    // What an earlier run left.
    await this.#removeLines();
    let hasVersion = false;
    for await (const { number, value } of lines) {
      const record = z.looseObject({ type: z.string() }).safeParse(value).data;
      if (!hasVersion && (record?.type !== "version" || record.version !== 1)) {
        throw new ArchiveFault("unsupported_version", "The first line is not version 1 of the bulk export format");
      }
      hasVersion = true;
      if (record !== undefined) await this.#record(record, number);
    }
    if (!hasVersion) throw new ArchiveFault("missing_file", "The export is empty");
    await this.#stage();
    await this.#importRooms();
    await this.#removeLines();
  }

  /** In parts; what an import that fails leaves is deleted as it ends. */
  async #removeLines(): Promise<void> {
    const { tenant_id: tenantId, id } = this.#row;
    while (await this.#importer.write((tx) => new TransferStore(tx.db).removeLines(tenantId, id)));
  }

  async #record(record: Record<string, unknown> & { type: string }, line: number): Promise<void> {
    const { report } = this.#importer;
    const where = `line ${line}`;
    const take = async <Schema extends z.ZodType>(schema: Schema, work: (content: z.output<Schema>) => unknown) => {
      const content = parseRecord(schema, record[record.type], where, report);
      if (content !== undefined) await work(content);
    };
    switch (record.type) {
      case "version":
      case "team":
        return;
      case "channel":
        return await take(Channel, (channel) => this.#channel(channel));
      case "direct_channel":
        return await take(Direct, ({ members, header }) => this.#direct(members, header));
      case "user":
        return await take(User, (user) => this.#user(user));
      case "bot":
        return await take(Bot, (bot) => this.#bot(bot));
      case "post":
      case "direct_post":
        return await take(Post, (post) => this.#post(post, line));
      default:
        report.skip("unknown_type", `${where}: ${record.type}`);
    }
  }

  #channel({ team, name, display_name, type, header, purpose, deleted_at }: z.output<typeof Channel>): void {
    const key = `${team}/${name}`;
    this.#addRoom(
      key,
      plainRoom({
        ref: this.#refs.room(key),
        kind: "channel",
        name: display_name || name,
        visibility: type === "O" ? "public" : "private",
        topic: withEmoji(header ?? "") || null,
        description: withEmoji(purpose ?? "") || null,
        isArchived: (deleted_at ?? 0) > 0,
        metadata: { importedFrom: "mattermost", sourceId: key },
      }),
    );
  }

  #direct(usernames: readonly string[], header: string | null = null): string {
    const members = [...new Set(usernames)].sort();
    const key = `@${members.join(",")}`;
    if (this.#rooms.has(key)) return key;
    const ids = members.flatMap((username) => this.#principal(username) ?? []);
    const isDirect = ids.length <= DIRECT_MEMBERS_MAX;
    this.#addRoom(
      key,
      plainRoom({
        ref: this.#refs.room(key),
        kind: isDirect ? "direct" : "channel",
        directOf: isDirect ? ids : [],
        name: isDirect ? null : GROUP_NAME,
        topic: withEmoji(header ?? "") || null,
        visibility: "private",
        metadata: { importedFrom: "mattermost" },
      }),
    );
    for (const id of ids) this.#addMember(key, id, "member");
    return key;
  }

  #addRoom(key: string, draft: SourceRoom): void {
    this.#bounds.roomUnits -= key.length + JSON.stringify(draft).length;
    if (this.#bounds.roomUnits >= 0) this.#rooms.set(key, { draft, members: new Map() });
    else this.#importer.report.skip("too_many_rooms", key);
  }

  #addMember(key: string, id: string, role: "owner" | "member"): void {
    const members = this.#rooms.get(key)?.members;
    if (members === undefined) return;
    const { report, membersBuffered } = this.#importer;
    if (!members.has(id) && (members.size >= membersBuffered || --this.#bounds.members < 0)) {
      report.skip("too_many_members", key);
    } else members.set(id, role);
  }

  async #user({ username, first_name, last_name, nickname, delete_at, ...user }: z.output<typeof User>): Promise<void> {
    const id = this.#principal(username);
    if (id === undefined) return this.#importer.report.skip("invalid_record", `user ${username}`);
    const name = nickname || [first_name, last_name].filter(Boolean).join(" ") || username;
    await this.#importer.importPrincipals([{
      ...plainPrincipal(id, name),
      role: user.roles?.split(" ").includes("system_guest") === true ? "guest" : "member",
      handle: username,
      externalId: username.slice(0, 200),
      locale: user.locale || null,
      isDisabled: (delete_at ?? 0) > 0,
    }]);
    if (user.profile_image) await this.#files?.setPicture(user.profile_image, id);
    for (const team of user.teams ?? []) {
      for (const channel of team.channels ?? []) {
        const isAdmin = channel.roles?.split(" ").includes("channel_admin") ?? false;
        this.#addMember(`${team.name}/${channel.name}`, id, isAdmin ? "owner" : "member");
      }
    }
  }

  async #bot({ username, display_name, delete_at }: z.output<typeof Bot>): Promise<void> {
    const id = this.#principal(username);
    if (id === undefined) return this.#importer.report.skip("invalid_record", `bot ${username}`);
    await this.#importer.importPrincipals([{
      ...plainPrincipal(id, display_name || username),
      kind: "service",
      handle: username,
      externalId: username.slice(0, 200),
      isDisabled: (delete_at ?? 0) > 0,
    }]);
  }

  async #post({ replies, ...post }: Post, line: number): Promise<void> {
    const room = post.channel_members === undefined
      ? `${post.team}/${post.channel}`
      : this.#direct(post.channel_members);
    if (!this.#rooms.has(room)) return this.#importer.report.skip("unknown_room", `line ${line}: ${room}`);
    // The format has no ids: author, time and text are what makes a post the same one.
    const under = this.#refs.messagesUnder(`${room} ${post.create_at} ${post.user} ${post.message}`);
    const rootId = under("").fallback;
    await this.#enqueue(room, line * POSITIONS_PER_LINE, { post, id: rootId, rootId: null });
    for (const [index, reply] of (replies ?? []).entries()) {
      const id = under(` ${reply.create_at} ${reply.user} ${reply.message}`).fallback;
      await this.#enqueue(room, line * POSITIONS_PER_LINE + 1 + index, { post: reply, id, rootId });
    }
  }

  async #enqueue(room: string, line: number, { post: { props, ...post }, ...ids }: NumberedPost): Promise<void> {
    const staged: StagedPost = { ...ids, post, attached: new SlackMarkup().attachments(props) };
    const json = JSON.stringify(staged);
    if (json.length > LINE_MAX_UNITS) return this.#importer.report.skip("line_too_long", whereOf(line));
    this.#staged.push({
      tenant_id: this.#row.tenant_id,
      import_id: this.#row.id,
      room_key: room,
      at: iso(post.create_at),
      line,
      json,
    });
    this.#units += json.length;
    if (this.#staged.length >= LINES_PER_WRITE || this.#units >= PENDING_MAX_UNITS) await this.#stage();
  }

  async #stage(): Promise<void> {
    const rows = this.#staged;
    this.#staged = [];
    this.#units = 0;
    if (rows.length > 0) await this.#importer.write((tx) => tx.insertMany("transfer_line", rows));
  }

  async #importRooms(): Promise<void> {
    const store = new TransferStore(this.#store.db);
    for (const [key, { draft, members }] of this.#rooms) {
      const room = await this.#importer.openRoom(draft);
      if (room === undefined) continue;
      const read = async (last = { room_key: key, at: "", line: 0 }) => {
        const rows = await store.lines(this.#row.tenant_id, this.#row.id, last, BATCH);
        return rows.filter((row) => row.room_key === key);
      };
      for await (const rows of paginate(BATCH, read)) await this.#importPosts(room, rows);
      await this.#importer.closeRoom(
        room,
        [...members].map(([principalId, role]) => ({ principalId, role, joinedAt: null })),
      );
    }
  }

  async #importPosts(room: OpenRoom, rows: readonly LineRow[]): Promise<void> {
    const turn = createYielder();
    const drafts: SourceMessage[] = [];
    for (const row of rows) {
      const draft = await this.#message(JSON.parse(row.json), row, room);
      if (draft !== undefined) drafts.push(draft);
      await turn();
    }
    await this.#importer.importMessages(room, drafts);
  }

  async #message(
    { post, attached, id, rootId }: StagedPost,
    { at, line }: LineRow,
    room: OpenRoom,
  ): Promise<SourceMessage | undefined> {
    const { report } = this.#importer;
    const where = whereOf(Number(line));
    const senderId = this.#principal(post.user) ?? "mattermost:unknown";
    const paths = (post.attachments ?? []).map(({ path }) => path);
    const { files, missing } = await this.#files?.copy(paths, { where, uploaderId: senderId, at, roomId: room.id }) ??
      { files: [], missing: paths };
    if (missing.length > 0) report.skip("file_not_copied", where, missing.length);
    const names = missing.map((path) => path.slice(path.lastIndexOf("/") + 1));
    const text = [withEmoji(post.message), attached, ...names].filter((part) => part !== "").join("\n");
    if (text === "" && files.length === 0) {
      report.skip("empty", where);
      return undefined;
    }
    const mentioned = namesIn(post.message);
    return {
      ...plainMessage({ ref: { original: null, fallback: id }, where, senderId, at, text }),
      type: post.type?.startsWith("system_") ? "system" : "text",
      thread: rootId === null ? null : { original: null, fallback: rootId },
      files,
      mentions: {
        principalIds: mentioned.flatMap((name) => this.#principal(name) ?? []).filter((id) =>
          this.#importer.principals.isKnown(id)
        ),
        room: mentioned.some((name) => ["channel", "all", "here"].includes(name)),
      },
      reactions: (post.reactions ?? []).flatMap(({ user, emoji_name, create_at }) => {
        const principalId = this.#principal(user);
        const key = emojiNamed(emoji_name);
        return principalId === undefined ? [] : [{ key, principalId, at: isoOf(create_at, at) }];
      }),
      metadata: { importedFrom: "mattermost" },
      // Mattermost does not say since when.
      pinnedAt: post.is_pinned === true ? at : null,
      ...(post.edit_at ? { editedAt: isoOf(post.edit_at, at), editCount: 1, version: 2 } : {}),
    };
  }

  #principal(username: string): string | undefined {
    const mapped = this.#map.get(username) ?? `mattermost:${username}`;
    return PrincipalId.safeParse(mapped).success ? mapped : undefined;
  }
}

/** The names that a text mentions, each once. */
export function namesIn(text: string): string[] {
  const names = new Set<string>();
  for (const [, name = ""] of text.matchAll(/(?<![\w@])@([a-z0-9._-]+)/g)) {
    // The end of a sentence is no part of the name before it.
    names.add(trimTrailing(name, "."));
    if (names.size === MENTIONED_NAMES_MAX) break;
  }
  return [...names];
}

/** A line of the archive, by that of one of its posts. */
function whereOf(line: number): string {
  return `line ${Math.floor(line / POSITIONS_PER_LINE)}`;
}

function isoOf(ms: number | undefined, otherwise: string): string {
  return ms === undefined ? otherwise : iso(ms);
}
