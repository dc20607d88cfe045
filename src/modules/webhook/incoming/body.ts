// What a request to a hook says, as a message: JSON, a form whose field `payload` is JSON, or plain text.
import { Fault } from "@/core/fault.ts";
import { isDeeperThan, JSON_DEPTH_MAX, storableText } from "@/core/text/text.ts";
import { alertsText, isAlerts, isOldGrafanaAlert, oldGrafanaText } from "./formats/alerts.ts";
import { githubText } from "./formats/github.ts";
import { gitlabText } from "./formats/gitlab.ts";
import { sentryText } from "./formats/sentry.ts";
import { slackText } from "./formats/slack.ts";
import { at, textAt } from "./value.ts";

const FORM = "application/x-www-form-urlencoded";
const EVENT_NAME = /^[a-z_]{1,60}$/;

/** `source`: what sent it. No text: there is nothing to post. */
export type HookMessage = {
  source: "github" | "gitea" | "gitlab" | "sentry" | "alerts" | "grafana" | "slack" | "text";
  text: string | undefined;
  mentionsAll: boolean;
  /** Repeated by the sender when it tries again, so that nothing is posted twice. */
  deliveryId: string | undefined;
  threadId?: string | undefined;
};

/** Reads a body of bounded length. Throws `invalid_json` or `validation_failed`. */
export function readHookMessage(headers: Headers, raw: string): HookMessage {
  const message = readMessage(headers, raw);
  return { ...message, text: message.text === undefined ? undefined : storableText(message.text).trim() };
}

function readMessage(headers: Headers, raw: string): HookMessage {
  const type = (headers.get("content-type") ?? "").slice(0, 200).toLowerCase();
  const isForm = type.startsWith(FORM) || raw.startsWith("payload=");
  if (!isForm && type.startsWith("text/plain") && !raw.trimStart().startsWith("{")) {
    return { source: "text", text: raw, mentionsAll: false, deliveryId: undefined };
  }
  const body = parseJson(isForm ? new URLSearchParams(raw).get("payload") ?? "" : raw, type);
  const eventOf = (name: string): string | undefined => {
    const event = headers.get(name)?.toLowerCase();
    return event !== undefined && EVENT_NAME.test(event) ? event : undefined;
  };
  const messageOf = (source: HookMessage["source"], text: string | undefined, id?: string | null): HookMessage => ({
    source,
    text,
    mentionsAll: false,
    deliveryId: id === null || id === undefined ? undefined : `${source}:${id.slice(0, 100)}`,
  });
  // Gitea and Forgejo send GitHub's headers, too.
  const gitea = eventOf("x-forgejo-event") ?? eventOf("x-gitea-event") ?? eventOf("x-gogs-event");
  if (gitea !== undefined) {
    const id = headers.get("x-forgejo-delivery") ?? headers.get("x-gitea-delivery");
    return messageOf("gitea", githubText(gitea, body), id);
  }
  const github = eventOf("x-github-event");
  if (github !== undefined) return messageOf("github", githubText(github, body), headers.get("x-github-delivery"));
  if (headers.has("x-gitlab-event")) {
    const id = headers.get("idempotency-key") ?? headers.get("x-gitlab-webhook-uuid") ?? headers.get("webhook-id");
    return messageOf("gitlab", gitlabText(body), id);
  }
  const sentry = eventOf("sentry-hook-resource");
  if (sentry !== undefined) return messageOf("sentry", sentryText(sentry, body), headers.get("request-id"));
  if (isAlerts(body)) return messageOf(at(body, "orgId") === undefined ? "alerts" : "grafana", alertsText(body));
  if (isOldGrafanaAlert(body)) return messageOf("grafana", oldGrafanaText(body));
  const slack = slackText(body);
  if (slack.text.trim() === "") {
    throw Fault.forField("/text", "invalid", "expected a text, attachments, blocks, or an event of a known sender");
  }
  return {
    source: "slack",
    ...slack,
    deliveryId: headers.get("webhook-id")?.slice(0, 100),
    threadId: textAt(body, "threadId") || undefined,
  };
}

function parseJson(raw: string, type: string): unknown {
  if (isDeeperThan(raw, JSON_DEPTH_MAX)) {
    throw new Fault("invalid_json", `The body is nested deeper than ${JSON_DEPTH_MAX} levels`);
  }
  try {
    return JSON.parse(raw);
  } catch (cause) {
    const detail = "The body is not valid JSON, a form with payload, or text/plain";
    // Many clients, curl among them, send any body as a form by default.
    const remedy = type.startsWith("application/json") ? "" : "; send JSON with Content-Type: application/json";
    throw new Fault("invalid_json", detail + remedy, { cause });
  }
}
