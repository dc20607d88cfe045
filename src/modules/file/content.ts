// Contents as answers, by whatever door they are asked for.
import type { Actor } from "@/core/actor.ts";
import type { FaultCode } from "@/core/fault.ts";
import { dispositionOf, type RouteDocument } from "@/core/route.ts";
import type { Box } from "./picture/thumbnails.ts";
import { asThumbnail, serve } from "./serve.ts";
import type { FileService } from "./service.ts";

export const binary = { schema: { type: "string", format: "binary" } };

/** What `answerContent` may throw. */
export const CONTENT_FAULTS = [
  "not_found",
  "gone",
  "range_not_satisfiable",
  "validation_failed",
  "unavailable",
] as const satisfies readonly FaultCode[];

export const CONTENT_PARAMETERS: NonNullable<RouteDocument["parameters"]> = [
  { name: "Range", in: "header", schema: { type: "string" }, example: "bytes=0-1023" },
  { name: "If-Range", in: "header", schema: { type: "string" } },
  { name: "If-None-Match", in: "header", schema: { type: "string" } },
];

export const CONTENT_RESPONSES: RouteDocument["responses"] = {
  200: { description: "The content", content: { "*/*": binary } },
  206: { description: "The range asked for", content: { "*/*": binary } },
  304: { description: "Not changed" },
};

/** Whose content is wanted, by whom; `isDownload` has a browser save it. */
export type Wanted = { actor: Actor; id: string; thumbnail: Box | undefined; isDownload?: boolean };

/** The content of a file that the actor may read, or the part of it that was asked for. */
export async function answerContent(
  { request, refusal, files }: { request: Request; refusal: Record<string, string>; files: FileService },
  { actor, id, thumbnail, isDownload = false }: Wanted,
): Promise<Response> {
  const file = await files.read(actor, id);
  const small = thumbnail === undefined ? undefined : await files.thumbnail(actor, file, thumbnail);
  const served = small === undefined ? file : asThumbnail(file, small);
  const { status, headers, range } = serve(served, request.headers, refusal);
  if (isDownload) headers["Content-Disposition"] = dispositionOf("attachment", served.name);
  if (request.method === "HEAD" || status === 304) return new Response(null, { status, headers });
  const body = small?.subarray(range?.start, range?.end) ?? await files.open(file, range);
  return new Response(body, { status, headers });
}
