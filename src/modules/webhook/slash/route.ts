// Where endpoints of commands post responses that follow: the address is the credential.
import type { Route } from "@/core/http/route.ts";
import type { LateResponses } from "./late_responses.ts";
import { LATE_RESPONSE_PATH } from "./schema.ts";

/** Rate per client address: one endpoint may handle many commands. */
const RATE = { perSecond: 20, burst: 300 };
const BODY = {
  type: "object",
  description: "A message as for Slack or Mattermost",
  properties: {
    text: { type: "string", description: "Text of the response, with the markup of Slack" },
    response_type: {
      type: "string",
      enum: ["in_channel", "ephemeral"],
      description: "`in_channel` sends to the room, all else is for the caller alone",
    },
  },
  additionalProperties: true,
};

/** `POST /v1/collaboration/slash-commands/responses/:token`. */
export function lateResponseRoute(responses: LateResponses): Route {
  return {
    name: "slash_command.respond",
    summary: "Respond to a command after its call",
    description:
      "Requires no bearer token: the address is the credential, which its call gives as `response_url`. Up to 5 " +
      "responses, within 15 minutes. Returns `ok` as text.",
    tag: "slash",
    method: "POST",
    path: `${LATE_RESPONSE_PATH}/:token`,
    auth: "public",
    rate: RATE,
    body: "stream",
    faults: [
      "not_found",
      "gone",
      "room_archived",
      "payload_too_large",
      "invalid_json",
      "validation_failed",
      "rate_limited",
      "quota_exceeded",
      "plugin_refused",
      "plugin_unavailable",
    ],
    document: {
      examples: { token: "5kXGd0GBYhH2cWd0sYtS0Q" },
      parameters: [{
        name: "token",
        in: "path",
        required: true,
        description: "The last part of `response_url`",
        schema: { type: "string" },
      }],
      requestBody: {
        description: "A message as for Slack or Mattermost, or a text",
        required: true,
        content: {
          "application/json": { schema: BODY, example: { text: "Deployed", response_type: "in_channel" } },
          "text/plain": { schema: { type: "string", description: "A text for the caller alone" }, example: "Deployed" },
        },
      },
      responses: {
        200: {
          description: "The response was delivered",
          content: { "text/plain": { schema: { type: "string", enum: ["ok"] } } },
        },
      },
    },
    async handle(request, { params }) {
      await responses.receive(params["token"] ?? "", request);
      return new Response("ok", { headers: { "content-type": "text/plain; charset=utf-8" } });
    },
  };
}
