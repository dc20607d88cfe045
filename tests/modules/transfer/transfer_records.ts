// Lines of an archive of our own format, complete and with nothing in them.
import type { Any } from "./transfer_fixture.ts";

export const CREATED_AT = "2026-01-01T00:00:00.000Z";
export const HEADER = { type: "export", version: 1 };
export const END = { type: "end" };

export const principal = (id: string, more: Any = {}): Any => ({
  type: "principal",
  id,
  kind: "human",
  handle: null,
  displayName: id,
  role: "member",
  ownerId: null,
  externalId: null,
  timeZone: null,
  locale: null,
  disabled: false,
  createdAt: CREATED_AT,
  ...more,
});
export const room = (id: string, more: Any = {}): Any => ({
  type: "room",
  id,
  kind: "channel",
  name: id,
  slug: null,
  topic: null,
  description: null,
  visibility: "private",
  historyVisibility: "shared",
  state: "active",
  agentPolicy: { mode: "mention", maxAgentTurns: 3 },
  retentionDays: null,
  metadata: {},
  createdBy: "ann",
  createdAt: CREATED_AT,
  ...more,
});
export const member = (roomId: string, principalId: string, role = "member"): Any => ({
  type: "member",
  roomId,
  principalId,
  role,
  joinedAt: CREATED_AT,
});
export const message = (roomId: string, id: string, more: Any = {}): Any => ({
  type: "message",
  id,
  roomId,
  senderId: "ann",
  kind: "text",
  text: id,
  format: "markdown",
  threadId: null,
  replyToId: null,
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
  createdAt: CREATED_AT,
  ...more,
});
