// Routes for uploading and downloading contents, both streamed.
import { exampleId } from "@/core/id.ts";
import { type Actor, chargedTo, tenantOfCharged } from "@/core/actor.ts";
import { parse } from "@/core/dispatch.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import { Slots } from "@/core/limit/slots.ts";
import type { Context } from "@/core/operation.ts";
import {
  jsonResponse,
  parseQuery,
  type Route,
  type RouteCall,
  type RouteDocument,
  routeSchema,
} from "@/core/http/route.ts";
import { type RoomAccess, RoomId } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { z } from "@zod/zod";
import {
  binary,
  CONTENT_FAULTS,
  CONTENT_PARAMETERS,
  CONTENT_RESPONSES,
  respondWithContent,
} from "./content_response.ts";
import { DOWNLOAD_STALLED_MS, DOWNLOADS } from "./downloads.ts";
import { FORM_OVERHEAD_BYTES, parseForm } from "./multipart.ts";
import { THUMBNAIL_SIZES } from "./image/thumbnails.ts";
import { contentLengthOf, readUpload } from "./upload.ts";
import { FileId, type StoredFile } from "./schema.ts";
import type { FileService } from "./service.ts";
import type { FileWriter } from "./writer.ts";

export const FILE_PATH = "/v1/collaboration/files";

type Deps = { files: FileService; writer: FileWriter; roomAccess: RoomAccess };
type Upload = { actor: Actor; requestId: string; signal: AbortSignal; request: Request; once: RouteCall["runOnce"] };

const UploadQuery = z.strictObject({ name: z.string().optional(), roomId: RoomId.optional() });
const ContentQuery = z.strictObject({
  thumbnail: z.enum(THUMBNAIL_SIZES.map(String)).transform((text) =>
    THUMBNAIL_SIZES.find((size) => String(size) === text)
  ).optional(),
});

const roomId = routeSchema(RoomId);
const FILE_UPLOAD_DOCUMENT: RouteDocument = {
  parameters: [
    { $ref: "#/components/parameters/IdempotencyKey" },
    {
      name: "name",
      in: "query",
      description: "Name of the file; in a form, the field `name` or the file name",
      schema: { type: "string", maxLength: 255 },
      example: "plan.txt",
    },
    {
      name: "roomId",
      in: "query",
      description: "The only room it may be attached in. Default: any room",
      schema: roomId,
    },
    ...["Content-Digest", "Repr-Digest", "Digest"].map((name) => ({
      name,
      in: "header",
      description: "`sha-256` of the body; verified if sent",
      schema: { type: "string" },
    })),
  ],
  requestBody: {
    required: true,
    content: {
      // First, since generators take the first one: it has a name.
      "multipart/form-data": {
        schema: {
          type: "object",
          properties: {
            name: { type: "string", maxLength: 255, description: "File name. Default: the file name in the form" },
            roomId: { ...roomId, description: "The only room it may be attached in. Default: any room" },
            file: { ...binary.schema, description: "The content" },
          },
          required: ["file"],
          additionalProperties: false,
        },
      },
      // Without a schema, as OpenAPI has any bytes: with two schemas, orval sends both forms as JSON.
      "application/octet-stream": {},
    },
  },
  responses: {
    201: {
      ...jsonResponse("Created", { $ref: "#/components/schemas/StoredFile" }),
      headers: { Location: { $ref: "#/components/headers/Location" } },
    },
  },
};
const FILE_CONTENT_DOCUMENT: RouteDocument = {
  examples: { id: exampleId("file") },
  parameters: [
    {
      name: "thumbnail",
      in: "query",
      description: "Maximum side length of the thumbnail in pixels",
      schema: { type: "integer", enum: THUMBNAIL_SIZES },
    },
    ...CONTENT_PARAMETERS,
  ],
  responses: CONTENT_RESPONSES,
};

/**
 * Uploads of a principal and its agents: the runtime has up to a megabyte of each that is read, and less of those that wait. A tenant
 * and a node have places for a few who send all that they may.
 */
const UPLOADS = { read: 8, sent: 32, sentOfTenant: 256, sentOfNode: 512 };

function tooMany(): Fault {
  const detail = `Too many uploads at the same time; a principal may have at most ${UPLOADS.sent}`;
  return new Fault("rate_limited", detail, { retryAfterMs: 1000 });
}

export function fileRoutes(deps: Deps): Route[] {
  const { files } = deps;
  const uploads = new Slots({
    perKey: [Infinity, UPLOADS.read],
    places: { total: UPLOADS.sentOfNode, perKey: [UPLOADS.sentOfTenant, UPLOADS.sent], firstFactor: 2, full: tooMany },
  });
  return [{
    name: "file.upload",
    summary: "Upload a file",
    description: "The body is the content, or a form with a single file and the optional fields `name` and `roomId`. " +
      "The type is detected from the content. JPEG, PNG, WebP and GIF files are stored without metadata, except " +
      "color profile and orientation. Attach the file to a message within 24 hours, or name its id in a document, a comment, or the description of a " +
      "task or event, such as in the address of an image: it then stays there, for all readers. An upload that stalls for " +
      "30 s, or is slower than 4 kB a second overall, is aborted. A principal and its agents may have " +
      `${UPLOADS.sent} at the same time, of which ${UPLOADS.read} are read; the others wait. Requires the scope \`file.write\`.`,
    tag: "file",
    method: "POST",
    path: FILE_PATH,
    auth: "bearer",
    scope: "file.write",
    body: "stream",
    hasNoTimeout: true,
    faults: [
      "bad_request",
      "not_found",
      "room_archived",
      "length_required",
      "payload_too_large",
      "unsupported_media_type",
      "validation_failed",
      "unknown_field",
      "quota_exceeded",
      "idempotency_in_flight",
      "response_not_stored",
      "idempotency_key_reused",
    ],
    document: FILE_UPLOAD_DOCUMENT,
    async handle(request, { actor, requestId, signal, runOnce }) {
      const file = await upload({ ...deps, uploads }, { actor, requestId, signal, request, once: runOnce });
      return Response.json(file, { status: 201, headers: { Location: `${FILE_PATH}/${file.id}` } });
    },
  }, {
    name: "file.content",
    summary: "Get the content of a file, a range of it, or a thumbnail",
    description:
      "Supports HEAD, single ranges, If-Range and If-None-Match. Types that a browser could execute or render, " +
      "such as JavaScript, CSS, HTML, SVG or XML, are served as an `application/octet-stream` download; the " +
      "field `contentType` of the file has the actual type. Thumbnails are available for JPEG, PNG, GIF and " +
      "WebP images of up to 25 million pixels; they are JPEG, or PNG if the image has transparency, have the " +
      "orientation applied, and are never larger than the image. Returns 422 if there is no thumbnail, 429 while " +
      "the caller waits for too many new ones, and 503 while all callers do. A principal and its agents may have " +
      `${DOWNLOADS.perOwner} downloads at the same time, those by their links included; one whose client takes nothing for ` +
      `${DOWNLOAD_STALLED_MS / 1000} s is ended when another needs its place. ` +
      "For clients that cannot send a token, such as an `<img>`, use `file.link`. Requires the scope `file.read`.",
    tag: "file",
    method: "GET",
    path: `${FILE_PATH}/:id/content`,
    auth: "bearer",
    scope: "file.read",
    hasNoTimeout: true,
    faults: [...CONTENT_FAULTS],
    document: FILE_CONTENT_DOCUMENT,
    handle(request, { actor, params, headers: refusal }) {
      const id = FileId.safeParse(params["id"]);
      if (!id.success) throw notVisible("file");
      const { thumbnail } = parseQuery(request, ContentQuery);
      return respondWithContent({ request, refusal, files }, { actor, id: id.data, thumbnail });
    },
  }];
}

async function upload(
  { writer, roomAccess, uploads }: Pick<Deps, "writer" | "roomAccess"> & { uploads: Slots },
  { actor, requestId, signal, request, once }: Upload,
): Promise<StoredFile> {
  const owner = chargedTo(actor);
  using _slot = await uploads.acquire([tenantOfCharged(owner), owner], signal);
  const query = parseQuery(request, UploadQuery);
  const type = request.headers.get("Content-Type") ?? undefined;
  const isForm = /^multipart\/form-data\b/i.test(type ?? "");
  const { fileMaxBytes } = writer.limits;
  const length = contentLengthOf(request, isForm ? fileMaxBytes + FORM_OVERHEAD_BYTES : fileMaxBytes);
  const body = readUpload(request, length);
  const form = isForm ? await parseForm(body, type ?? "") : undefined;
  try {
    // Generated clients write the fields of a form in any order, so they are read again after the content.
    const describe = () => {
      const { name = form?.filename ?? "", roomId = null } = { ...query, ...form && parse(UploadQuery, form.fields) };
      return { name, roomId };
    };
    const authorize = async (tx?: AnyTransaction) => {
      const { roomId } = describe();
      if (roomId !== null) await roomAccess.require(uploadContext(actor, requestId), roomId, tx && { tx });
    };
    await authorize();
    const draft = {
      ...describe(),
      describe,
      contentType: form === undefined ? type : form.contentType,
      authorize,
      maxBytes: Math.min(length, fileMaxBytes),
    };
    return await writer.write(actor, draft, form?.content ?? body, once);
  } finally {
    form?.cancel();
  }
}

/** The context of an upload for the room's access check. */
function uploadContext(actor: Actor, requestId: string): Context {
  const access = { scope: "file.write", room: "member" } as const;
  return { actor, requestId, access, operation: "file.upload", isReadOnly: false };
}
