// Imports and exports as seen from outside, and the events they cause.
import { z } from "@zod/zod";
import type { AnyArchiveSection, SkipReporting } from "@/core/archive/section.ts";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { boundedRecord } from "@/core/json.ts";
import { pageInput } from "@/core/page.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { RoomId } from "@/modules/room/mod.ts";

export const ARCHIVE_MAX_BYTES = 4 * 1024 ** 3;
export const ENTRIES_MAX = 200_000;
export const UNZIPPED_MAX_BYTES = 16 * 1024 ** 3;
export const RATIO_MAX = 100;
export const ENTRY_NAME_MAX_BYTES = 1024;
/** Names, extra fields and comments of all entries; they stay in memory while the archive is read. */
export const DIRECTORY_MAX_BYTES = 32 * 1024 ** 2;
/** The items of a file of a Slack archive are all there before they are written. */
export const ENTRY_MAX_BYTES = 64 * 1024 ** 2;
/** So many of them: an item of a few bytes takes a hundred times as many in memory. */
export const ENTRY_ITEMS_MAX = 200_000;
/** Reactions of a message in its line, of four values each. */
export const LINE_REACTIONS_MAX = 40_000;
const MAPPED_PRINCIPALS_MAX = 10_000;
export const EXPORT_RETENTION_HOURS = 72;
/** A person has one copy of their data within so many. */
export const OWN_EXPORT_HOURS = 24;
/** Finished ones of a principal. */
export const EXPORTS_PER_PRINCIPAL = 3;
export const UPLOAD_WITHIN_HOURS = 24;
export const EXAMPLES_MAX = 5;

const IMPORT_KINDS = ["slack", "mattermost", "gateway"] as const;
const ImportKind = z.enum(IMPORT_KINDS).meta({ id: "ImportKind" });
const IMPORT_STATES = ["waiting", "queued", "running", "done", "failed", "cancelled"] as const;
const EXPORT_KINDS = ["tenant", "room", "principal"] as const;
const ExportKindField = z.enum(EXPORT_KINDS).meta({ id: "TransferExportKind" });
const EXPORT_STATES = ["queued", "running", "done", "failed", "expired"] as const;

const Id = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, "expected 1 to 64 characters of A-Z a-z 0-9 _ -");

/** Why an archive cannot be imported at all, or not be written. */
const ARCHIVE_FAULTS = [
  "not_a_zip",
  "zip_truncated",
  "zip_corrupt",
  "zip_encrypted",
  "zip_bomb",
  "too_many_entries",
  "directory_too_large",
  "too_large",
  "name_too_long",
  "unsafe_name",
  "missing_file",
  "invalid_json",
  "unsupported_version",
  "quota_exceeded",
  "requester_disabled",
  "internal",
] as const;

/** Why a part of an archive was left out or changed, and which runs report that. Sections of other modules add theirs. */
export const CORE_SKIP_CODES: Readonly<Record<string, SkipReporting>> = {
  invalid_json: "each_run",
  invalid_record: "each_run",
  invalid_text: "each_run",
  line_too_long: "each_run",
  too_many_values: "each_run",
  unknown_type: "each_run",
  unknown_entry: "each_run",
  unknown_room: "each_run",
  unknown_author: "once",
  unknown_principal: "once",
  principal_erased: "each_run",
  room_deleted: "each_run",
  thread_root_missing: "once",
  reply_target_missing: "once",
  reaction_invalid: "once",
  too_many_reactions: "once",
  too_many_mentions: "once",
  too_many_items: "each_run",
  too_many_rooms: "each_run",
  too_many_members: "each_run",
  text_split: "each_run",
  truncated: "once",
  empty: "each_run",
  file_not_copied: "each_run",
  metadata_too_large: "once",
  elements_invalid: "once",
  slug_taken: "once",
  handle_taken: "once",
  handle_invalid: "once",
  client_message_id_taken: "once",
  archive_truncated: "each_run",
  file_corrupt: "each_run",
  file_rejected: "each_run",
};

const Failure = z.object({ code: z.enum(ARCHIVE_FAULTS), detail: z.string() }).meta({ id: "TransferFailure" });
export type Failure = z.output<typeof Failure>;

/** What is counted, and a description of it. Sections of other modules add theirs. */
const CORE_COUNTS = {
  principals: "Principals",
  rooms: "Rooms",
  members: "Memberships",
  bans: "Bans",
  messages: "Messages",
  reactions: "Reactions",
  edits: "Earlier versions of messages",
  files: "Files",
};
export type Counts = Record<keyof typeof CORE_COUNTS, number> & Record<string, number>;

/** Zero for everything that is counted. */
export function zeroCounts(sections: readonly AnyArchiveSection[] = []): Counts {
  const names = [CORE_COUNTS, ...sections.map(({ counts }) => counts)].flatMap((counts) => Object.keys(counts));
  return Object.fromEntries(names.map((name) => [name, 0])) as Counts; // has all of the core
}

export const ImportCreate = z.strictObject({
  kind: ImportKind.describe(
    "slack: zip file; mattermost: bulk export, zip or JSONL; gateway: NDJSON export of a gateway",
  ),
  namespace: z.string().regex(/^[a-z0-9-]{1,32}$/, "expected 1 to 32 characters of a-z 0-9 -").optional()
    .describe(
      "Distinguishes several sources of the same kind; use the same value when repeating an import. Default: " +
        "the kind",
    ),
  principalMap: boundedRecord(z.string().min(1).max(128), PrincipalId, MAPPED_PRINCIPALS_MAX, "principals").default({})
    .describe(
      "Maps source ids (Slack: U…; Mattermost: usernames) to principal ids; unmapped ones become `slack:U…` and " +
        "so on",
    ),
});
export type ImportCreate = z.output<typeof ImportCreate>;

export const TransferRef = z.strictObject({ id: Id });
export const TransferList = z.strictObject({ ...pageInput });
export type TransferList = z.output<typeof TransferList>;
export const ExportCreate = z.strictObject({
  kind: ExportKindField.describe(
    "tenant: for its owners and admins; room: for owners of the room; principal: what there is of the caller, for people, once " +
      "in 24 hours, with a token that has all scopes",
  ),
  roomId: RoomId.optional().describe("Required with kind room"),
  format: z.literal("ndjson").default("ndjson"),
  files: z.boolean().default(true)
    .describe(
      "Include the contents of profile pictures and of files shown in messages and documents; archives larger than 4 GiB " +
        "cannot be imported",
    ),
  revisions: z.boolean().default(true).describe("Include earlier revisions of documents, each with its whole text"),
});
export type ExportCreate = z.output<typeof ExportCreate>;
export const DownloadQuery = z.strictObject({ format: z.enum(["ndjson", "html"]).default("ndjson") });

/** What both return, with the counts and codes of these sections. */
// The return type is inferred, because it carries the fields.
// deno-lint-ignore explicit-module-boundary-types
export function transferSchemas(sections: readonly AnyArchiveSection[]) {
  const counts = Object.entries({ ...CORE_COUNTS, ...Object.assign({}, ...sections.map((section) => section.counts)) });
  const Counts: z.ZodType<Counts> = z.object(
    Object.fromEntries(counts.map(([name, description]) => [name, z.int().describe(String(description))])),
  ).meta({ id: "TransferCounts" }) as never; // has all of the core
  const codes = Object.keys({
    ...CORE_SKIP_CODES,
    ...Object.assign({}, ...sections.map(({ skipCodes }) => skipCodes)),
  });
  const Import = z.object({
    id: Id,
    kind: ImportKind,
    namespace: z.string().describe("Distinguishes several sources of the same kind"),
    state: z.enum(IMPORT_STATES).describe("waiting: the archive must be uploaded within 24 hours"),
    size: z.int().nullable().describe("Size of the archive in bytes"),
    progress: z.object({
      done: z.int().describe("Bytes of the archive processed so far"),
      total: z.int().describe("Size of the archive in bytes"),
      added: Counts.describe("Number of items created by this import"),
      present: z.int().describe("Number of messages that already existed"),
    }).describe("Progress of the import"),
    report: z.array(z.object({
      code: z.enum(codes).describe("Machine-readable reason"),
      count: z.int().describe("Number of occurrences"),
      examples: z.array(z.string()).describe(`First ${EXAMPLES_MAX} occurrences: location and detail`),
    })).describe("What was skipped or changed, and why"),
    failure: Failure.nullable(),
    requestedBy: PrincipalId,
    version: z.int(),
    createdAt: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable(),
    finishedAt: z.iso.datetime().nullable(),
  }).meta({ id: "TransferImport" });
  const Export = z.object({
    id: Id,
    kind: ExportKindField,
    roomId: RoomId.nullable().describe("null also if another principal exported a room that the caller cannot see"),
    format: z.literal("ndjson"),
    files: z.boolean().describe("Whether it includes the contents of files"),
    revisions: z.boolean().describe("Whether it includes earlier revisions of documents"),
    state: z.enum(EXPORT_STATES),
    size: z.int().nullable().describe("Size of the archive in bytes"),
    counts: Counts,
    failure: Failure.nullable(),
    requestedBy: PrincipalId,
    version: z.int(),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
    expiresAt: z.iso.datetime().nullable()
      .describe(
        `When the file is deleted: ${EXPORT_RETENTION_HOURS} hours after completion, or earlier because only the last ` +
          `${EXPORTS_PER_PRINCIPAL} exports of a principal are stored`,
      ),
  }).meta({ id: "TransferExport" });
  return { Import, Export };
}
type Schemas = ReturnType<typeof transferSchemas>;
export type Import = z.output<Schemas["Import"]>;
export type Progress = Import["progress"];
export type Export = z.output<Schemas["Export"]>;

/** Durable events on the stream of the principal that created the import or export. */
export function transferEvents({ Import, Export }: Schemas): readonly EventType[] {
  return eventTypes("transfer.manage", [
    {
      type: "import.updated",
      streams: ["principal"],
      summary: "An import of the principal started or ended",
      data: z.object({ import: Import }),
    },
    {
      type: "export.updated",
      streams: ["principal"],
      summary: "An export of the principal started or ended",
      data: z.object({ export: Export }),
    },
  ]);
}
