// Operations, routes and jobs of transfers.
import type { Clock } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import type { Cursors } from "@/core/page.ts";
import type { Route } from "@/core/route.ts";
import { steady } from "@/modules/file/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import type { Store } from "@/ports/store.ts";
import { Brought } from "./brought.ts";
import type { Contents } from "./contents.ts";
import { ExportService } from "./export_service.ts";
import { ImportService } from "./import_service.ts";
import {
  ARCHIVE_MAX_BYTES,
  Export,
  EXPORT_KEPT_HOURS,
  ExportCreate,
  Exports,
  EXPORTS_KEPT,
  Import,
  ImportCreate,
  Imports,
  TRANSFER_EVENTS,
  TransferList,
  TransferRef,
} from "./schema.ts";
import type { TransferTables } from "./store.ts";

const IMPORTS = "/v1/collaboration/imports";
const EXPORTS = "/v1/collaboration/exports";
const IMPORT = { id: "imp_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" };
const EXPORT = { id: "exp_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" };

type Deps = {
  store: Store<TransferTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  blobs: Blobs;
  contents: Contents;
  membersMax: number;
};

/** The module, and how to make what runs stop so that it goes on at the next start. */
export type Transfer = { module: Module; stop(): void };

/** The transfer module. */
export function transferModule({ gate, membersMax, ...deps }: Deps): Transfer {
  let isStopping = false;
  const ledger = { ...deps, isStopping: () => isStopping };
  const imports = new ImportService({ ...ledger, membersMax });
  const exports = new ExportService({ ...ledger, gate });
  return {
    stop() {
      isStopping = true;
    },
    module: {
      name: "transfer",
      operations: [...importOperations(imports), ...exportOperations(exports)],
      routes: [uploadRoute(imports), downloadRoute(exports)],
      jobs: [...imports.jobs, ...exports.jobs],
      purgeRoom: (tenantId, roomId) => deps.store.write((tx) => new Brought(tx, tenantId).forget(roomId)),
      events: TRANSFER_EVENTS,
      capability: () => ({
        imports: ["slack", "mattermost", "gateway"],
        exports: ["ndjson"],
        archiveMaxBytes: ARCHIVE_MAX_BYTES,
        exportKeptHours: EXPORT_KEPT_HOURS,
        exportsKept: EXPORTS_KEPT,
      }),
    },
  };
}

function importOperations(imports: ImportService): Operation[] {
  const access = { scope: "transfer.manage", tenant: "admin" } as const;
  return [
    defineOperation({
      name: "transfer_import.create",
      summary: "Ask for an import; upload the archive to its content next",
      description: "What an archive holds gets ids that follow from its source, so importing again adds only what is " +
        "missing. Original times, authors, threads, pins and order are kept; everything is read for everybody. Ids of our own " +
        "exports are kept where they are free, else they map to others, always the same. Documents and contents of " +
        "files come in with our own exports, within the limits that are here; of others' exports messages keep the " +
        "names and links of files. A document that is there stays as it is, and gets the comments it does not have and " +
        "revisions older than any it has. Who is banned from a room does not come back into it. Tasks keep their keys and " +
        "places on the board where those are free; one that is there stays as it is, and gets the relations it does not " +
        "have. An event whose calendar has one of its uid is left out; series, answers and meetings come in whole. What " +
        "came in, or went out with an export, and was deleted here since, or left, does not come in again. Nobody is " +
        "notified of what comes in, and reminded only of what is still to come.",
      access,
      http: { method: "POST", path: IMPORTS, status: 201 },
      input: ImportCreate,
      output: Import,
      faults: ["already_running"],
      example: { kind: "slack", principalMap: { U02ABCDEF: "alice" } },
      run: async ({ actor }, input) => {
        const made = await imports.create(actor, input);
        return new Outcome(made, { location: `${IMPORTS}/${made.id}` });
      },
    }),
    defineOperation({
      name: "transfer_import.list",
      summary: "Imports of the tenant, the newest first",
      access,
      http: { method: "GET", path: IMPORTS, status: 200 },
      input: TransferList,
      output: Imports,
      faults: ["invalid_cursor"],
      example: { limit: 50 },
      run: ({ actor }, input) => imports.list(actor, input),
    }),
    defineOperation({
      name: "transfer_import.read",
      summary: "How far an import is, and what it left out and why",
      access,
      http: { method: "GET", path: `${IMPORTS}/:id`, status: 200 },
      input: TransferRef,
      output: Import,
      faults: ["not_found"],
      example: IMPORT,
      run: ({ actor }, { id }) => imports.read(actor, id),
    }),
    defineOperation({
      name: "transfer_import.cancel",
      summary: "End an import; what came in stays",
      access,
      http: { method: "POST", path: `${IMPORTS}/:id/cancel`, status: 200 },
      input: TransferRef,
      output: Import,
      faults: ["not_found", "conflict"],
      example: IMPORT,
      run: ({ actor }, { id }) => imports.cancel(actor, id),
    }),
  ];
}

function exportOperations(exports: ExportService): Operation[] {
  const access = { scope: "transfer.manage" } as const;
  return [
    defineOperation({
      name: "transfer_export.create",
      summary: "Export a room one owns, or the tenant one runs, as NDJSON that an import takes back",
      description:
        "A line each for principals, rooms, members, bans, messages (with the last of what they said before they were " +
        "edited, up to 4 MiB of it, and their reactions, the first that fit into a line of 8 MiB), documents (with their text in Markdown), files that messages show " +
        "and pictures of principals; lines of type `content` follow the document or file they are `of`, with its Yjs " +
        "state or its bytes, in base64 pieces. After a document come its kept revisions, if they are wanted, the newest " +
        "first, and its comments, replies after what they reply to, anchored by places in its Yjs state. That of a " +
        "tenant has private documents with their readers. After a room's documents come its " +
        "tasks: how they are numbered (`task_board`), each (`task`) after the one it lies under, what happened to it " +
        "(`task_activity`), the last first, and how they relate (`task_relation`), in the export of a room among " +
        "themselves only. Then come its meetings (`meeting`, `meeting_participant`, `meeting_consent`), one that goes on " +
        "as ended, with what was said (`meeting_segment`); then its events (`event`), each followed by what single " +
        "occurrences have otherwise (`event_override`) and the answers to those (`event_answer`). The export of a room " +
        "has the events that all of the room may see; that of a tenant has all, and personal ones. Not in it: " +
        "recordings, what was deleted, what is one principal's alone (read positions, notifications, scheduled " +
        "messages, feeds of calendars, preferences), settings, and tokens of any kind. It is written while others go on: " +
        "what is moved meanwhile, from one place to another, may be in it twice or not at all.",
      access,
      http: { method: "POST", path: EXPORTS, status: 202 },
      input: ExportCreate,
      output: Export,
      faults: ["not_found", "already_running"],
      example: { kind: "room", roomId: "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" },
      run: async (context, input) => {
        const made = await exports.create(context, input);
        return new Outcome(made, { location: `${EXPORTS}/${made.id}` });
      },
    }),
    defineOperation({
      name: "transfer_export.list",
      summary: "My exports, or all of the tenant for those who run it; the newest first",
      access,
      http: { method: "GET", path: EXPORTS, status: 200 },
      input: TransferList,
      output: Exports,
      faults: ["invalid_cursor"],
      example: { limit: 50 },
      run: ({ actor }, input) => exports.list(actor, input),
    }),
    defineOperation({
      name: "transfer_export.read",
      summary: "How far an export is",
      access,
      http: { method: "GET", path: `${EXPORTS}/:id`, status: 200 },
      input: TransferRef,
      output: Export,
      faults: ["not_found"],
      example: EXPORT,
      run: ({ actor }, { id }) => exports.read(actor, id),
    }),
  ];
}

const ID_PARAMETER = { name: "id", in: "path", required: true, schema: { type: "string" } };

function uploadRoute(imports: ImportService): Route {
  return {
    name: "transfer_import.upload",
    summary: "Upload the archive of an import, which then runs",
    tag: "transfer",
    method: "PUT",
    path: `${IMPORTS}/:id/content`,
    body: "stream",
    isLong: true,
    auth: "bearer",
    scope: "transfer.manage",
    faults: ["not_found", "conflict", "payload_too_large", "bad_request"],
    document: {
      parameters: [ID_PARAMETER],
      requestBody: {
        required: true,
        content: { "application/octet-stream": { schema: { type: "string", format: "binary" } } },
      },
      responses: {
        "202": {
          description: "The import is queued",
          content: { "application/json": { schema: { $ref: "#/components/schemas/TransferImport" } } },
        },
      },
    },
    async handle(request, { actor, params }) {
      if (request.body === null) throw new Fault("bad_request", "The archive is empty");
      const queued = await imports.upload(actor, params.id ?? "", steady(request.body));
      return Response.json(queued, { status: 202 });
    },
  };
}

function downloadRoute(exports: ExportService): Route {
  return {
    name: "transfer_export.download",
    summary: "Download a finished export, for 72 hours; the last three of a principal are kept",
    tag: "transfer",
    method: "GET",
    path: `${EXPORTS}/:id/content`,
    isLong: true,
    auth: "bearer",
    scope: "transfer.manage",
    faults: ["not_found", "forbidden", "conflict", "gone"],
    document: {
      parameters: [ID_PARAMETER],
      responses: {
        "200": {
          description: "NDJSON",
          content: { "application/x-ndjson": { schema: { type: "string" } } },
        },
      },
    },
    async handle(_request, { actor, params }) {
      const { stream, size } = await exports.content(actor, params.id ?? "");
      return new Response(stream, {
        headers: {
          "content-type": "application/x-ndjson",
          "content-length": String(size),
          "content-disposition": `attachment; filename="${params.id}.ndjson"`,
          "cache-control": "private, no-store",
        },
      });
    },
  };
}
