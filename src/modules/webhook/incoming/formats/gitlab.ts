// Events of GitLab.
import { at, code, countAt, excerptAt, lines, link, longTextAt, refOf, textAt } from "../value.ts";
import { commitLines } from "./github.ts";

const NO_COMMIT = /^0{40,64}$/;
/** States of pipelines and jobs that are shown; the others are steps towards them. */
const FINAL: ReadonlySet<string> = new Set(["success", "failed", "canceled"]);
const PAST: Readonly<Record<string, string>> = {
  open: "opened",
  close: "closed",
  reopen: "reopened",
  merge: "merged",
  approved: "approved",
  unapproved: "withdrew the approval of",
};

/** The text of an event; `undefined` for one that is not shown. */
export function gitlabText(body: unknown): string | undefined {
  const text = eventText(textAt(body, "object_kind"), body);
  if (text === undefined) return undefined;
  const project = link(textAt(body, "project", "path_with_namespace"), at(body, "project", "web_url"));
  return project === "" ? text : `**${project}** ${text}`;
}

function eventText(kind: string, body: unknown): string | undefined {
  const who = textAt(body, "user", "name") || textAt(body, "user_name") || textAt(body, "user_username");
  const detail = at(body, "object_attributes");
  const action = textAt(detail, "action");
  switch (kind) {
    case "push":
    case "tag_push": {
      const { branch } = refOf(body);
      const what = kind === "push" ? "branch" : "tag";
      if (NO_COMMIT.test(textAt(body, "after"))) return `${who} deleted ${what} ${branch}`;
      const count = Number(textAt(body, "total_commits_count")) || countAt(body, "commits");
      if (count === 0 || kind === "tag_push") return `${who} pushed ${what} ${branch}`;
      return lines(`${who} pushed ${count} ${count === 1 ? "commit" : "commits"} to ${branch}`, ...commitLines(body));
    }
    case "merge_request":
    case "issue":
    case "incident": {
      const past = PAST[action];
      if (past === undefined) return undefined;
      const sign = kind === "merge_request" ? "!" : "#";
      const name = link(`${sign}${textAt(detail, "iid")} ${textAt(detail, "title")}`, at(detail, "url"));
      const body_ = action === "open" && excerptAt(detail, "description");
      return lines(`${who} ${past} ${kind.replaceAll("_", " ")} ${name}`, body_);
    }
    case "note": {
      const on = at(body, "merge_request") ?? at(body, "issue") ?? at(body, "commit") ?? at(body, "snippet");
      const target = textAt(on, "title") || textAt(on, "message");
      return lines(`${who} ${link("commented", at(detail, "url"))} on ${target}`, excerptAt(detail, "note"));
    }
    case "pipeline": {
      const status = textAt(detail, "status");
      if (!FINAL.has(status)) return undefined;
      const web = `${longTextAt(body, 500, "project", "web_url")}/-/pipelines/${textAt(detail, "id")}`;
      const name = link(`pipeline #${textAt(detail, "id")}`, at(detail, "url") ?? web);
      return `${name} on ${code(textAt(detail, "ref"))}: **${status}**`;
    }
    case "build":
      return textAt(body, "build_status") === "failed"
        ? `job ${textAt(body, "build_name")} on ${code(textAt(body, "ref"))}: **failed**`
        : undefined;
    case "release":
      return `release ${link(textAt(body, "name") || textAt(body, "tag"), at(body, "url"))}: ${textAt(body, "action")}`;
    case "deployment":
      return `deployment to ${textAt(body, "environment")}: **${textAt(body, "status")}**`;
    case "wiki_page":
      return `${who} changed ${link(textAt(detail, "title"), at(detail, "url"))}`;
    default:
      return `${who}: ${kind.replaceAll("_", " ")} ${action}`.trim();
  }
}
