// Events of Sentry's integrations.
import { at, code, lines, link, textAt } from "../value.ts";

/** The text of an event; `undefined` for one that is not shown. */
export function sentryText(resource: string, body: unknown): string | undefined {
  const action = textAt(body, "action");
  switch (resource) {
    case "event_alert": {
      const event = at(body, "data", "event");
      const rule = textAt(body, "data", "triggered_rule");
      return eventText(`**Alert**${rule === "" ? "" : ` ${rule}`}`, event, at(event, "web_url") ?? at(event, "url"));
    }
    case "issue": {
      const issue = at(body, "data", "issue");
      const project = textAt(issue, "project", "slug") || textAt(issue, "project", "name");
      const url = at(issue, "web_url") ?? at(issue, "permalink") ?? at(issue, "url");
      return eventText(`**Issue ${action}**${project === "" ? "" : ` in ${project}`}`, issue, url);
    }
    case "metric_alert": {
      const data = at(body, "data");
      const title = textAt(data, "description_title") || textAt(data, "metric_alert", "title");
      return lines(`**Metric alert ${action}** ${link(title, at(data, "web_url"))}`, textAt(data, "description_text"));
    }
    case "comment":
      return lines(`**Comment ${action}**`, textAt(body, "data", "comment"));
    case "installation":
      return `Sentry is connected: installation ${action}`;
    default:
      return undefined;
  }
}

function eventText(head: string, event: unknown, url: unknown): string {
  const title = textAt(event, "title") || textAt(event, "message") || textAt(event, "metadata", "title");
  const level = textAt(event, "level");
  const where = textAt(event, "culprit") || textAt(event, "location");
  return lines(`${head}: ${link(title, url)}`, [level, code(where)].filter((part) => part !== "").join(" · "));
}
