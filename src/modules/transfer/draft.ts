// What readers of archives hand to the importer, whatever the archive's format.
import { createHash, type Hash } from "node:crypto";
import type { PrincipalKind, RoomRole, TenantRole } from "@/core/actor.ts";
import type { CarriedComment, CarriedRevision, Document, DocumentAccess, Origin } from "@/modules/document/mod.ts";
import type { Message } from "@/modules/message/mod.ts";

/** Something of the archive by the ids it may have here: its own where that is free, else one that follows from the source. */
export type Ref = { own: string | null; derived: string };
/** Of what may keep the id that it has in the archive. */
export type OwnRef = Ref & { own: string };

export type PersonDraft = {
  id: string;
  kind: PrincipalKind;
  displayName: string;
  handle: string | null;
  role: TenantRole;
  ownerId: string | null;
  externalId: string | null;
  timezone: string | null;
  locale: string | null;
  isDisabled: boolean;
  createdAt: string | null;
};

export type RoomDraft = {
  ref: Ref;
  kind: "channel" | "direct" | "task" | "meeting";
  /** Principals of a direct room. */
  directOf: readonly string[];
  name: string;
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

export type BanDraft = { principalId: string; reason: string | null; createdBy: string; createdAt: string };

export type MemberDraft = { principalId: string; role: RoomRole; joinedAt: string | null };

export type MessageDraft = {
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
  clientMessageId: string | null;
  pinnedAt: string | null;
  editedAt: string | null;
  editCount: number;
  deletedAt: string | null;
  version: number;
};

/** A document as the archive has it; its content comes after it. */
export type DocumentEntry = {
  ref: Ref;
  where: string;
  parent: Ref | null;
  title: string;
  state: Document["state"];
  locked: boolean;
  revision: number;
  metadata: Document["metadata"];
  version: number;
  createdBy: string;
  createdAt: string;
  updatedAt: string;
  editedBy: string;
  editedAt: string;
  readers: DocumentAccess[];
  /** Not told by archives without revisions. */
  origin?: Origin | undefined;
};

/** An earlier revision of the document before it. */
export type RevisionEntry = CarriedRevision & { where: string };

/** A comment on the document before it. */
export type CommentEntry = Omit<CarriedComment, "id" | "parentId"> & {
  ref: OwnRef;
  where: string;
  parent: Ref | null;
};

/** A file as the archive has it; its content comes after it. */
export type FileEntry = {
  ref: OwnRef;
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
export class Refs {
  readonly #scope: string;

  constructor(tenantId: string, namespace: string) {
    this.#scope = `${tenantId}\n${namespace}`;
  }

  room(key: string, own: string | null = null): Ref {
    return { own, derived: this.#id("room", key) };
  }

  message(key: string, own: string | null = null): Ref {
    return { own, derived: this.#id("msg", key) };
  }

  /** Messages whose keys begin alike. What they begin with may be long, and is gone through once. */
  messagesUnder(start: string): (rest: string) => Ref {
    const begun = this.#begin("msg", start);
    return (rest) => ({ own: null, derived: idFrom("msg", begun.copy().update(rest)) });
  }

  document(key: string): Ref {
    return { own: key, derived: this.#id("doc", key) };
  }

  /** No comment is in two documents, whatever an archive says. */
  comment(documentKey: string, key: string): OwnRef {
    return { own: key, derived: this.#id("cmt", `${documentKey}\n${key}`) };
  }

  task(key: string): OwnRef {
    return { own: key, derived: this.#id("task", key) };
  }

  event(key: string): OwnRef {
    return { own: key, derived: this.#id("cal", key) };
  }

  meeting(key: string): OwnRef {
    return { own: key, derived: this.#id("mtg", key) };
  }

  /** Nobody is in two meetings under one id, whatever an archive says. */
  participant(meetingKey: string, key: string): OwnRef {
    return { own: key, derived: this.#id("part", `${meetingKey}\n${key}`) };
  }

  segment(meetingKey: string, key: string): OwnRef {
    return { own: key, derived: this.#id("seg", `${meetingKey}\n${key}`) };
  }

  file(key: string): FileEntry["ref"] {
    return { own: key, derived: this.#id("file", key) };
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
export function plainMessage(
  draft: Pick<MessageDraft, "ref" | "where" | "senderId" | "at" | "text">,
): MessageDraft {
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
export function plainPerson(id: string, displayName: string): PersonDraft {
  return {
    id,
    kind: "human",
    displayName,
    handle: null,
    role: "member",
    ownerId: null,
    externalId: null,
    timezone: null,
    locale: null,
    isDisabled: false,
    createdAt: null,
  };
}

/** A room as other products know rooms. */
export function plainRoom(
  draft: Pick<RoomDraft, "ref" | "kind" | "name" | "visibility"> & Partial<RoomDraft>,
): RoomDraft {
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
