// Reads a Mattermost bulk export: posts come in any order, so they wait in a table until they can be read by room and time.
import { z } from "@zod/zod";
import { iso } from "@/core/clock.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import type { Store } from "@/ports/store.ts";
import { type MessageDraft, plainMessage, plainPerson, plainRoom, type Refs, type RoomDraft } from "./draft.ts";
import { BATCH, type Importer, type OpenRoom } from "./importer.ts";
import type { Line } from "./lines.ts";
import { ArchiveFault } from "./report.ts";
import { type ImportRow, type LineRow, TransferStore, type TransferTables } from "./store.ts";

const Ms = z.number().min(0).max(8.64e15);
const Reaction = z.looseObject({ user: z.string(), emoji_name: z.string(), create_at: Ms.optional() });
const Reply = z.looseObject({
  user: z.string(),
  message: z.string().default(""),
  type: z.string().nullish(),
  create_at: Ms,
  edit_at: Ms.nullish(),
  reactions: z.array(Reaction).nullish(),
  attachments: z.array(z.looseObject({ path: z.string() })).nullish(),
});
const Post = Reply.extend({
  team: z.string().optional(),
  channel: z.string().optional(),
  channel_members: z.array(z.string()).optional(),
  replies: z.array(Reply).nullish(),
});
type Post = z.output<typeof Post>;
const Channel = z.looseObject({
  team: z.string(),
  name: z.string(),
  display_name: z.string().nullish(),
  type: z.enum(["O", "P"]),
  header: z.string().nullish(),
  purpose: z.string().nullish(),
});
const Direct = z.looseObject({ members: z.array(z.string()).min(1) });
const User = z.looseObject({
  username: z.string(),
  first_name: z.string().nullish(),
  last_name: z.string().nullish(),
  nickname: z.string().nullish(),
  delete_at: Ms.nullish(),
  teams: z.array(z.looseObject({
    name: z.string(),
    channels: z.array(z.looseObject({ name: z.string(), roles: z.string().nullish() })).nullish(),
  })).nullish(),
});

const DIRECT_MAX = 8;
const LINES_PER_WRITE = 500;

type Place = { draft: RoomDraft; members: Map<string, "owner" | "member"> };
type Said = { post: z.output<typeof Reply>; root: string | null; key: string };

export class MattermostReader {
  readonly #store: Store<TransferTables>;
  readonly #row: ImportRow;
  readonly #importer: Importer;
  readonly #refs: Refs;
  readonly #map: Readonly<Record<string, string>>;
  readonly #places = new Map<string, Place>();
  #staged: LineRow[] = [];

  constructor(
    store: Store<TransferTables>,
    row: ImportRow,
    importer: Importer,
    refs: Refs,
    map: Readonly<Record<string, string>>,
  ) {
    this.#store = store;
    this.#row = row;
    this.#importer = importer;
    this.#refs = refs;
    this.#map = map;
  }

  async read(lines: AsyncIterable<Line>): Promise<void> {
    await this.#clear();
    try {
      let hasVersion = false;
      for await (const { number, value } of lines) {
        const record = z.looseObject({ type: z.string() }).safeParse(value).data;
        if (!hasVersion && (record?.type !== "version" || record.version !== 1)) {
          throw new ArchiveFault("unsupported_version", "The first line does not say version 1 of the bulk format");
        }
        hasVersion = true;
        if (record !== undefined) await this.#record(record, number);
      }
      if (!hasVersion) throw new ArchiveFault("missing_file", "The export is empty");
      await this.#stage();
      await this.#importRooms();
    } finally {
      await this.#clear();
    }
  }

  async #record(record: Record<string, unknown> & { type: string }, line: number): Promise<void> {
    const { report } = this.#importer;
    const where = `line ${line}`;
    const fit = <Schema extends z.ZodType>(schema: Schema): z.output<Schema> | undefined => {
      const parsed = schema.safeParse(record[record.type]);
      if (!parsed.success) report.skip("invalid_record", `${where}: ${parsed.error.issues[0]?.message ?? ""}`);
      return parsed.data;
    };
    switch (record.type) {
      case "version":
      case "team":
        return;
      case "channel": {
        const channel = fit(Channel);
        if (channel !== undefined) this.#channel(channel);
        return;
      }
      case "direct_channel": {
        const direct = fit(Direct);
        if (direct !== undefined) this.#direct(direct.members);
        return;
      }
      case "user": {
        const user = fit(User);
        if (user !== undefined) await this.#user(user);
        return;
      }
      case "post":
      case "direct_post": {
        const post = fit(Post);
        if (post !== undefined) await this.#post(post, line);
        return;
      }
      default:
        report.skip("unknown_type", `${where}: ${record.type}`);
    }
  }

  #channel({ team, name, display_name, type, header, purpose }: z.output<typeof Channel>): void {
    const key = `${team}/${name}`;
    this.#places.set(key, {
      members: new Map(),
      draft: plainRoom({
        ref: this.#refs.room(key),
        kind: "channel",
        name: display_name || name,
        visibility: type === "O" ? "public" : "private",
        topic: header || null,
        description: purpose || null,
        metadata: { importedFrom: "mattermost", sourceId: key },
      }),
    });
  }

  #direct(usernames: readonly string[]): string {
    const members = [...new Set(usernames)].sort();
    const key = `@${members.join(",")}`;
    if (this.#places.has(key)) return key;
    const ids = members.flatMap((username) => this.#principal(username) ?? []);
    this.#places.set(key, {
      members: new Map(ids.map((id) => [id, "member"])),
      draft: plainRoom({
        ref: this.#refs.room(key),
        kind: ids.length <= DIRECT_MAX ? "direct" : "channel",
        directOf: ids,
        name: members.join(", "),
        visibility: "private",
        metadata: { importedFrom: "mattermost" },
      }),
    });
    return key;
  }

  async #user({ username, first_name, last_name, nickname, delete_at, teams }: z.output<typeof User>): Promise<void> {
    const id = this.#principal(username);
    if (id === undefined) return this.#importer.report.skip("invalid_record", `user ${username}`);
    const name = nickname || [first_name, last_name].filter(Boolean).join(" ") || username;
    await this.#importer.putPeople([{
      ...plainPerson(id, name),
      handle: username,
      externalId: username.slice(0, 200),
      isDisabled: (delete_at ?? 0) > 0,
    }]);
    for (const team of teams ?? []) {
      for (const channel of team.channels ?? []) {
        const isAdmin = channel.roles?.split(" ").includes("channel_admin") ?? false;
        this.#places.get(`${team.name}/${channel.name}`)?.members.set(id, isAdmin ? "owner" : "member");
      }
    }
  }

  async #post({ replies, ...post }: Post, line: number): Promise<void> {
    const room = post.channel_members === undefined
      ? `${post.team}/${post.channel}`
      : this.#direct(post.channel_members);
    if (!this.#places.has(room)) return this.#importer.report.skip("unknown_room", `line ${line}: ${room}`);
    // The format has no ids: author, time and text are what makes a post the same one.
    const root = `${room} ${post.create_at} ${post.user} ${post.message}`;
    const said: Said[] = [
      { post, root: null, key: root },
      ...(replies ?? []).map((reply) => ({
        post: reply,
        root,
        key: `${root} ${reply.create_at} ${reply.user} ${reply.message}`,
      })),
    ];
    said.forEach((one, index) =>
      this.#staged.push({
        tenant_id: this.#row.tenant_id,
        import_id: this.#row.id,
        room_key: room,
        at: iso(one.post.create_at),
        line: line * 10_000 + index,
        json: JSON.stringify(one),
      })
    );
    if (this.#staged.length >= LINES_PER_WRITE) await this.#stage();
  }

  async #stage(): Promise<void> {
    const rows = this.#staged;
    this.#staged = [];
    if (rows.length > 0) await this.#store.write((tx) => tx.insertMany("transfer_line", rows));
    await this.#importer.checkpoint();
  }

  async #importRooms(): Promise<void> {
    const store = new TransferStore(this.#store.db);
    for (const [key, { draft, members }] of this.#places) {
      const room = await this.#importer.openRoom(draft);
      if (room === undefined) continue;
      let after = { room_key: key, at: "", line: 0 };
      for (;;) {
        const rows = await store.lines(this.#row.tenant_id, this.#row.id, after, BATCH);
        const own = rows.filter((row) => row.room_key === key);
        await this.#put(room, own);
        const last = own.at(-1);
        if (last === undefined || own.length < BATCH) break;
        after = last;
      }
      await this.#importer.closeRoom(
        room,
        [...members].map(([principalId, role]) => ({ principalId, role, joinedAt: null })),
      );
    }
  }

  async #put(room: OpenRoom, rows: readonly LineRow[]): Promise<void> {
    await this.#importer.putMessages(room, rows.flatMap((row) => this.#message(JSON.parse(row.json), row) ?? []));
  }

  #message({ post, root, key }: Said, { at, line }: LineRow): MessageDraft | undefined {
    const { report } = this.#importer;
    const where = `line ${Math.floor(Number(line) / 10_000)}`;
    const senderId = this.#principal(post.user) ?? "mattermost:unknown";
    const files = (post.attachments ?? []).map(({ path }) => path.slice(path.lastIndexOf("/") + 1));
    if (files.length > 0) report.skip("file_not_copied", where, files.length);
    const text = [...post.message === "" ? [] : [post.message], ...files].join("\n");
    if (text === "") {
      report.skip("empty", where);
      return undefined;
    }
    const names = [...post.message.matchAll(/(?<![\w@])@([a-z0-9._-]+)/g)].map(([, name = ""]) =>
      name.replace(/\.+$/, "")
    );
    return {
      ...plainMessage({ ref: this.#refs.message(key), where, senderId, at, text }),
      type: post.type?.startsWith("system_") ? "system" : "text",
      thread: root === null ? null : this.#refs.message(root),
      mentions: {
        principalIds: names.flatMap((name) => this.#principal(name) ?? []).filter((id) =>
          this.#importer.people.isKnown(id)
        ),
        room: names.some((name) => ["channel", "all", "here"].includes(name)),
      },
      reactions: (post.reactions ?? []).flatMap(({ user, emoji_name, create_at }) => {
        const principalId = this.#principal(user);
        const key = `:${emoji_name}:`;
        return principalId === undefined ? [] : [{ key, principalId, at: isoOf(create_at, at) }];
      }),
      metadata: { importedFrom: "mattermost" },
      ...(post.edit_at ? { editedAt: isoOf(post.edit_at, at), editCount: 1, version: 2 } : {}),
    };
  }

  #principal(username: string): string | undefined {
    const mapped = this.#map[username] ?? `mattermost:${username}`;
    return PrincipalId.safeParse(mapped).success ? mapped : undefined;
  }

  async #clear(): Promise<void> {
    await this.#store.write((tx) => new TransferStore(tx.db).removeLines(this.#row.tenant_id, this.#row.id));
  }
}

function isoOf(ms: number | undefined, otherwise: string): string {
  return ms === undefined ? otherwise : iso(ms);
}
