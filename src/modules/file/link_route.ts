// The public endpoint of file links: a link is its own credential.
import { parseQuery, type Route } from "@/core/http/route.ts";
import { z } from "@zod/zod";
import { CONTENT_FAULTS, CONTENT_PARAMETERS, CONTENT_RESPONSES, respondWithContent } from "./content_response.ts";
import type { FileService } from "./service.ts";
import { LINKED_PATH, type LinkService } from "./link_service.ts";

/** Rate per client address, which many users may share, each with pages of many images. */
const RATE = { perSecond: 50, burst: 2000 };
const NoQuery = z.strictObject({});

type Deps = { files: FileService; links: LinkService };

/** `GET /v1/collaboration/files/linked/:link`. */
export function linkedRoute({ files, links }: Deps): Route {
  return {
    name: "file.linked",
    summary: "Get the content of a file through a link of `file.link`",
    description:
      "Requires no bearer token. Otherwise like `file.content`, for content that browsers load by themselves; " +
      "all origins are allowed. Returns 410 if the link has expired, and 404 if its creator may no longer read " +
      "the file.",
    tag: "file",
    method: "GET",
    path: `${LINKED_PATH}/:link`,
    auth: "public",
    rate: RATE,
    hasNoTimeout: true,
    faults: ["unknown_parameter", "origin_not_allowed", "rate_limited", ...CONTENT_FAULTS],
    document: {
      examples: { link: "5kXGd0GBYhH2cWd0sYtS0Q" },
      parameters: [
        {
          name: "link",
          in: "path",
          required: true,
          description: "Secret from `file.link`",
          schema: { type: "string" },
        },
        ...CONTENT_PARAMETERS,
      ],
      responses: CONTENT_RESPONSES,
    },
    async handle(request, call) {
      parseQuery(request, NoQuery);
      const target = await links.open(call.params["link"] ?? "", (tenantId) => call.assertOrigin(tenantId));
      const response = await respondWithContent({ request, refusal: call.headers, files }, target);
      // The response does not depend on the requester, so embedding it reveals nothing that the URL does not.
      response.headers.set("Cross-Origin-Resource-Policy", "cross-origin");
      return response;
    },
  };
}
