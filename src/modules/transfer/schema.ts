// Imports and exports as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import type { EventType } from "@/core/event.ts";
import { pageInput, pageOf } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const ARCHIVE_MAX_BYTES = 4 * 1024 ** 3;
export const ENTRIES_MAX = 200_000;
export const UNZIPPED_MAX_BYTES = 16 * 1024 ** 3;
export const RATIO_MAX = 100;
/** One file of a Slack archive is read whole. */
export const ENTRY_MAX_BYTES = 64 * 1024 ** 2;
/** The longest is that of a document: its text, with every byte escaped. */
export const LINE_MAX_BYTES = 8 * 1024 ** 2;
const MAPPED_PRINCIPALS_MAX = 10_000;
export const EXPORT_KEPT_HOURS = 72;
/** Finished ones of a principal. */
export const EXPORTS_KEPT = 3;
export const UPLOAD_WITHIN_HOURS = 24;
export const EXAMPLES_MAX = 5;

const IMPORT_KINDS = ["slack", "mattermost", "gateway"] as const;
const IMPORT_STATES = ["waiting", "queued", "running", "done", "failed", "cancelled"] as const;
const EXPORT_STATES = ["queued", "running", "done", "failed", "expired"] as const;

const Id = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "1 to 64 of A-Z a-z 0-9 _ -");

/** Why an archive cannot be imported at all. */
const ARCHIVE_FAULTS = [
  "not_a_zip",
  "zip_truncated",
  "zip_encrypted",
  "zip_bomb",
  "too_many_entries",
  "too_large",
  "unsafe_name",
  "missing_file",
  "invalid_json",
  "unsupported_version",
  "internal",
] as const;

/** Why a part of an archive was left out, or came in changed. */
const SKIP_CODES = [
  "invalid_json",
  "invalid_record",
  "invalid_text",
  "line_too_long",
  "unknown_type",
  "unknown_entry",
  "unknown_room",
  "unknown_document",
  "unknown_task",
  "unknown_event",
  "unknown_meeting",
  "unknown_author",
  "unknown_principal",
  "room_deleted",
  "thread_root_missing",
  "reply_target_missing",
  "reaction_invalid",
  "too_many_reactions",
  "too_many_mentions",
  "too_many_members",
  "text_split",
  "shortened",
  "empty",
  "file_not_copied",
  "metadata_too_large",
  "slug_taken",
  "handle_taken",
  "handle_invalid",
  "client_message_id_taken",
  "archive_truncated",
  "document_damaged",
  "document_too_large",
  "parent_missing",
  "too_many_readers",
  "too_many_revisions",
  "too_many_comments",
  "anchor_invalid",
  "too_many_tasks",
  "too_many_relations",
  "prefix_taken",
  "key_taken",
  "position_taken",
  "too_many_exceptions",
  "too_many_answers",
  "uid_taken",
  "meeting_missing",
  "too_many_segments",
  "file_damaged",
  "file_refused",
] as const;
export type SkipCode = (typeof SKIP_CODES)[number];

const Failure = z.object({ code: z.enum(ARCHIVE_FAULTS), detail: z.string() }).meta({ id: "TransferFailure" });
export type Failure = z.output<typeof Failure>;

export const Counts = z.object({
  principals: z.int(),
  rooms: z.int(),
  members: z.int(),
  bans: z.int(),
  messages: z.int(),
  reactions: z.int(),
  edits: z.int(),
  documents: z.int(),
  revisions: z.int().describe("Of documents, besides what they are now"),
  comments: z.int().describe("Of documents, replies included"),
  files: z.int(),
  tasks: z.int(),
  activities: z.int().describe("What happened to tasks"),
  relations: z.int().describe("Of tasks, each once"),
  events: z.int().describe("Of calendars; a series is one"),
  meetings: z.int(),
  participants: z.int().describe("Of meetings; somebody who came twice is two"),
  segments: z.int().describe("Of transcripts"),
}).meta({ id: "TransferCounts" });
export type Counts = z.output<typeof Counts>;

export const Import = z.object({
  id: Id,
  kind: z.enum(IMPORT_KINDS),
  namespace: z.string(),
  state: z.enum(IMPORT_STATES).describe("waiting: the archive has yet to be uploaded, within 24 hours"),
  size: z.int().nullable().describe("Bytes of the archive"),
  progress: z.object({
    done: z.int().describe("Bytes of the archive dealt with"),
    total: z.int(),
    added: Counts.describe("What this import added"),
    present: z.int().describe("Messages that were there already"),
  }),
  report: z.array(z.object({
    code: z.enum(SKIP_CODES),
    count: z.int(),
    examples: z.array(z.string()).describe(`The first ${EXAMPLES_MAX}: where, and what`),
  })).describe("What was left out or changed, and why"),
  failure: Failure.nullable(),
  requestedBy: PrincipalId,
  version: z.int(),
  createdAt: z.iso.datetime(),
  startedAt: z.iso.datetime().nullable(),
  finishedAt: z.iso.datetime().nullable(),
}).meta({ id: "TransferImport" });
export type Import = z.output<typeof Import>;
export type Progress = Import["progress"];

export const ImportCreate = z.strictObject({
  kind: z.enum(IMPORT_KINDS).describe("slack: its zip; mattermost: bulk export, zip or JSONL; gateway: our NDJSON"),
  namespace: z.string().regex(/^[a-z0-9-]{1,32}$/, "1 to 32 of a-z 0-9 -").optional()
    .describe("Keeps two origins of one kind apart; repeat it when the import is repeated. Default: the kind"),
  principalMap: z.record(z.string().min(1).max(128), PrincipalId).default({})
    .refine((map) => Object.keys(map).length <= MAPPED_PRINCIPALS_MAX, `at most ${MAPPED_PRINCIPALS_MAX} principals`)
    .describe("Ids there (Slack: U…; Mattermost: usernames) to principal ids here; others become `slack:U…` and so on"),
});
export type ImportCreate = z.output<typeof ImportCreate>;

export const TransferRef = z.strictObject({ id: Id });
export const TransferList = z.strictObject({ ...pageInput });
export type TransferList = z.output<typeof TransferList>;
export const Imports = pageOf(Import);

export const Export = z.object({
  id: Id,
  kind: z.enum(["tenant", "room"]),
  roomId: RoomId.nullable(),
  format: z.literal("ndjson"),
  files: z.boolean().describe("Whether the contents of files are in it"),
  revisions: z.boolean().describe("Whether earlier revisions of documents are in it"),
  state: z.enum(EXPORT_STATES),
  size: z.int().nullable().describe("Bytes of the archive"),
  counts: Counts,
  failure: Failure.nullable(),
  requestedBy: PrincipalId,
  version: z.int(),
  createdAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
  expiresAt: z.iso.datetime().nullable()
    .describe(
      `${EXPORT_KEPT_HOURS} hours after it was finished, or sooner: the last ${EXPORTS_KEPT} of a principal are kept`,
    ),
}).meta({ id: "TransferExport" });
export type Export = z.output<typeof Export>;

export const ExportCreate = z.strictObject({
  kind: z.enum(["tenant", "room"]).describe("tenant: for its owners and admins; room: for owners of the room"),
  roomId: RoomId.optional().describe("The room, with kind room"),
  format: z.literal("ndjson").default("ndjson"),
  files: z.boolean().default(true)
    .describe(
      "The contents of files that messages show, and pictures, as well; an import takes archives of up to 4 GiB",
    ),
  revisions: z.boolean().default(true).describe("Earlier revisions of documents, each with its whole text, as well"),
});
export type ExportCreate = z.output<typeof ExportCreate>;
export const Exports = pageOf(Export);

/** Durable events on the stream of who asked. */
export const TRANSFER_EVENTS: readonly EventType[] = [
  {
    type: "import.updated",
    streams: ["principal"],
    summary: "An import of mine started or ended",
    data: z.object({ import: Import }),
  },
  {
    type: "export.updated",
    streams: ["principal"],
    summary: "An export of mine started or ended",
    data: z.object({ export: Export }),
  },
];
