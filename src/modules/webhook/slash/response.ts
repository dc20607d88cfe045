// What the endpoint of a command says, at once or later: a text, or JSON as for Slack and Mattermost.
import { Fault } from "@/core/fault.ts";
import { isDeeperThan, JSON_DEPTH_MAX, storableText } from "@/core/text/text.ts";
import { fitsMessage, TEXT_MAX_BYTES, TEXT_MAX_CODE_POINTS } from "@/modules/message/mod.ts";
import { slackText } from "../incoming/formats/slack.ts";
import { at } from "../incoming/value.ts";

/** Longest response of an endpoint. */
export const RESPONSE_MAX_BYTES = 64 * 1024;
export type CommandResponse = { kind: "message" | "ephemeral"; text: string };

/**
 * Reads a response of bounded length: `response_type: "in_channel"` is for the room. Throws a SyntaxError for invalid JSON, and
 * `payload_too_large` for a text that no message may have.
 */
export function readResponse(type: string, raw: string): CommandResponse {
  const isJson = type.slice(0, 200).includes("json");
  const body = isJson ? parseJson(raw) : undefined;
  const text = storableText(isJson ? slackText(body).text : raw).trim();
  if (!fitsMessage(text)) {
    const limit = `${TEXT_MAX_CODE_POINTS} characters and ${TEXT_MAX_BYTES} bytes`;
    throw new Fault("payload_too_large", `The text of a response has at most ${limit}`);
  }
  return { kind: at(body, "response_type") === "in_channel" ? "message" : "ephemeral", text };
}

function parseJson(text: string): unknown {
  if (text.trim() === "") return {};
  if (isDeeperThan(text, JSON_DEPTH_MAX)) throw new SyntaxError("too deep");
  return JSON.parse(text);
}
