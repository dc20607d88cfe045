// Reads a Slack export: people, conversations, and their days in order.
import { z } from "@zod/zod";
import { listOf } from "@/core/archive/fields.ts";
import { createYielder } from "@/core/caller.ts";
import { emojiNamed, withEmoji } from "@/core/text/emoji_names.ts";
import { compareText } from "@/core/text/text.ts";
import { iso } from "@/core/time/clock.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { DIRECT_MEMBERS_MAX } from "@/modules/room/mod.ts";
import { SlackMarkup } from "@/modules/webhook/mod.ts";
import { ArchiveFault } from "../fault.ts";
import type { Importer } from "../import/importer.ts";
import { parseRecord } from "../import/report.ts";
import { ENTRY_ITEMS_MAX } from "../schema.ts";
import type { JsonFile, JsonReader } from "./json_reader.ts";
import {
  GROUP_NAME,
  plainMessage,
  plainPrincipal,
  plainRoom,
  type RefFactory,
  type SourceMessage,
  type SourcePrincipal,
} from "./model.ts";
import type { ZipArchive } from "./zip.ts";

const User = z.object({
  id: z.string().min(1),
  name: z.string().optional(),
  real_name: z.string().nullish(),
  deleted: z.boolean().optional(),
  is_bot: z.boolean().optional(),
  /** Guests, of several channels or of one. */
  is_restricted: z.boolean().optional(),
  is_ultra_restricted: z.boolean().optional(),
  tz: z.string().nullish(),
  profile: z.object({ real_name: z.string().nullish(), display_name: z.string().nullish() }).optional(),
});
const Conversation = z.object({
  id: z.string().min(1),
  name: z.string().optional(),
  created: z.number().optional(),
  creator: z.string().nullish(),
  is_archived: z.boolean().optional(),
  members: listOf(z.string()).default([]),
  topic: z.object({ value: z.string() }).optional(),
  purpose: z.object({ value: z.string() }).optional(),
  /** The `ts` of messages; of files something else. */
  pins: listOf(z.object({ id: z.string(), created: z.number().optional() })).nullish(),
});
const Posted = z.object({
  type: z.string().optional(),
  subtype: z.string().optional(),
  ts: z.string().regex(/^\d{1,12}\.\d{1,9}$/),
  user: z.string().nullish(),
  bot_id: z.string().nullish(),
  username: z.string().nullish(),
  bot_profile: z.object({ name: z.string().nullish() }).nullish(),
  /** Its author may be of another workspace, and not among the users. */
  user_profile: z.object({ real_name: z.string().nullish(), display_name: z.string().nullish() }).nullish(),
  /** In the shapes that `SlackMarkup` reads. */
  blocks: z.unknown().optional(),
  attachments: z.unknown().optional(),
  text: z.string().nullish(),
  /** Who wrote a comment on a file. */
  comment: z.object({ user: z.string().nullish() }).nullish(),
  thread_ts: z.string().optional(),
  edited: z.object({ ts: z.string().optional() }).optional(),
  reactions: listOf(z.object({ name: z.string(), users: listOf(z.string()) })).default([]),
  files: listOf(
    z.object({
      name: z.string().nullish(),
      title: z.string().nullish(),
      mode: z.string().nullish(),
      permalink: z.string().optional(),
      url_private: z.string().optional(),
    }),
  ).default([]),
});
type Posted = z.output<typeof Posted>;
type Conversation = z.output<typeof Conversation>;

const LISTS = [["channels.json", "public"], ["groups.json", "private"], ["mpims.json", "mpim"], [
  "dms.json",
  "dm",
]] as const;
/** Users of a workspace, or of all workspaces of an organization. */
const USERS = ["users.json", "org_users.json"];
/** It posts notices of the product, and is no bot by the record of it. */
const SLACKBOT = "USLACKBOT";
/** Notices of the product itself; nobody has to read them. */
const SYSTEM =
  /^(?:channel|group|app_conversation|reminder|joiner_notification|sh_room|huddle)_\w+$|^bot_(?:add|remove)$|^(?:un)?pinned_item$/;

export class SlackReader {
  readonly #archive: ZipArchive;
  readonly #json: JsonReader;
  readonly #importer: Importer;
  readonly #refs: RefFactory;
  readonly #map: ReadonlyMap<string, string>;
  readonly #names = new Map<string, string>();
  /** Ids of programs that posted without an account. */
  readonly #bots = new Set<string>();
  readonly #itemsMax: number;

  constructor(
    archive: ZipArchive,
    json: JsonReader,
    importer: Importer,
    refs: RefFactory,
    map: ReadonlyMap<string, string>,
    { itemsMax = ENTRY_ITEMS_MAX }: { itemsMax?: number } = {},
  ) {
    this.#itemsMax = itemsMax;
    this.#archive = archive;
    this.#json = json;
    this.#importer = importer;
    this.#refs = refs;
    this.#map = map;
  }

  async read(): Promise<void> {
    const list = USERS.find((name) => this.#archive.names.includes(name));
    if (list === undefined) {
      throw new ArchiveFault("missing_file", `A Slack export must have ${USERS.join(" or ")} in its root directory`);
    }
    const users = await this.#list(list, User) ?? [];
    await this.#importer.importPrincipals(users.flatMap((user): SourcePrincipal[] => {
      const name = user.profile?.real_name || user.real_name || user.name || user.id;
      this.#names.set(user.id, name);
      const id = this.#principal(user.id);
      if (id === undefined) return [];
      const isBot = user.is_bot === true || user.id === SLACKBOT;
      return [{
        ...plainPrincipal(id, name),
        kind: isBot ? "service" : "human",
        role: user.is_restricted === true || user.is_ultra_restricted === true ? "guest" : "member",
        handle: user.name?.toLowerCase() ?? null,
        externalId: user.id.slice(0, 200),
        timeZone: user.tz ?? null,
        isDisabled: user.deleted === true,
      }];
    }));
    const days = Map.groupBy(
      this.#archive.names.filter((name) => /^[^/]+\/[^/]+\.json$/.test(name)),
      (name) => name.slice(0, name.indexOf("/")),
    );
    const known = new Set<string>([list, ...LISTS.map(([name]) => name), "integration_logs.json"]);
    for (const [list, kind] of LISTS) {
      for (const conversation of await this.#list(list, Conversation) ?? []) {
        const directory = kind === "dm" ? conversation.id : conversation.name ?? conversation.id;
        const files = (days.get(directory) ?? []).sort();
        for (const file of files) known.add(file);
        await this.#conversation(conversation, kind, files);
      }
    }
    for (const name of this.#archive.names) {
      if (!known.has(name)) this.#importer.report.skip("unknown_entry", name);
    }
  }

  async #conversation(
    { id, name, members: all, ...rest }: Conversation,
    kind: (typeof LISTS)[number][1],
    files: readonly string[],
  ): Promise<void> {
    const { report, membersBuffered } = this.#importer;
    const members = all.slice(0, membersBuffered);
    if (members.length < all.length) report.skip("too_many_members", name ?? id, all.length - members.length);
    const people = members.flatMap((member) => this.#principal(member) ?? []);
    const isConversation = kind === "dm" || kind === "mpim";
    const isDirect = isConversation && people.length <= DIRECT_MEMBERS_MAX;
    const room = await this.#importer.openRoom(plainRoom({
      ref: this.#refs.room(id),
      kind: isDirect ? "direct" : "channel",
      directOf: people,
      // The names and topics that Slack has for conversations are lists of handles.
      name: isDirect ? null : isConversation ? GROUP_NAME : name ?? id,
      topic: isConversation ? null : this.#plainText(rest.topic?.value),
      description: isConversation ? null : this.#plainText(rest.purpose?.value),
      visibility: kind === "public" ? "public" : "private",
      isArchived: rest.is_archived === true,
      metadata: { importedFrom: "slack", sourceId: id },
      createdBy: rest.creator ? this.#principal(rest.creator) ?? null : null,
      createdAt: rest.created === undefined ? null : isoOf(rest.created),
    }));
    if (room === undefined) return;
    const pins = new Map((rest.pins ?? []).map((pin) => [pin.id, pin.created]));
    for (const file of files) {
      const posts = (await this.#list(file, Posted) ?? []).toSorted((a, b) => compareTs(a.ts, b.ts));
      await this.#importAuthors(posts);
      const turn = createYielder();
      const drafts: SourceMessage[] = [];
      for (const post of posts) {
        const draft = this.#message(id, file, post);
        if (draft !== undefined) {
          const isPinned = draft.deletedAt === null && pins.has(post.ts);
          drafts.push(isPinned ? { ...draft, pinnedAt: isoOf(pins.get(post.ts) ?? Number(post.ts)) } : draft);
        }
        await turn();
      }
      await this.#importer.importMessages(room, drafts);
    }
    const creator = rest.creator ? this.#principal(rest.creator) : undefined;
    await this.#importer.closeRoom(
      room,
      people.map((principalId) => ({
        principalId,
        role: principalId === creator && !isDirect ? "owner" : "member",
        joinedAt: null,
      })),
    );
  }

  #message(channel: string, file: string, post: Posted): SourceMessage | undefined {
    const where = `${file} ${post.ts}`;
    const { report } = this.#importer;
    if (post.type !== undefined && post.type !== "message") {
      report.skip("unknown_type", `${where}: ${post.type}`);
      return undefined;
    }
    const author = post.user || post.bot_id || post.username || post.comment?.user || "unknown";
    const sender = this.#principal(author) ?? "slack:unknown";
    const { text: content, mentions } = this.#content(post);
    // An action, such as of `/me is late`, which Slack shows in italics.
    const text = post.subtype === "me_message" && content !== "" ? `_${content}_` : content;
    const links = post.files.map(linkOf);
    if (links.length > 0) report.skip("file_not_copied", where, links.length);
    const whole = [...text === "" ? [] : [text], ...links].join("\n");
    const isDeleted = post.subtype === "tombstone";
    if (whole === "" && !isDeleted) {
      report.skip("empty", where);
      return undefined;
    }
    const at = isoOf(Number(post.ts));
    return {
      ...plainMessage({
        ref: this.#refs.message(`${channel} ${post.ts}`),
        where,
        senderId: sender,
        at,
        text: isDeleted ? null : whole,
      }),
      type: post.subtype !== undefined && SYSTEM.test(post.subtype) ? "system" : "text",
      thread: post.thread_ts === undefined || post.thread_ts === post.ts
        ? null
        : this.#refs.message(`${channel} ${post.thread_ts}`),
      mentions,
      reactions: post.reactions.flatMap(({ name, users }, order) =>
        users.flatMap((user) => {
          const principalId = this.#principal(user);
          const key = emojiNamed(name);
          // Slack does not say when; the milliseconds keep the keys in their order.
          return principalId === undefined ? [] : [{ key, principalId, at: isoOf(Number(post.ts) + order / 1000) }];
        })
      ),
      metadata: { importedFrom: "slack", sourceId: post.ts },
      deletedAt: isDeleted ? at : null,
      ...(post.edited === undefined ? {} : { editedAt: tsOr(post.edited.ts, at), editCount: 1, version: 2 }),
    };
  }

  /** As Slack shows it: blocks instead of the text of an app, which is for notifications; those of people repeat their text. */
  #content({ text, blocks, attachments }: Posted): { text: string; mentions: SourceMessage["mentions"] } {
    const markup = new SlackMarkup((id) => this.#names.get(id));
    const isOfPerson = Array.isArray(blocks) && blocks.every((block) => block?.type === "rich_text");
    const plain = markup.text(text ?? "");
    const shown = isOfPerson && plain !== "" ? plain : markup.blocks({ blocks }) || plain;
    const whole = [shown, markup.attachments({ attachments })].filter((part) => part !== "").join("\n");
    const principalIds = [...markup.userIds].flatMap((id) => this.#principal(id) ?? []);
    return { text: whole, mentions: { principalIds, room: markup.mentionsAll } };
  }

  #plainText(raw: string | undefined): string | null {
    return withEmoji(new SlackMarkup((id) => this.#names.get(id)).plainText(raw ?? "")) || null;
  }

  /** Names the programs that post without an account, and people who are not among the users. */
  async #importAuthors(posts: readonly Posted[]): Promise<void> {
    const people = posts.flatMap(({ user, user_profile }): SourcePrincipal[] => {
      const name = user_profile?.real_name || user_profile?.display_name;
      const id = !user || !name || this.#names.has(user) ? undefined : this.#principal(user);
      if (id === undefined || !user || !name) return [];
      this.#names.set(user, name);
      return [{ ...plainPrincipal(id, name), externalId: user.slice(0, 200), isDisabled: true }];
    });
    await this.#importer.importPrincipals(people);
    const bots = posts.flatMap(({ user, bot_id, bot_profile, username }): SourcePrincipal[] => {
      const name = bot_profile?.name || username;
      const id = user || !bot_id || !name || this.#bots.has(bot_id) ? undefined : this.#principal(bot_id);
      if (id === undefined || !bot_id || !name) return [];
      this.#bots.add(bot_id);
      return [{ ...plainPrincipal(id, name), kind: "service", externalId: bot_id.slice(0, 200) }];
    });
    await this.#importer.importPrincipals(bots);
  }

  #principal(id: string): string | undefined {
    const mapped = this.#map.get(id) ?? `slack:${id}`;
    return PrincipalId.safeParse(mapped).success ? mapped : undefined;
  }

  /** The items of a file that fit; the report names the others. `undefined` when there is no such file. */
  async #list<Item extends z.ZodType>(name: string, item: Item): Promise<z.output<Item>[] | undefined> {
    const { report } = this.#importer;
    const bytes = await this.#archive.read(name);
    if (bytes === undefined) return undefined;
    const items: z.output<Item>[] = [];
    const file: JsonFile = { content: [bytes], size: bytes.length, name, layout: "array" };
    for await (const { value, where } of this.#json.values(file)) {
      const record = parseRecord(item, value, where, report);
      if (record === undefined) continue;
      if (items.length < this.#itemsMax) items.push(record);
      else report.skip("too_many_items", where);
    }
    report.done += this.#archive.packedSize(name);
    return items;
  }
}

/** A file as a link; of one that was deleted Slack has nothing but that. */
function linkOf({ title, name, mode, permalink, url_private }: Posted["files"][number]): string {
  if (mode === "tombstone") return "_This file was deleted._";
  const url = permalink ?? url_private ?? "";
  const label = (title || name || "file").replaceAll(/[[\]]/g, "");
  return url === "" ? label : `[${label}](${url})`;
}

function isoOf(seconds: number): string {
  return iso(Math.max(Math.round(seconds * 1000), 0));
}

function tsOr(ts: string | undefined, at: string): string {
  return ts !== undefined && /^\d{1,12}(\.\d{1,9})?$/.test(ts) ? isoOf(Number(ts)) : at;
}

function compareTs(a: string, b: string): number {
  return Number(a) - Number(b) || compareText(a, b);
}
