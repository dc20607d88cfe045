// The routes on which documents travel as something else than JSON: as a file, and as Yjs updates.
import type { Actor } from "@/core/actor.ts";
import { readBytes } from "@/core/bytes.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { dispositionOf, queryOf, type Route } from "@/core/route.ts";
import { z } from "@zod/zod";
import { type ContentService, tooLarge } from "./content/service.ts";
import { renderHtml } from "./rendering.ts";
import { DocumentId, FRAME_MAX_BYTES, PARTS_MAX, UPDATE_MAX_BYTES, VIEWS_MAX } from "./schema.ts";
import type { DocumentService } from "./service.ts";

export const DOCUMENT_PATH = "/v1/collaboration/documents";
const FILE_NAME_MAX_CHARS = 80;

const ExportQuery = z.strictObject({ format: z.string().default("markdown") });
const YjsQuery = z.strictObject({ vector: z.string().max(100_000).optional() });
const binary = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };
const documentId = {
  name: "documentId",
  in: "path",
  required: true,
  schema: { type: "string" },
  example: "doc_0190c5d2e7f07b1c9d0a1b2c3d4e5f60",
};

/** Export, and the CRDT itself. */
export function documentRoutes(documents: DocumentService, contents: ContentService): Route[] {
  return [{
    name: "document.export",
    summary: "Download a document as Markdown or HTML",
    description:
      "HTML holds only what the Markdown says: tags in the source come out as text. Needs the scope `document.read`.",
    tag: "document",
    method: "GET",
    path: `${DOCUMENT_PATH}/:documentId/export`,
    auth: "bearer",
    scope: "document.read",
    faults: ["not_found", "not_acceptable", "unknown_parameter", "payload_too_large"],
    document: {
      parameters: [documentId, {
        name: "format",
        in: "query",
        schema: { type: "string", enum: ["markdown", "html"], default: "markdown" },
      }],
      responses: {
        200: {
          description: "The document as a file",
          content: { "text/markdown": { schema: { type: "string" } }, "text/html": { schema: { type: "string" } } },
        },
      },
    },
    async handle(request, { actor, requestId, params }) {
      const { format } = queryOf(request, ExportQuery);
      if (format !== "markdown" && format !== "html") {
        throw new Fault("not_acceptable", "A document is exported as markdown or html");
      }
      const context = calling(actor, requestId, "document.export", "read");
      const id = idOf(params);
      const { title } = await documents.read(context, id);
      const content = await contents.read(context, { id, format: "markdown" });
      const text = content.format === "markdown" ? content.text : "";
      return new Response(format === "html" ? await renderHtml(title, text) : text, {
        headers: {
          "Content-Type": `text/${format}; charset=utf-8`,
          "Content-Disposition": dispositionOf("attachment", fileNameOf(title, format === "html" ? "html" : "md")),
          "Content-Security-Policy": "sandbox; default-src 'none'; img-src https: data:",
          "Cache-Control": "private, no-cache",
        },
      });
    },
  }, {
    name: "document.read_yjs",
    summary: "Read a document's CRDT as a Yjs update",
    description: "With `vector` only what is new to a copy in that state. Needs the scope `document.read`.",
    tag: "document",
    method: "GET",
    path: `${DOCUMENT_PATH}/:documentId/yjs`,
    auth: "bearer",
    scope: "document.read",
    faults: ["not_found", "bad_request", "unknown_parameter"],
    document: {
      parameters: [documentId, {
        name: "vector",
        in: "query",
        description: "A Yjs state vector, base64url",
        schema: { type: "string" },
      }],
      responses: { 200: { description: "A Yjs update (v1)", content: binary } },
    },
    async handle(request, { actor, requestId, params }) {
      const { vector } = queryOf(request, YjsQuery);
      const context = calling(actor, requestId, "document.read_yjs", "read");
      const { update, revision } = await contents.update(context, idOf(params), vectorOf(vector));
      // Its type says that it is backed by any kind of buffer; Yjs makes plain ones.
      return new Response(update as Uint8Array<ArrayBuffer>, {
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
      "For copies that were edited elsewhere: nothing is overwritten, so no base is named. At most 512 KiB. " +
      "Needs the scope `document.write`.",
    tag: "document",
    method: "POST",
    path: `${DOCUMENT_PATH}/:documentId/yjs`,
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
    document: {
      parameters: [documentId],
      requestBody: { required: true, content: binary },
      responses: {
        200: {
          description: "Merged",
          content: { "application/json": { schema: { $ref: "#/components/schemas/DocumentContentChange" } } },
        },
      },
    },
    async handle(request, { actor, requestId, params }) {
      const type = request.headers.get("Content-Type") ?? "application/octet-stream";
      if (!type.startsWith("application/octet-stream")) {
        throw new Fault("unsupported_media_type", "A Yjs update is application/octet-stream");
      }
      const context = calling(actor, requestId, "document.write_yjs", "write");
      const update = await readBytes(request, UPDATE_MAX_BYTES, tooLarge);
      return Response.json(await contents.merge(context, idOf(params), update));
    },
  }];
}

/** The endpoint of live editing, for the documents; `upgrade` answers with the upgrade, or with why not. */
export function syncRoute(upgrade: (request: Request, ip: string) => Promise<Response> | Response): Route {
  return {
    name: "document.sync",
    summary: "WebSocket endpoint of live editing",
    description:
      "Speaks the Hocuspocus protocol: use `@hocuspocus/provider` with the document's id as `name`, an access " +
      'token as `token`, and bind the editor to `ydoc.getText("content")`, which holds Markdown. Those who may only ' +
      "read get everything and change nothing. With `generation` in the query a copy of another generation is refused. " +
      `An update has at most ${UPDATE_MAX_BYTES / 1024} KiB, any other frame ${FRAME_MAX_BYTES / 1024} KiB. ` +
      'What is not accepted is told by a stateless message `{"type":"document.refused","code","detail"}` and stays ' +
      `unsaved in the client: \`limit_reached\` is said of what no editor does, which is to write a document in more than ` +
      `${PARTS_MAX} pieces, or to put pieces between neighbours that lie far apart. Larger frames and malformed ones end ` +
      `the socket with 1009 or 4400, more than ${VIEWS_MAX} editors of one document on it with 4429, and so does a member ` +
      "whose updates take the gateway more than a tenth of its time: there is room for seconds of it, and it fills again.",
    tag: "document",
    method: "GET",
    path: `${DOCUMENT_PATH}/sync`,
    auth: "public",
    faults: ["bad_request", "origin_not_allowed", "rate_limited", "unavailable"],
    document: {
      parameters: [{ name: "generation", in: "query", schema: { type: "string" } }],
      responses: { 101: { description: "Switching to the WebSocket protocol" } },
    },
    handle: (request, { ip }) => upgrade(request, ip),
  };
}

function calling(actor: Actor, requestId: string, operation: string, right: "read" | "write"): Context {
  const room = right === "read" ? "observer" : "member";
  return { actor, requestId, access: { scope: `document.${right}`, room }, operation, isRead: right === "read" };
}

function idOf({ documentId: id }: Readonly<Record<string, string>>): string {
  const known = DocumentId.safeParse(id);
  if (!known.success) throw new Fault("not_found", "No such document, or not visible to the caller");
  return known.data;
}

function vectorOf(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  try {
    return Uint8Array.fromBase64(text, { alphabet: "base64url" });
  } catch (cause) {
    throw new Fault("bad_request", "vector: expected base64url", { cause });
  }
}

/** The title without what means something to file systems. */
function fileNameOf(title: string, extension: string): string {
  const points = [...title.replaceAll(/[\p{C}/\\:*?"<>|]/gu, " ").trim()];
  return `${points.slice(0, FILE_NAME_MAX_CHARS).join("")}.${extension}`;
}
