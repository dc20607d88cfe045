// The door of links: public, since the link itself says whose rights it has.
import { queryOf, type Route } from "@/core/route.ts";
import { z } from "@zod/zod";
import { answerContent, CONTENT_FAULTS, CONTENT_PARAMETERS, CONTENT_RESPONSES } from "../content.ts";
import type { FileService } from "../service.ts";
import { LINKED_PATH, type LinkService } from "./service.ts";

/** What one address may follow: many people may be behind it, whose pages show many pictures each. */
const RATE = { perSecond: 50, burst: 2000 };
const NoQuery = z.strictObject({});

type Deps = { files: FileService; links: LinkService };

/** `GET /v1/collaboration/files/linked/:link`. */
export function linkedRoute({ files, links }: Deps): Route {
  return {
    name: "file.linked",
    summary: "Read the content that a link of `file.link` leads to",
    description:
      "Needs no bearer token. As `file.content` in all else, for what a browser loads by itself; pages of any origin may " +
      "show it. 410 once the link has expired, 404 when who made it may not read the file any more.",
    tag: "file",
    method: "GET",
    path: `${LINKED_PATH}/:link`,
    auth: "public",
    rate: RATE,
    isLong: true,
    faults: ["unknown_parameter", "origin_not_allowed", "rate_limited", ...CONTENT_FAULTS],
    document: {
      parameters: [
        { name: "link", in: "path", required: true, description: "From `file.link`", schema: { type: "string" } },
        ...CONTENT_PARAMETERS,
      ],
      responses: CONTENT_RESPONSES,
    },
    async handle(request, call) {
      queryOf(request, NoQuery);
      const wanted = await links.open(call.params["link"] ?? "", (tenantId) => call.assertOrigin(tenantId));
      const response = await answerContent({ request, refusal: call.headers, files }, wanted);
      // Nothing here depends on who asks, so a page that has the address learns nothing by embedding it.
      response.headers.set("Cross-Origin-Resource-Policy", "cross-origin");
      return response;
    },
  };
}
