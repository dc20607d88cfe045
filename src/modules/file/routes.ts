// The routes on which contents travel: up and down, streamed.
import type { Actor } from "@/core/actor.ts";
import { parse } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { queryOf, type Route, type RouteCall } from "@/core/route.ts";
import { type RoomGate, RoomId } from "@/modules/room/mod.ts";
import { z } from "@zod/zod";
import { answerContent, binary, CONTENT_FAULTS, CONTENT_PARAMETERS, CONTENT_RESPONSES } from "./content.ts";
import { FORM_OVERHEAD_BYTES, readForm } from "./multipart.ts";
import { BOXES } from "./picture/thumbnails.ts";
import { lengthOf, receive } from "./receive.ts";
import { FileId, type StoredFile } from "./schema.ts";
import type { FileService } from "./service.ts";
import type { FileWriter } from "./writer.ts";

export const FILE_PATH = "/v1/collaboration/files";

type Deps = { files: FileService; writer: FileWriter; gate: RoomGate };
type Upload = { actor: Actor; requestId: string; request: Request; once: RouteCall["once"] };

const Query = z.strictObject({ name: z.string().optional(), roomId: RoomId.optional() });
const ContentQuery = z.strictObject({
  thumbnail: z.enum(BOXES.map(String)).transform((text) => BOXES.find((box) => String(box) === text)).optional(),
});

/** Upload and content. */
export function fileRoutes({ files, writer, gate }: Deps): Route[] {
  async function upload({ actor, requestId, request, once }: Upload): Promise<StoredFile> {
    const query = queryOf(request, Query);
    const type = request.headers.get("Content-Type") ?? undefined;
    const isForm = /^multipart\/form-data\b/i.test(type ?? "");
    const { fileMaxBytes } = writer.limits;
    const length = lengthOf(request, isForm ? fileMaxBytes + FORM_OVERHEAD_BYTES : fileMaxBytes);
    const body = receive(request, length);
    const form = isForm ? await readForm(body, type ?? "") : undefined;
    try {
      const { name = form?.filename ?? "", roomId } = { ...query, ...form && parse(Query, form.fields) };
      if (roomId !== undefined) await gate.enter(uploading(actor, requestId), roomId);
      const draft = {
        name,
        contentType: form === undefined ? type : form.contentType,
        roomId: roomId ?? null,
        maxBytes: Math.min(length, fileMaxBytes),
      };
      return await writer.write(actor, draft, form?.content ?? body, once);
    } finally {
      form?.cancel();
    }
  }

  return [{
    name: "file.upload",
    summary: "Upload a file",
    description:
      "The body is the content, or a form with the optional fields `name` and `roomId` before its one file. " +
      "The type is found out from the content. A JPEG, PNG, WebP or GIF is stored without its metadata and anything else " +
      "that is not the picture itself, colours and orientation excepted. Attach the file to a message within 24 hours. " +
      "A sender who falls silent for 30 s, or sends less than 4 kB a second on the whole, is cut off. Needs the scope " +
      "`file.write`.",
    tag: "file",
    method: "POST",
    path: FILE_PATH,
    auth: "bearer",
    scope: "file.write",
    body: "stream",
    isLong: true,
    faults: [
      "bad_request",
      "unknown_parameter",
      "not_found",
      "room_archived",
      "length_required",
      "payload_too_large",
      "unsupported_media_type",
      "validation_failed",
      "unknown_field",
      "quota_exceeded",
      "idempotency_in_flight",
      "idempotency_key_reused",
    ],
    document: {
      parameters: [
        { $ref: "#/components/parameters/IdempotencyKey" },
        {
          name: "name",
          in: "query",
          description: "Name of the file; a form may give it as field or file name",
          schema: { type: "string", maxLength: 255 },
          example: "plan.txt",
        },
        {
          name: "roomId",
          in: "query",
          description: "The one room it is for; absent: it may be attached in any",
          schema: { type: "string" },
        },
        ...["Content-Digest", "Repr-Digest", "Digest"].map((name) => ({
          name,
          in: "header",
          description: "`sha-256` of the body, checked when sent",
          schema: { type: "string" },
        })),
      ],
      requestBody: {
        required: true,
        content: {
          "application/octet-stream": binary,
          "multipart/form-data": {
            schema: {
              type: "object",
              properties: {
                name: { type: "string", maxLength: 255 },
                roomId: { type: "string" },
                file: binary.schema,
              },
              required: ["file"],
              additionalProperties: false,
            },
          },
        },
      },
      responses: {
        201: {
          description: "Made",
          content: { "application/json": { schema: { $ref: "#/components/schemas/StoredFile" } } },
        },
      },
    },
    async handle(request, { actor, requestId, once }) {
      const file = await upload({ actor, requestId, request, once });
      return Response.json(file, { status: 201, headers: { Location: `${FILE_PATH}/${file.id}` } });
    },
  }, {
    name: "file.content",
    summary: "Read the content of a file, whole or a range of it, or a small picture of it",
    description:
      "Answers HEAD, single ranges, If-Range and If-None-Match. Needs the scope `file.read`. A thumbnail, of a " +
      "JPEG, PNG, GIF or WebP of up to 25 million pixels, is a JPEG, or a PNG where something shines through: the right way " +
      "up, never larger than the picture. Where there can be none the answer is 422, while too many are being made 503. " +
      "What cannot send a token, such as an `<img>`, follows a link of `file.link` instead.",
    tag: "file",
    method: "GET",
    path: `${FILE_PATH}/:id/content`,
    auth: "bearer",
    scope: "file.read",
    isLong: true,
    faults: ["unknown_parameter", ...CONTENT_FAULTS],
    document: {
      parameters: [
        { name: "id", in: "path", required: true, schema: { type: "string" } },
        {
          name: "thumbnail",
          in: "query",
          description: "Side of the square that the small picture fits into",
          schema: { type: "integer", enum: BOXES },
        },
        ...CONTENT_PARAMETERS,
      ],
      responses: CONTENT_RESPONSES,
    },
    handle(request, { actor, params, headers: refusal }) {
      const id = FileId.safeParse(params["id"]);
      if (!id.success) throw new Fault("not_found", "No such file, or not visible to the caller");
      const { thumbnail } = queryOf(request, ContentQuery);
      return answerContent({ request, refusal, files }, { actor, id: id.data, thumbnail });
    },
  }];
}

/** An upload as the gate wants to be asked. */
function uploading(actor: Actor, requestId: string): Context {
  const access = { scope: "file.write", room: "member" } as const;
  return { actor, requestId, access, operation: "file.upload", isRead: false };
}
