// `/`: the client for browsers; other clients get the entry points.
import { readListHeader } from "@/core/http/request.ts";
import type { Route } from "@/core/http/route.ts";
import { parseAcceptHeader } from "../shared/static_asset.ts";

/** All addresses are relative, so that they also work behind a path prefix. */
export function homeRoute(
  version: string,
  documents: readonly string[],
  respondWithPage: (request: Request) => Promise<Response>,
): Route {
  const index = {
    name: "Collaboration Gateway",
    version,
    docs: "docs",
    documents: documents.map((path) => path.slice(1)),
    api: "v1",
    websocket: "ws",
  };
  return {
    name: "home.get",
    summary: "Get the API entry points",
    description: "Browsers get the client; other clients get the relative addresses of the API's entry points.",
    tag: "operation",
    method: "GET",
    path: "/",
    auth: "public",
    document: {
      responses: {
        200: {
          description: "Entry points of the API",
          content: {
            "application/json": { schema: SCHEMA, example: index },
            "text/html": { schema: { type: "string", description: "The browser client" } },
          },
        },
        304: { description: "Not modified" },
      },
    },
    async handle(request) {
      return parseAcceptHeader(readListHeader(request.headers, "Accept") ?? "").get("text/html") === true
        ? await respondWithPage(request)
        : Response.json(index, { headers: { Vary: "Accept" } });
    },
  };
}

const SCHEMA = {
  type: "object",
  required: ["name", "version", "docs", "documents", "api", "websocket"],
  properties: {
    name: { type: "string", description: "Name of the service" },
    version: { type: "string", description: "Version of the gateway" },
    docs: { type: "string", description: "Interactive documentation" },
    documents: {
      type: "array",
      items: { type: "string" },
      description: "Machine-readable descriptions: OpenAPI, and AsyncAPI if there is a WebSocket endpoint",
    },
    api: { type: "string", description: "Base path of the REST API" },
    websocket: { type: "string", description: "WebSocket endpoint" },
  },
};
