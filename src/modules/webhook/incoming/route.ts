// The public endpoint of hooks: the address is the credential.
import type { Route } from "@/core/http/route.ts";
import type { HookReceiver } from "./receiver.ts";
import { HOOK_PATH } from "./schema.ts";

/** Rate per client address: one GitHub or Alertmanager sends for many hooks. */
const RATE = { perSecond: 20, burst: 300 };
const TEXT = { type: "string", description: "Text of the message, with the markup of Slack" };
const MESSAGE_ID = { type: "string", description: "Root message of the thread to post in" };
const JSON_BODY = {
  type: "object",
  description: "A message, or an event of a known sender",
  properties: { text: TEXT, threadId: MESSAGE_ID },
  additionalProperties: true,
};
const RESPONSE = {
  type: "object",
  properties: {
    messageId: {
      type: ["string", "null"],
      description: "The message that was posted; null if there was nothing to post",
    },
  },
  required: ["messageId"],
};
const BODY = { type: "string", description: "What the sender sends; at most 512 KiB" };

/** `POST /v1/collaboration/hooks/:token`. */
export function hookRoute(receiver: HookReceiver): Route {
  return {
    name: "hook.receive",
    summary: "Post a message through a hook",
    description: "Requires no bearer token: the address is the credential. Accepts messages of Slack and Mattermost " +
      "(`text`, `blocks`, `attachments`; as JSON, or as the form field `payload`), plain text, and events of Alertmanager, " +
      "Grafana, GitHub, GitLab, Gitea, Forgejo and Sentry. Returns `ok` as text, or JSON if `Accept` asks for it. With " +
      "`threadId` in JSON, posts in that thread. A delivery that its sender repeats is posted once. Of a text that is too " +
      "long for a message, the whole is in a file.",
    tag: "hooks",
    method: "POST",
    path: `${HOOK_PATH}/:token`,
    auth: "public",
    rate: RATE,
    body: "stream",
    faults: [
      "not_found",
      "unauthenticated",
      "room_archived",
      "payload_too_large",
      "invalid_json",
      "validation_failed",
      "client_message_id_conflict",
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
        description: "Secret from `hook.create`",
        schema: { type: "string" },
      }],
      requestBody: {
        description: "A message, or an event of a known sender",
        required: true,
        content: {
          "application/json": { schema: JSON_BODY, example: { text: "The build of *main* failed" } },
          "application/x-www-form-urlencoded": { schema: BODY, example: "payload=%7B%22text%22%3A%22Done%22%7D" },
          "text/plain": { schema: BODY, example: "The backup is done." },
        },
      },
      responses: {
        200: {
          description: "The message was posted, or there was nothing to post",
          content: {
            "text/plain": { schema: { type: "string", enum: ["ok"] } },
            "application/json": { schema: RESPONSE },
          },
        },
      },
    },
    async handle(request, { params, requestId }) {
      const messageId = await receiver.receive(params["token"] ?? "", request, requestId);
      const accepted = request.headers.get("accept") ?? "";
      if (accepted.slice(0, 200).includes("application/json")) return Response.json({ messageId });
      // Some senders count anything else as a failure.
      return new Response("ok", { headers: { "content-type": "text/plain; charset=utf-8" } });
    },
  };
}
