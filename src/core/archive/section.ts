// What a module provides so that its resources are exported to archives and imported from them.
import type { z } from "@zod/zod";
import type { PrincipalKind } from "../actor.ts";
import { nextSlice } from "../caller.ts";
import type { OriginalRef } from "./ids.ts";

const BATCH = 100;

/**
 * A part of a container (a room, a document, or "" for none), by its name. A part that was imported or exported, and then
 * deleted, is not imported again.
 */
export type ImportedPart = { container: string; name: string };

/** Which runs of an import report a code: each run that reads the record, or only the one that imports it. */
export type SkipReporting = "each_run" | "once";

/** The records of a module. Sections are written in the order of their modules. */
export type ArchiveSection<Tx> = {
  /** For the API: which records it writes, and how it imports them. */
  description: { exported: string; imported?: string };
  /** What is counted, by name, each with a description. */
  counts: Readonly<Record<string, string>>;
  /** Why records are left out or changed, besides the codes that all sections share. */
  skipCodes: Readonly<Record<string, SkipReporting>>;
  /** Records of a room, some at a time. */
  exportRoom?(context: ExportContext, roomId: string): AsyncGenerator<unknown[]>;
  /** Records that are in no room; only in exports of a tenant. */
  exportPersonal?(context: ExportContext): AsyncGenerator<unknown[]>;
  /** What a person wrote that no list of the API shows as theirs, some at a time; for a copy of their data, not for import. */
  exportOwn?(tenantId: string, principalId: string): AsyncGenerator<Readonly<Record<string, unknown>>[]>;
  /** Imports one archive. */
  createImporter(context: ImportContext<Tx>): SectionImporter;
};

/** Each module knows the types of its own tables alone. */
// deno-lint-ignore no-explicit-any
export type AnyArchiveSection = ArchiveSection<any>;

export type ExportContext = {
  tenantId: string;
  /** The principal that asked for the export. */
  requestedBy: string;
  /** Whether only one room is exported, so that nothing of other rooms may be named. */
  isRoomOnly: boolean;
  /** In the export of a room: positions of its stream up to this one are hidden from who asked for it. */
  hiddenUpTo: number;
  /** Whether earlier revisions are asked for. */
  withRevisions: boolean;
  /** Records of those of these principals that have none yet; to be written before they are named. */
  principalRecords(ids: readonly string[]): Promise<unknown[]>;
  /** Records with the bytes of what was written last, in pieces. */
  contentRecords(of: string, content: Iterable<Uint8Array>): AsyncGenerator<unknown>;
  /** Records of the files that are attached to these owners, if files are asked for; to be written before them. */
  fileRecords(...owners: string[]): AsyncGenerator<unknown[]>;
  /** These parts are in the archive. */
  recordExported(parts: readonly ImportedPart[]): void;
  count(name: string, items: number): void;
};

/** A batch of records with longer texts is written at once, in UTF-16 units. */
export const PENDING_MAX_UNITS = 1024 * 1024;

/** Imports the records of a section, in their order. */
export interface SectionImporter {
  /** By type. */
  readonly records: Readonly<Record<string, RecordHandler>>;
  /** Called before each record of these types, whether or not it fits its schema. */
  beforeRecord?(type: string): Promise<void> | void;
  /** Writes what is buffered. Called before records of another section, and at the end of each room. */
  flush(): Promise<void>;
}

/** What receives records of a type, once they fit its schema. */
export type RecordHandler = {
  schema: z.ZodType;
  importRecord(record: unknown, position: RecordPosition): Promise<void> | void;
};

/** Where a record is in its archive. */
export type RecordPosition = {
  /** For the report. */
  where: string;
  /** The room that the record follows, by its id in the archive, and here: `undefined` if it was deleted here. */
  room: { sourceId: string; id: string | undefined } | undefined;
  /** The bytes that follow the record; throws `CorruptContent`. */
  content(of: string): AsyncGenerator<Uint8Array>;
};

export interface ImportReport {
  /** Reports that something at `where` was left out or changed. */
  skip(code: string, where: string, count?: number): void;
  /** Counts what was added. */
  count(name: string, items: number): void;
  /** The name, sanitized and no longer than `max` code points. */
  truncateName(name: string, max: number, where: string): string;
  /** The metadata, or none if they are too large. */
  limitMetadata<Given extends Record<string, unknown>>(metadata: Given, where: string): Given | Record<string, never>;
}

/** The parts that were here, or are in an export. */
export interface ImportHistory {
  /** The items that were never here, under none of their `names`. */
  filterNew<Item>(items: readonly Item[], names: (item: Item) => readonly ImportedPart[]): Promise<Item[]>;
  record(parts: readonly ImportedPart[]): Promise<void>;
  /** The container is new here: nothing of it was here. */
  clear(container: string): Promise<void>;
}

/** A message of the archive: the id it has here or would get, and its room and thread, if it exists. */
type MessageLocation = { id: string; roomId: string | undefined; threadId: string | null };

export interface ImportContext<Tx> {
  readonly tenantId: string;
  /** The principal that imports the archive. */
  readonly requestedBy: string;
  readonly report: ImportReport;
  /** The current time, as rows store it. */
  readonly now: string;
  /** The ids that a resource of the archive may have here; `scope` is what its id is unique in, if not everywhere. */
  refOf(idPrefix: string, sourceId: string, scope?: string): OriginalRef;
  /** A transaction of the running import. What `report` was given in it is undone with it. */
  write<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /** Creates disabled principals for ids that do not exist. */
  createPlaceholders(tx: Tx, ids: readonly string[]): Promise<void>;
  /** Kinds of those of these principals that exist. */
  principalKinds(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, PrincipalKind>>;
  /** Whether a file, by its id here, came with its content. */
  hasFile(id: string): boolean;
  /** Messages by their ids in the archive. */
  locateMessages(tx: Tx, sourceIds: readonly string[]): Promise<ReadonlyMap<string, MessageLocation>>;
  history(tx: Tx): ImportHistory;
}

/** A record and where it is in its archive, for the report. */
export type LocatedRecord<Schema extends z.ZodType> = { where: string; record: z.output<Schema> };

export function handleRecord<Schema extends z.ZodType>(
  schema: Schema,
  importRecord: (record: z.output<Schema>, position: RecordPosition) => Promise<void> | void,
): RecordHandler {
  return { schema, importRecord };
}

/** Imports records of one type, some in a transaction, each as the item that it was read to; without one it is left out. */
export function batchImporter<Tx, Schema extends z.ZodType, Item>(
  context: Pick<ImportContext<Tx>, "write">,
  { type, schema, read, importBatch }: {
    type: string;
    schema: Schema;
    read: (record: z.output<Schema>, position: RecordPosition) => Promise<Item | undefined> | Item | undefined;
    importBatch: (tx: Tx, batch: readonly Item[]) => Promise<void>;
  },
): SectionImporter {
  let pending: Item[] = [];
  const flush = async (): Promise<void> => {
    const batch = pending;
    pending = [];
    if (batch.length === 0) return;
    await context.write((tx) => importBatch(tx, batch));
    // Other readers and writers run between batches.
    await nextSlice();
  };
  const handler = handleRecord(schema, async (record, position) => {
    const item = await read(record, position);
    if (item === undefined) return;
    pending.push(item);
    if (pending.length >= BATCH) await flush();
  });
  return { records: { [type]: handler }, flush };
}

/** For records of a room: reports those of a room they do not follow, and ignores those of a room that was deleted here. */
export function handleRoomRecord<Schema extends z.ZodType<{ roomId: string }>>(
  { report }: { report: ImportReport },
  schema: Schema,
  importRecord: (record: z.output<Schema>, where: string, roomId: string) => Promise<void> | void,
): RecordHandler {
  return handleRecord(schema, async (record, { where, room }) => {
    if (room?.sourceId !== record.roomId) report.skip("unknown_room", where);
    else if (room.id !== undefined) await importRecord(record, where, room.id);
  });
}

/** The content of a record is not what the archive says of it. */
export class CorruptContent extends Error {
  override readonly name = "CorruptContent";
}
