// Events of GitHub, Gitea and Forgejo, whose payloads are alike.
import {
  at,
  code,
  countAt,
  excerptAt,
  firstLine,
  lines,
  link,
  listAt,
  longTextAt,
  quote,
  refOf,
  textAt,
} from "../value.ts";

const COMMITS_SHOWN = 5;
const SHA = /^[0-9a-f]{7,64}$/;
/** Events that other ones of the same action repeat. */
const IGNORED: ReadonlySet<string> = new Set([
  "check_run",
  "check_suite",
  "status",
  "workflow_job",
  "push_to_checkout",
  "page_build",
  "installation_repositories",
]);
/** Actions that are read by nobody in a room. */
const QUIET_ACTIONS: ReadonlySet<string> = new Set(["synchronize", "synchronized", "edited", "labeled", "unlabeled"]);

/** The text of an event; `undefined` for one that is not shown. */
export function githubText(event: string, body: unknown): string | undefined {
  const text = eventText(event, body);
  if (text === undefined) return undefined;
  const repository = link(textAt(body, "repository", "full_name"), at(body, "repository", "html_url"));
  return repository === "" ? text : `**${repository}** ${text}`;
}

function eventText(event: string, body: unknown): string | undefined {
  const who = textAt(body, "sender", "login") || textAt(body, "pusher", "name");
  const action = textAt(body, "action");
  const detail = (name: string): unknown => at(body, name);
  switch (event) {
    case "ping":
      return lines("is connected", quote(textAt(body, "zen")));
    case "push":
      return pushText(body, who);
    case "create":
    case "delete":
      return `${who} ${event}d ${textAt(body, "ref_type")} ${code(textAt(body, "ref"))}`;
    case "fork":
      return `${who} forked it to ${link(textAt(body, "forkee", "full_name"), at(body, "forkee", "html_url"))}`;
    case "pull_request":
    case "pull_request_target": {
      if (QUIET_ACTIONS.has(action)) return undefined;
      const pull = detail("pull_request");
      const done = action === "closed" && at(pull, "merged") === true ? "merged" : action.replaceAll("_", " ");
      return lines(`${who} ${done} ${numbered("pull request", pull)}`, action === "opened" && excerptAt(pull, "body"));
    }
    case "pull_request_review":
    case "pull_request_approved":
    case "pull_request_rejected": {
      const review = detail("review");
      const state = textAt(review, "state") || textAt(review, "type") || "reviewed";
      return lines(
        `${who} reviewed ${numbered("pull request", detail("pull_request"))}: ${state}`,
        excerptAt(review, "body"),
      );
    }
    case "pull_request_review_comment":
    case "pull_request_comment":
    case "issue_comment":
    case "commit_comment":
    case "discussion_comment": {
      if (action === "edited" || action === "deleted") return undefined;
      const comment = detail("comment");
      const on = detail("issue") ?? detail("pull_request") ?? detail("discussion");
      const target = on === undefined ? code(textAt(comment, "commit_id").slice(0, 7)) : numbered("", on);
      return lines(`${who} ${link("commented", at(comment, "html_url"))} on ${target}`, excerptAt(comment, "body"));
    }
    case "issues":
      if (QUIET_ACTIONS.has(action)) return undefined;
      return lines(
        `${who} ${action} ${numbered("issue", detail("issue"))}`,
        action === "opened" && excerptAt(detail("issue"), "body"),
      );
    case "discussion":
      return `${who} ${action} ${numbered("discussion", detail("discussion"))}`;
    case "release": {
      if (action !== "published") return undefined;
      const release = detail("release");
      const name = textAt(release, "name") || textAt(release, "tag_name");
      return lines(`${who} released ${link(name, at(release, "html_url"))}`, excerptAt(release, "body"));
    }
    case "workflow_run": {
      if (action !== "completed") return undefined;
      const run = detail("workflow_run");
      const branch = code(textAt(run, "head_branch"));
      return `${link(textAt(run, "name"), at(run, "html_url"))} on ${branch}: **${textAt(run, "conclusion")}**`;
    }
    case "deployment_status": {
      const status = detail("deployment_status");
      const environment = textAt(status, "environment") || textAt(body, "deployment", "environment");
      return `deployment to ${environment}: **${link(textAt(status, "state"), at(status, "target_url"))}**`;
    }
    default:
      return IGNORED.has(event) ? undefined : `${who}: ${event.replaceAll("_", " ")} ${action}`.trim();
  }
}

function pushText(body: unknown, who: string): string | undefined {
  const { branch, isTag } = refOf(body);
  if (at(body, "deleted") === true) return `${who} deleted ${branch}`;
  const count = countAt(body, "commits");
  if (count === 0) return `${who} pushed ${isTag ? "tag" : "branch"} ${branch}`;
  const compare = at(body, "compare") ?? at(body, "compare_url");
  const what = link(`${count} ${count === 1 ? "commit" : "commits"}`, compare);
  return lines(
    `${who} ${at(body, "forced") === true ? "force-pushed" : "pushed"} ${what} to ${branch}`,
    ...commitLines(body),
  );
}

/** The first commits of a push, in a line each. */
export function commitLines(body: unknown): string[] {
  const count = countAt(body, "commits");
  const shown = listAt(body, COMMITS_SHOWN, "commits").map((commit) => {
    const id = textAt(commit, "id");
    const name = SHA.test(id) ? link(code(id.slice(0, 7)), at(commit, "url")) : "";
    return `- ${name} ${firstLine(longTextAt(commit, 300, "message"))}`;
  });
  return count > COMMITS_SHOWN ? [...shown, `- and ${count - COMMITS_SHOWN} more`] : shown;
}

function numbered(kind: string, resource: unknown): string {
  const number = textAt(resource, "number");
  const label = `${number === "" ? "" : `#${number} `}${textAt(resource, "title")}`;
  return `${kind} ${link(label, at(resource, "html_url"))}`.trim();
}
