// What the endpoint of a command says, at once or later: a text, or JSON as for Slack and Mattermost.
import { isDeeperThan, JSON_DEPTH_MAX, truncateCodePoints } from "@/core/text.ts";
import { slackText } from "../incoming/formats/slack.ts";
import { at } from "../incoming/value.ts";

/** Longest response of an endpoint. */
export const RESPONSE_MAX_BYTES = 64 * 1024;
const TEXT_MAX = 15_000;

export type CommandResponse = { kind: "message" | "ephemeral"; text: string };

/** Reads a response of bounded length: `response_type: "in_channel"` is for the room. Throws a SyntaxError for invalid JSON. */
export function readResponse(type: string, raw: string): CommandResponse {
  const isJson = type.slice(0, 200).includes("json");
  const body = isJson ? parseJson(raw) : undefined;
  const text = (isJson ? slackText(body).text : raw).replaceAll("\0", "").toWellFormed().trim();
  return {
    kind: at(body, "response_type") === "in_channel" ? "message" : "ephemeral",
    text: truncateCodePoints(text, TEXT_MAX),
  };
}

function parseJson(text: string): unknown {
  if (text.trim() === "") return {};
  if (isDeeperThan(text, JSON_DEPTH_MAX)) throw new SyntaxError("too deep");
  return JSON.parse(text);
}
