// Notifications of Alertmanager, and of Grafana, whose format is based on it.
import { at, countAt, lines, link, listAt, longTextAt, pairsAt, textAt, urlOf } from "../value.ts";

const ALERTS_SHOWN = 10;
const LABELS_SHOWN = 12;
const MESSAGE_MAX = 8000;
const SHOWN_BEFORE: ReadonlySet<string> = new Set(["alertname", "grafana_folder"]);

/** Whether it is a notification of Alertmanager or Grafana. */
export function isAlerts(body: unknown): boolean {
  return Array.isArray(at(body, "alerts")) && typeof at(body, "status") === "string";
}

export function alertsText(body: unknown): string {
  const status = textAt(body, "status");
  const alerts = listAt(body, ALERTS_SHOWN, "alerts");
  const all = countAt(body, "alerts") + (Number(textAt(body, "truncatedAlerts")) || 0);
  const firing = alerts.filter((alert) => at(alert, "status") !== "resolved").length;
  const name = textAt(body, "commonLabels", "alertname") || textAt(body, "groupLabels", "alertname");
  const state = status === "firing" ? `FIRING: ${firing === alerts.length ? all : firing}` : status.toUpperCase();
  const head = `**[${state}]** ${name || textAt(body, "title") || textAt(body, "receiver")}`;
  return lines(
    head,
    ...alerts.map(alertText),
    all > alerts.length ? `and ${all - alerts.length} more` : undefined,
    urlOf(at(body, "externalURL")) === undefined ? undefined : link("Open", at(body, "externalURL")),
  );
}

/** Grafana before its unified alerting. */
export function isOldGrafanaAlert(body: unknown): boolean {
  return typeof at(body, "ruleName") === "string" && typeof at(body, "state") === "string";
}

export function oldGrafanaText(body: unknown): string {
  const title = textAt(body, "title") || textAt(body, "ruleName");
  return lines(
    `**[${textAt(body, "state").toUpperCase()}]** ${link(title, at(body, "ruleUrl"))}`,
    longTextAt(body, MESSAGE_MAX, "message"),
    ...listAt(body, LABELS_SHOWN, "evalMatches").map((match) =>
      `- ${textAt(match, "metric")}: ${textAt(match, "value")}`
    ),
  );
}

function alertText(alert: unknown): string {
  const annotation = (name: string): string => longTextAt(alert, 1000, "annotations", name);
  const name = textAt(alert, "labels", "alertname") || "alert";
  const state = at(alert, "status") === "resolved" ? "resolved" : "firing";
  const summary = annotation("summary") || annotation("description") || annotation("message");
  const detail = annotation("summary") === "" ? "" : annotation("description");
  const labels = pairsAt(alert, LABELS_SHOWN + SHOWN_BEFORE.size, "labels")
    .filter(([label]) => !SHOWN_BEFORE.has(label)).map(([label, value]) => `${label}=${value}`);
  const links = [
    ["source", at(alert, "generatorURL")],
    ["runbook", at(alert, "annotations", "runbook_url")],
    ["dashboard", at(alert, "dashboardURL")],
    ["panel", at(alert, "panelURL")],
    ["silence", at(alert, "silenceURL")],
  ] as const;
  const shown = links.flatMap(([label, url]) => urlOf(url) === undefined ? [] : [link(label, url)]);
  const value = textAt(alert, "valueString");
  return lines(
    `- **${name}** (${state})${summary === "" ? "" : `: ${inItem(summary)}`}`,
    detail === "" ? undefined : `  ${inItem(detail)}`,
    labels.length === 0 ? undefined : `  ${labels.map((label) => `\`${label.replaceAll("`", "'")}\``).join(" ")}`,
    value === "" ? undefined : `  ${value}`,
    shown.length === 0 ? undefined : `  ${shown.join(" · ")}`,
  );
}

/** A text of several lines within an item of a list. */
function inItem(text: string): string {
  return text.trim().replaceAll("\n", "\n  ");
}
