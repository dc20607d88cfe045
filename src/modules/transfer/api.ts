// Operations, routes and jobs of transfers.
import type { AnyArchiveSection } from "@/core/archive/section.ts";
import { Fault } from "@/core/fault.ts";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { pageSchema } from "@/core/page.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import { jsonResponse, parseQuery, type Route } from "@/core/http/route.ts";
import { enforceMinimumRate } from "@/modules/file/mod.ts";
import { toPage } from "./export/page.ts";
import { EXPORT_ACCESS, type ExportService } from "./export/service.ts";
import type { ImportService } from "./import/service.ts";
import {
  DownloadQuery,
  ExportCreate,
  ImportCreate,
  transferEvents,
  TransferList,
  TransferRef,
  transferSchemas,
} from "./schema.ts";

const IMPORTS = "/v1/collaboration/imports";
const EXPORTS = "/v1/collaboration/exports";
const IMPORT = { id: exampleId("imp") };
const EXPORT = { id: exampleId("exp") };

/** What clients see of imports and exports. */
export function transferApi(
  imports: ImportService,
  exports: ExportService,
  sections: readonly AnyArchiveSection[],
): ModuleApi {
  const schemas = transferSchemas(sections);
  return {
    tags: {
      imports: "Import of archives of Slack, Mattermost or another gateway.",
      exports: "Export of a room or a tenant as an archive.",
    },
    operations: [...importOperations(imports, schemas, sections), ...exportOperations(exports, schemas, sections)],
    routes: [uploadRoute(imports), downloadRoute(exports)],
    events: transferEvents(schemas),
  };
}

function importOperations(
  imports: ImportService,
  { Import }: ReturnType<typeof transferSchemas>,
  sections: readonly AnyArchiveSection[],
): Operation[] {
  const access = { scope: "transfer.manage", tenant: "admin" } as const;
  return [
    defineOperation({
      name: "import.create",
      summary: "Create an import; upload its archive next",
      description: "Imports can be repeated: ids are derived from the source, so a repeated import adds only what is " +
        "missing. Times, authors, threads, pins and order are preserved; all messages are marked as read for " +
        "everybody. No notifications are sent, except reminders that are still due. Data that was imported or " +
        "exported and then deleted here is not imported again, and neither are members who left or were banned.\n\n" +
        "Exports of a gateway keep their ids if these are free; otherwise they are mapped to other ids, the same " +
        "in each import. They include documents and file contents, subject to the limits of this gateway; from " +
        "other sources, messages keep only the names and links of files. " +
        sections.flatMap(({ description }) => description.imported ?? []).join(" "),
      access,
      http: { method: "POST", path: IMPORTS, status: 201, hasLocation: true },
      input: ImportCreate,
      output: Import,
      faults: ["already_running"],
      example: { kind: "slack", principalMap: { U02ABCDEF: "alice" } },
      run: async ({ actor }, input) => {
        const created = await imports.create(actor, input);
        return new Outcome(created, { location: `${IMPORTS}/${created.id}` });
      },
    }),
    defineOperation({
      name: "import.list",
      summary: "List the imports of the tenant, newest first",
      access,
      http: { method: "GET", path: IMPORTS, status: 200 },
      input: TransferList,
      output: pageSchema(Import),
      faults: ["invalid_cursor"],
      example: { limit: 50 },
      run: ({ actor }, input) => imports.list(actor, input),
    }),
    defineOperation({
      name: "import.read",
      summary: "Get the progress and report of an import",
      access,
      http: { method: "GET", path: `${IMPORTS}/:id`, status: 200 },
      input: TransferRef,
      output: Import,
      faults: ["not_found"],
      example: IMPORT,
      run: ({ actor }, { id }) => imports.read(actor, id),
    }),
    defineOperation({
      name: "import.cancel",
      summary: "Cancel an import; imported data is not removed",
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

function exportOperations(
  exports: ExportService,
  { Export }: ReturnType<typeof transferSchemas>,
  sections: readonly AnyArchiveSection[],
): Operation[] {
  const access = { scope: "transfer.manage" } as const;
  return [
    defineOperation({
      name: "export.create",
      summary: "Create an export of a room, of the tenant, or of what there is of the caller",
      description: "The export is NDJSON that can be imported again, one record per line:\n\n" +
        "- principals, rooms, members, bans and messages, with their most recent earlier versions (up to 4 MiB) and reactions " +
        "(as many as fit into a line of 8 MiB)\n" +
        "- files shown in messages and documents, and profile pictures. Records of type `content` follow the document or file " +
        "in `of` and have its Yjs state or its bytes as pieces in base64\n" +
        sections.map(({ description }) => `- ${description.exported}\n`).join("") +
        "\nThe copy of the caller's own data cannot be imported. It has the caller's profile with settings, rooms, messages (also in " +
        "rooms that the caller has left), reactions, scheduled messages, uploads, tasks, documents, events, facts, notifications, " +
        "agents, webhooks, and tokens without their secrets. A notification says when it is complete. It can be downloaded as a page to read, too.\n" +
        "\nNot included otherwise: recordings, deleted data, data of a single principal (read positions, notifications, " +
        "scheduled messages, calendar feeds, preferences), settings, and tokens. The export is not a snapshot: " +
        "what is moved while it is being written can be included twice or not at all.",
      access: EXPORT_ACCESS,
      http: { method: "POST", path: EXPORTS, status: 202, hasLocation: true },
      input: ExportCreate,
      output: Export,
      faults: ["not_found", "already_running"],
      example: { kind: "room", roomId: exampleId("room") },
      run: async (context, input) => {
        const created = await exports.create(context, input);
        return new Outcome(created, { location: `${EXPORTS}/${created.id}` });
      },
    }),
    defineOperation({
      name: "export.list",
      summary: "List exports, newest first: the caller's, or for admins all of the tenant",
      access,
      http: { method: "GET", path: EXPORTS, status: 200 },
      input: TransferList,
      output: pageSchema(Export),
      faults: ["invalid_cursor"],
      example: { limit: 50 },
      run: ({ actor }, input) => exports.list(actor, input),
    }),
    defineOperation({
      name: "export.read",
      summary: "Get the progress of an export",
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

function uploadRoute(imports: ImportService): Route {
  return {
    name: "import.upload",
    summary: "Upload the archive of an import, which starts it",
    tag: "transfer",
    method: "PUT",
    path: `${IMPORTS}/:id/content`,
    body: "stream",
    hasNoTimeout: true,
    auth: "bearer",
    scope: "transfer.manage",
    tenant: "admin",
    faults: ["not_found", "conflict", "payload_too_large", "bad_request"],
    document: {
      examples: { id: exampleId("imp") },
      requestBody: {
        required: true,
        content: { "application/octet-stream": { schema: { type: "string", format: "binary" } } },
      },
      responses: { "202": jsonResponse("The import is queued", { $ref: "#/components/schemas/TransferImport" }) },
    },
    async handle(request, { actor, params }) {
      if (request.body === null) throw new Fault("bad_request", "The archive is empty");
      const queued = await imports.upload(actor, params.id ?? "", enforceMinimumRate(request.body));
      return Response.json(queued, { status: 202 });
    },
  };
}

function downloadRoute(exports: ExportService): Route {
  return {
    name: "export.download",
    summary: "Download a completed export, available for 72 hours; only the last three of a principal are stored",
    tag: "transfer",
    method: "GET",
    path: `${EXPORTS}/:id/content`,
    hasNoTimeout: true,
    auth: "bearer",
    scope: "transfer.manage",
    faults: ["not_found", "forbidden", "conflict", "gone"],
    document: {
      examples: { id: exampleId("exp") },
      parameters: [{
        name: "format",
        in: "query",
        description: "html: a page to read in a browser, of a copy of the caller's own data",
        schema: { type: "string", enum: ["ndjson", "html"], default: "ndjson" },
      }],
      responses: {
        "200": {
          description: "The lines, or the page",
          content: {
            "application/x-ndjson": { schema: { type: "string" } },
            "text/html": { schema: { type: "string" } },
          },
        },
      },
    },
    async handle(request, { actor, params }) {
      const { format } = parseQuery(request, DownloadQuery);
      const { stream, size } = await exports.content(actor, params.id ?? "", format);
      const isPage = format === "html";
      return new Response(isPage ? toPage(stream) : stream, {
        headers: {
          "content-type": isPage ? "text/html; charset=utf-8" : "application/x-ndjson",
          ...isPage ? { "content-security-policy": "sandbox" } : { "content-length": String(size) },
          "content-disposition": `attachment; filename="${params.id}.${format}"`,
          "cache-control": "private, no-store",
        },
      });
    },
  };
}
