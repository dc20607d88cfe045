// `GET /ws` as a route: counted and documented like the others, answered by the WebSocket transport.
import type { Route } from "@/core/route.ts";

/** The route of the WebSocket endpoint; `upgrade` answers with the upgrade, or with why not. */
export function upgradeRoute(upgrade: (request: Request, ip: string) => Promise<Response> | Response): Route {
  return {
    name: "ws.connect",
    summary: "WebSocket endpoint",
    description:
      "Speaks the Centrifuge client protocol in JSON, or in protobuf with clients that ask for it. The first message authenticates; a token in the query is accepted but deprecated.",
    tag: "realtime",
    method: "GET",
    path: "/ws",
    auth: "public",
    faults: ["bad_request", "origin_not_allowed", "rate_limited"],
    document: {
      parameters: [{
        name: "token",
        in: "query",
        deprecated: true,
        description: "Legacy: the JWT. URLs end up in logs, so send it in the first message instead",
        schema: { type: "string" },
      }],
      responses: { 101: { description: "Switching to the WebSocket protocol" } },
    },
    handle: (request, { ip }) => upgrade(request, ip),
  };
}
