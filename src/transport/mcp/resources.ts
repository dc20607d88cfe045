// Resources: rooms as their latest messages, documents as Markdown, approved skills as their instructions. Reading and listening
// ask the same operations as everybody.
import type { ListResourcesResult, ReadResourceResult } from "@modelcontextprotocol/server";
import { principalStream, roomStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Target } from "./listener.ts";
import { renderDocument, renderMessages } from "./render.ts";
import { RESULT_MAX_CHARS, type ToolContext, type Tools } from "./tools.ts";

const URI = /^gateway:\/\/(room|document)\/((?:room|doc)_[0-9a-f]{32})$/;
const SKILL_URI = /^gateway:\/\/skill\/([a-z0-9-]{1,64})$/;
const URI_MAX_CHARS = 100;
const ROOMS_PER_PAGE = 50;
const MESSAGES_READ = 50;

const MARKDOWN = "text/markdown";
export const RESOURCE_TEMPLATES = [
  {
    uriTemplate: "gateway://room/{id}",
    name: "room",
    description: "Latest messages of a room",
    mimeType: "text/plain",
  },
  { uriTemplate: "gateway://document/{id}", name: "document", description: "Text of a document", mimeType: MARKDOWN },
  { uriTemplate: "gateway://skill/{name}", name: "skill", description: "Instructions for a task", mimeType: MARKDOWN },
];

type SkillSummary = { name: string; description: string; digest: string; state: string; enabled: boolean };

export class Resources {
  readonly #tools: Tools;

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  /** A page of the caller's rooms; the first one begins with the skills of the tenant. */
  async list(context: ToolContext, cursor: string | undefined): Promise<ListResourcesResult> {
    const input = { member: "me", limit: ROOMS_PER_PAGE, cursor };
    const { items, nextCursor } = await this.#tools.output(context, "room.list", input);
    const rooms = items as { id: string; name: string | null; topic: string | null }[];
    const skills = cursor === undefined ? await this.#skills(context) : [];
    return {
      resources: [
        ...skills.map(({ name, description }) => ({
          uri: `gateway://skill/${name}`,
          name,
          description,
          mimeType: MARKDOWN,
        })),
        ...rooms.map(({ id, name, topic }) => ({
          uri: `gateway://room/${id}`,
          name: name || id,
          mimeType: "text/plain",
          ...topic ? { description: topic } : {},
        })),
      ],
      ...typeof nextCursor === "string" ? { nextCursor } : {},
    };
  }

  async read(context: ToolContext, uri: string): Promise<ReadResourceResult> {
    const skill = uri.length > URI_MAX_CHARS ? undefined : SKILL_URI.exec(uri)?.[1];
    if (skill !== undefined) {
      const text = (await this.#skill(context, skill)).slice(0, RESULT_MAX_CHARS).toWellFormed();
      return { contents: [{ uri, mimeType: MARKDOWN, text }] };
    }
    const { kind, id } = parse(uri);
    const text = kind === "room"
      ? await this.#tools.read(context, "message.list", { roomId: id, limit: MESSAGES_READ }, renderMessages)
      : await this.#tools.read(context, "document.content", { id, format: "markdown" }, renderDocument);
    // The end of a room is its newest part, the start of a document its title.
    const part = kind === "room" ? text.slice(-RESULT_MAX_CHARS) : text.slice(0, RESULT_MAX_CHARS);
    const mimeType = kind === "room" ? "text/plain" : MARKDOWN;
    return { contents: [{ uri, mimeType, text: part.toWellFormed() }] };
  }

  /** Where changes of a resource are published; throws `not_found` for a caller who may not read it. */
  async target(context: ToolContext, uri: string): Promise<Target> {
    const { kind, id } = parse(uri);
    if (kind === "room") {
      await this.assertReadable(context, uri);
      return { uri, streams: [roomStream(id)], matches: () => true };
    }
    const { roomId } = await this.#tools.output(context, "document.read", { id });
    const own = principalStream(context.actor.principalId);
    const streams = typeof roomId === "string" ? [roomStream(roomId), own] : [own];
    return { uri, streams, matches: (event: StoredEvent) => event.json.includes(id) };
  }

  /**
   * Skills that are enabled and whose newest version was approved; none for a caller who may not read them. While a newer one is
   * pending, the approved one can be read, but is not listed.
   */
  async #skills(context: ToolContext): Promise<SkillSummary[]> {
    if (!this.#tools.isOffered(context, "skill.list")) return [];
    const { items } = await this.#tools.output(context, "skill.list", {});
    return (items as SkillSummary[]).filter(({ enabled, state }) => enabled && state === "approved");
  }

  /** The instructions of the newest version that was approved. */
  async #skill(context: ToolContext, name: string): Promise<string> {
    const { enabled, versions } = await this.#tools.output(context, "skill.read", { name });
    const approved = (versions as SkillSummary[]).find(({ state }) => state === "approved");
    if (enabled !== true || approved === undefined) throw notFound("skill, or it is not approved");
    const { body } = await this.#tools.output(context, "skill.read", { name, digest: approved.digest });
    return String(body);
  }

  async assertReadable(context: ToolContext, uri: string): Promise<void> {
    const { kind, id } = parse(uri);
    if (kind === "document") await this.#tools.output(context, "document.read", { id });
    // A room shows its messages, so its name alone is not enough.
    else await this.#tools.output(context, "message.list", { roomId: id, limit: 1 });
  }
}

function parse(uri: string): { kind: "room" | "document"; id: string } {
  const [, kind, id = ""] = uri.length > URI_MAX_CHARS ? [] : URI.exec(uri) ?? [];
  if ((kind === "room" || kind === "document") && id.startsWith(kind.slice(0, 3))) return { kind, id };
  throw new Fault("not_found", "Expected a resource such as gateway://room/<id> or gateway://document/<id>");
}
