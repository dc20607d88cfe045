// Resources of the API, as far as the client reads them. `/openapi.json` describes them in full.

export type Page<Item> = { items: Item[]; nextCursor: string | null; hasMore: boolean };
type PrincipalKind = "human" | "agent" | "service";
type TenantRole = "guest" | "member" | "auditor" | "admin" | "owner";
type Status = { text: string | null; emoji: string | null; until: string | null };

export type Person = {
  id: string;
  kind: PrincipalKind;
  handle: string | null;
  displayName: string;
  avatarFileId: string | null;
  status: Status | null;
};
export type Principal = Person & {
  role: TenantRole;
  ownerId: string | null;
  timeZone: string | null;
  disabled: boolean;
  version: number;
  createdAt: string;
};
export type Group = {
  id: string;
  handle: string | null;
  name: string;
  description: string | null;
  memberCount: number | null;
  version: number;
};
export type NotificationPrefs = Record<
  "mentions" | "directMessages" | "replies" | "invitations" | "reminders",
  boolean
>;
export type Me = {
  principal: Principal;
  tenant: { id: string; name: string; version: number };
  roles: TenantRole[];
  scopes: string[] | null;
  notificationPrefs: NotificationPrefs;
  readReceipts: boolean;
  limits: Record<string, number>;
  tokenExpiresAt: string | null;
};

export type RoomRole = "observer" | "member" | "moderator" | "owner";
export type RoomSettings = {
  level: "all" | "mentions" | "none";
  mutedUntil: string | null;
  favoriteOrder: number | null;
};
type LastMessage = {
  id: string;
  seq: number;
  senderId: string;
  senderName: string;
  preview: string | null;
  hasFiles: boolean;
  createdAt: string;
  deletedAt: string | null;
};
export type Room = {
  id: string;
  name: string;
  topic: string | null;
  description: string | null;
  kind: "channel" | "direct" | "task" | "meeting";
  visibility: "public" | "private";
  historyVisibility: "shared" | "joined";
  agentPolicy: { mode: "mention" | "all" | "off" };
  retentionDays: number | null;
  state: "active" | "archived" | "deleted";
  memberCount: number;
  lastSeq: number;
  epoch: string;
  lastMessageAt: string | null;
  unreadCount: number;
  mentionCount: number;
  lastReadSeq: number;
  mySettings: RoomSettings | null;
  myRole: RoomRole | null;
  version: number;
  direct?: { name: string; principals: Person[] };
  lastMessage?: LastMessage | null;
};
export type Member = {
  principalId: string;
  kind: PrincipalKind;
  displayName: string;
  avatarFileId: string | null;
  status: Status | null;
  role: RoomRole;
  lastReadSeq: number | null;
};

export type Reaction = { key: string; count: number; me?: boolean; principalIds?: string[] };
export type MessageFile = {
  id: string;
  name: string;
  contentType: string;
  size: number;
  width: number | null;
  height: number | null;
};
export type GroupMention = { id: string; handle: string; state: "mentioned" | "empty" | "too_many" };
export type IgnoredMention = {
  name: string;
  reason: "not_allowed" | "too_many_groups" | "too_many_principals" | "too_many_names";
};
export type Mentions = { principalIds: string[]; room: boolean; groups?: GroupMention[]; ignored?: IgnoredMention[] };
export type Message = {
  id: string;
  roomId: string;
  seq: number;
  senderId: string;
  senderKind: PrincipalKind;
  type: "text" | "notice" | "system" | "file" | "custom";
  text: string | null;
  format: "markdown" | "plain";
  threadId: string | null;
  replyToId: string | null;
  mentions: Mentions;
  files: MessageFile[];
  reactions: Reaction[];
  pinned: boolean;
  replyCount: number;
  lastReplyAt: string | null;
  clientMessageId: string | null;
  metadata: Record<string, unknown>;
  elements?: Element[];
  editedAt: string | null;
  deletedAt: string | null;
  version: number;
  createdAt: string;
};
type Option = { value: string; label: string };
export type FormField =
  & { name: string; label: string; required: boolean }
  & (
    | { kind: "text"; maxLength: number; multiline: boolean }
    | { kind: "number"; min?: number; max?: number }
    | { kind: "boolean" }
    | { kind: "select"; options: Option[]; multiple: boolean }
  );
/** What a message may have below its text. */
export type Element =
  & { id: string; label: string }
  & (
    | { kind: "button"; style: "default" | "primary" | "danger"; value?: string; confirm?: string }
    | { kind: "select"; options: Option[] }
    | { kind: "link"; url: string }
    | { kind: "form"; fields: FormField[]; submit: string }
  );
export type Messages = {
  items: Message[];
  hasBefore: boolean;
  hasAfter: boolean;
  lastSeq: number;
  epoch: string;
  senders?: Person[];
};
export type ScheduledMessage = {
  id: string;
  roomId: string;
  sendAt: string;
  state: "scheduled" | "failed";
  failure: { code: string; detail: string } | null;
  message: { text: string; fileIds: string[] };
};
export type Unread = {
  roomId: string;
  lastReadSeq: number;
  unreadCount: number;
  mentionCount: number;
  lastSeq: number;
};

export type Notification = {
  id: string;
  kind: string;
  actor: { id: string; kind: PrincipalKind } | null;
  roomId: string | null;
  messageId: string | null;
  resource: { type: string; id: string } | null;
  title: string | null;
  preview?: string | null;
  /** `callerId`: of a missed call; `startAt`: of an event. */
  data: { callerId?: string; startAt?: string };
  readAt: string | null;
  version: number;
  createdAt: string;
};

export type StreamPosition = { channel: string; epoch: string; offset: number };
export type Sync = {
  rooms: Room[];
  unreadNotificationCount: number;
  presence: { principalId: string }[];
  positions: StreamPosition[];
};

/** An event of a stream, or a publication that is not stored. */
export type LiveEvent = {
  id?: string;
  type: string;
  at: string;
  actor: { id: string; kind: PrincipalKind } | null;
  // deno-lint-ignore no-explicit-any -- its shape depends on the type, which every listener checks first
  data: any;
};
