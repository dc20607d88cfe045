// Routes that transfer documents in other formats than JSON: as a file and as Yjs updates.
import type { Actor } from "@/core/actor.ts";
import { exampleId } from "@/core/id.ts";
import { readBytes } from "@/core/http/request.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { contentDisposition, jsonResponse, parseQuery, type Route, type RouteDocument } from "@/core/http/route.ts";
import { z } from "@zod/zod";
import { type ContentService, updateTooLarge } from "./content/service.ts";
import { STATES_MAX_CHARS } from "./limits.ts";
import { DocumentId, FRAME_MAX_BYTES, ITEMS_MAX, UPDATE_MAX_BYTES_OF, VIEWS_MAX } from "./schema.ts";

export const DOCUMENT_PATH = "/v1/collaboration/documents";
const FILE_NAME_MAX_CHARS = 80;

const ExportQuery = z.strictObject({ format: z.string().default("markdown") });
const YjsQuery = z.strictObject({ vector: z.string().max(100_000).optional() });
const binary = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };
const documentId = {
  name: "id",
  in: "path",
  required: true,
  description: "Id of the document",
  schema: { type: "string" },
  example: exampleId("doc"),
};

const DOCUMENT_EXPORT_DOCUMENT: RouteDocument = {
  parameters: [documentId, {
    name: "format",
    in: "query",
    description: "Format of the file",
    schema: { type: "string", enum: ["markdown", "html"], default: "markdown" },
  }],
  responses: {
    200: {
      description: "The document as a file",
      content: { "text/markdown": { schema: { type: "string" } }, "text/html": { schema: { type: "string" } } },
    },
  },
};
const DOCUMENT_READ_YJS_DOCUMENT: RouteDocument = {
  parameters: [documentId, {
    name: "vector",
    in: "query",
    description: "Yjs state vector, base64url",
    schema: { type: "string" },
  }],
  responses: { 200: { description: "Yjs update (v1)", content: binary } },
};
const DOCUMENT_WRITE_YJS_DOCUMENT: RouteDocument = {
  parameters: [documentId],
  requestBody: { required: true, content: binary },
  responses: { 200: jsonResponse("Merged", { $ref: "#/components/schemas/DocumentContentChange" }) },
};
const DOCUMENT_SYNC_DOCUMENT: RouteDocument = {
  parameters: [{
    name: "generation",
    in: "query",
    description: "Generation of the local copy; the connection is rejected if the document has another one",
    schema: { type: "string" },
  }],
  responses: { 101: { description: "Switching to the WebSocket protocol" } },
};

/** Routes of exports and Yjs updates. */
export function documentRoutes(contents: ContentService): Route[] {
  return [{
    name: "document.export",
    summary: "Download a document as Markdown or HTML",
    description: "HTML tags in Markdown source are escaped. Requires the scope `document.read`.",
    tag: "document",
    method: "GET",
    path: `${DOCUMENT_PATH}/:id/export`,
    auth: "bearer",
    scope: "document.read",
    faults: ["not_found", "not_acceptable", "payload_too_large"],
    document: DOCUMENT_EXPORT_DOCUMENT,
    async handle(request, { actor, requestId, params, toBody }) {
      const { format } = parseQuery(request, ExportQuery);
      if (format !== "markdown" && format !== "html") {
        throw new Fault("not_acceptable", "Expected the format markdown or html");
      }
      const context = callContext(actor, requestId, "document.export", "read");
      const id = idOf(params);
      const { title, text } = await contents.export(context, id, format);
      return new Response(toBody(text), {
        headers: {
          "Content-Type": `text/${format}; charset=utf-8`,
          "Content-Disposition": contentDisposition("attachment", fileNameOf(title, format === "html" ? "html" : "md")),
          "Content-Security-Policy": "sandbox; default-src 'none'; img-src https: data:",
          "Cache-Control": "private, no-cache",
        },
      });
    },
  }, {
    name: "document.read_yjs",
    summary: "Get a document as a Yjs update",
    description:
      "With `vector`, only the changes missing in a copy with that state. Requires the scope `document.read`.",
    tag: "document",
    method: "GET",
    path: `${DOCUMENT_PATH}/:id/yjs`,
    auth: "bearer",
    scope: "document.read",
    faults: ["not_found", "bad_request"],
    document: DOCUMENT_READ_YJS_DOCUMENT,
    async handle(request, { actor, requestId, params, toBody }) {
      const { vector } = parseQuery(request, YjsQuery);
      const context = callContext(actor, requestId, "document.read_yjs", "read");
      const { update, revision } = await contents.readUpdate(context, idOf(params), parseVector(vector));
      // The type allows any kind of buffer; Yjs allocates plain ones.
      return new Response(toBody(update as Uint8Array<ArrayBuffer>), {
        headers: {
          "Content-Type": "application/octet-stream",
          ETag: `"${revision}"`,
          "Cache-Control": "private, no-cache",
        },
      });
    },
  }, {
    name: "document.write_yjs",
    summary: "Merge a Yjs update into a document",
    description:
      "For copies that were edited offline. Merging overwrites nothing, so no base revision is needed. At most " +
      "512 KiB, or 2 MiB for a rich document. Requires the scope `document.write`.",
    tag: "document",
    method: "POST",
    path: `${DOCUMENT_PATH}/:id/yjs`,
    auth: "bearer",
    scope: "document.write",
    body: "stream",
    faults: [
      "not_found",
      "room_archived",
      "conflict",
      "limit_reached",
      "payload_too_large",
      "unsupported_media_type",
      "validation_failed",
      "bad_request",
    ],
    document: DOCUMENT_WRITE_YJS_DOCUMENT,
    async handle(request, { actor, requestId, params }) {
      const type = request.headers.get("Content-Type") ?? "application/octet-stream";
      if (!type.startsWith("application/octet-stream")) {
        throw new Fault("unsupported_media_type", "Expected Content-Type: application/octet-stream for a Yjs update");
      }
      const context = callContext(actor, requestId, "document.write_yjs", "write");
      const update = await readBytes(request, UPDATE_MAX_BYTES_OF.rich, () => updateTooLarge("rich"));
      return Response.json(await contents.merge(context, idOf(params), update));
    },
  }];
}

/** The endpoint of live editing; `upgrade` synchronously returns the upgrade or a refusal. */
export function collaborationRoute(upgrade: (request: Request, ip: string) => Response): Route {
  return {
    name: "document.sync",
    summary: "Open a WebSocket connection for live editing",
    description:
      "Speaks the Hocuspocus protocol: use `@hocuspocus/provider` with the id of the document as `name` and an access " +
      'token as `token`. Bind a text editor to `ydoc.getText("content")`, which contains Markdown; formatting is stored, ' +
      "but is not part of the text. Bind TipTap, BlockNote or another editor of ProseMirror to the XML fragment of a rich " +
      "document: the first content names it, so their default names work. A node that the schema of an editor lacks is " +
      "deleted by that editor. Readers receive all changes, but their own are rejected. With `generation` in the query, copies of another generation are rejected. " +
      `An update may have at most ${UPDATE_MAX_BYTES_OF.text / 1024} KiB, or ${
        UPDATE_MAX_BYTES_OF.rich / 1024
      } KiB of a ` +
      `rich document; any other frame ${FRAME_MAX_BYTES / 1024} KiB. ` +
      'After a rejected update, the client receives the stateless message `{"type":"document.refused","code","detail"}`; it remains ' +
      "unsaved in the client. If the document can never accept it, for example the copy of another document, the editor is " +
      "also disconnected, since what is typed after it would be lost: the provider emits `authenticationFailed` with the reason `content-refused`, and `close`. " +
      ` \`limit_reached\` rejects updates that no editor creates: more than ${ITEMS_MAX} CRDT items ` +
      "in a document, or items inserted between neighbors that are far apart. The socket is closed with 1009 if a frame " +
      `is too long, with 4400 if it is malformed, and with 4429 if it has more than ${VIEWS_MAX} editors of one document, ` +
      "if more of its frames wait than may, or if a member writes more bytes than it may in a minute. Frames wait while the " +
      "updates of a member and its agents use more than their share of the gateway's CPU time. The provider then " +
      "reconnects, and sends again what is not saved. The awareness states of an editor may have " +
      `${STATES_MAX_CHARS / 1024} KiB in all; longer ones are not sent to others.`,
    tag: "document",
    method: "GET",
    path: `${DOCUMENT_PATH}/sync`,
    auth: "public",
    faults: ["bad_request", "origin_not_allowed", "rate_limited", "unavailable"],
    document: DOCUMENT_SYNC_DOCUMENT,
    handle: (request, { ip }) => upgrade(request, ip),
  };
}

function callContext(actor: Actor, requestId: string, operation: string, right: "read" | "write"): Context {
  const room = right === "read" ? "observer" : "member";
  return { actor, requestId, access: { scope: `document.${right}`, room }, operation, isReadOnly: right === "read" };
}

function idOf({ id }: Readonly<Record<string, string>>): string {
  const parsed = DocumentId.safeParse(id);
  if (!parsed.success) throw notVisible("document");
  return parsed.data;
}

function parseVector(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  try {
    return Uint8Array.fromBase64(text, { alphabet: "base64url" });
  } catch (cause) {
    throw new Fault("bad_request", "Expected the vector in base64url", { cause });
  }
}

/** The title without characters that are special in file systems. */
function fileNameOf(title: string, extension: string): string {
  const points = [...title.replaceAll(/[\p{C}/\\:*?"<>|]/gu, " ").trim()];
  return `${points.slice(0, FILE_NAME_MAX_CHARS).join("")}.${extension}`;
}
