// What readers of archives hand to the importer, whatever the archive's format.
import { createHash, type Hash } from "node:crypto";
import type { OriginalRef, Ref } from "@/core/archive/ids.ts";
import type { PrincipalKind, RoomRole, TenantRole } from "@/core/actor.ts";
import type { Message } from "@/modules/message/mod.ts";

/** Names in a text that are looked up; a message mentions far fewer. */
export const MENTIONED_NAMES_MAX = 1000;

export type SourcePrincipal = {
  id: string;
  kind: PrincipalKind;
  displayName: string;
  handle: string | null;
  role: TenantRole;
  ownerId: string | null;
  externalId: string | null;
  timeZone: string | null;
  locale: string | null;
  isDisabled: boolean;
  createdAt: string | null;
};

/** Name of a conversation of more people than a direct room has: names of people would stay in it when they are erased. */
export const GROUP_NAME = "Group conversation";

export type SourceRoom = {
  ref: Ref;
  kind: "channel" | "direct" | "task" | "meeting";
  /** Principals of a direct room. */
  directOf: readonly string[];
  /** Null: a direct room is named after its principals. */
  name: string | null;
  slug: string | null;
  topic: string | null;
  description: string | null;
  visibility: "public" | "private";
  historyVisibility: "shared" | "joined";
  isArchived: boolean;
  agentPolicy: Record<string, unknown>;
  retentionDays: number | null;
  metadata: Record<string, unknown>;
  createdBy: string | null;
  createdAt: string | null;
};

export type SourceBan = { principalId: string; reason: string | null; createdBy: string; createdAt: string };

export type SourceMember = { principalId: string; role: RoomRole; joinedAt: string | null };

export type SourceMessage = {
  ref: Ref;
  /** Place in the archive, for the report. */
  where: string;
  senderId: string;
  at: string;
  type: Message["type"];
  text: string | null;
  format: Message["format"];
  thread: Ref | null;
  replyTo: Ref | null;
  mentions: Message["mentions"];
  files: Message["files"];
  reactions: { key: string; principalId: string; at: string }[];
  edits: { version: number; text: string | null; editorId: string; at: string }[];
  metadata: Record<string, unknown>;
  elements?: unknown;
  clientMessageId: string | null;
  pinnedAt: string | null;
  editedAt: string | null;
  editCount: number;
  deletedAt: string | null;
  version: number;
};

/** A file of the archive; its content follows its record. */
export type SourceFile = {
  ref: OriginalRef;
  where: string;
  name: string;
  contentType: string;
  size: number;
  sha256: string;
  uploaderId: string;
  /** Whether it may be attached in the room of the message that shows it only. */
  isOfRoom: boolean;
  createdAt: string;
};

/** Makes refs of one tenant and one origin: the same source key always gives the same id. */
export class RefFactory {
  readonly #scope: string;

  constructor(tenantId: string, namespace: string) {
    this.#scope = `${tenantId}\n${namespace}`;
  }

  /** The reference to a resource of our own export; `scope` is what its id is unique in, if not everywhere. */
  of(prefix: string, key: string, scope?: string): OriginalRef {
    return { original: key, fallback: this.#id(prefix, scope === undefined ? key : `${scope}\n${key}`) };
  }

  room(key: string): Ref {
    return { original: null, fallback: this.#id("room", key) };
  }

  message(key: string): Ref {
    return { original: null, fallback: this.#id("msg", key) };
  }

  /** Messages whose keys have a common prefix. The prefix may be long, and is compared once. */
  messagesUnder(start: string): (rest: string) => Ref {
    const begun = this.#begin("msg", start);
    return (rest) => ({ original: null, fallback: idFrom("msg", begun.copy().update(rest)) });
  }

  file(key: string): SourceFile["ref"] {
    return { original: key, fallback: this.#id("file", key) };
  }

  #id(prefix: string, key: string): string {
    return idFrom(prefix, this.#begin(prefix, key));
  }

  #begin(prefix: string, key: string): Hash {
    return createHash("sha256").update(`${this.#scope}\n${prefix}\n${key}`);
  }
}

function idFrom(prefix: string, hash: Hash): string {
  return `${prefix}_${hash.digest("hex").slice(0, 32)}`;
}

/** A message with nothing on it. */
export function plainMessage(draft: Pick<SourceMessage, "ref" | "where" | "senderId" | "at" | "text">): SourceMessage {
  return {
    ...draft,
    type: "text",
    format: "markdown",
    thread: null,
    replyTo: null,
    mentions: { principalIds: [], room: false },
    files: [],
    reactions: [],
    edits: [],
    metadata: {},
    clientMessageId: null,
    pinnedAt: null,
    editedAt: null,
    editCount: 0,
    deletedAt: null,
    version: 1,
  };
}

/** A person with nothing but an id and a name. */
export function plainPrincipal(id: string, displayName: string): SourcePrincipal {
  return {
    id,
    kind: "human",
    displayName,
    handle: null,
    role: "member",
    ownerId: null,
    externalId: null,
    timeZone: null,
    locale: null,
    isDisabled: false,
    createdAt: null,
  };
}

/** A room as other products know rooms. */
export function plainRoom(
  draft: Pick<SourceRoom, "ref" | "kind" | "name" | "visibility"> & Partial<SourceRoom>,
): SourceRoom {
  return {
    directOf: [],
    slug: null,
    topic: null,
    description: null,
    historyVisibility: "shared",
    isArchived: false,
    agentPolicy: { mode: "mention", maxAgentTurns: 3 },
    retentionDays: null,
    metadata: {},
    createdBy: null,
    createdAt: null,
    ...draft,
  };
}
