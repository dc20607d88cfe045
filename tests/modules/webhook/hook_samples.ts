// What other programs send to hooks, shortened, and what is shown of it.

type Sample = {
  name: string;
  headers?: Record<string, string>;
  body: unknown;
  /** Parts of the text that is posted; null: nothing is. */
  shown: readonly string[] | null;
};

const repository = { full_name: "octo/app", html_url: "https://github.test/octo/app" };
const sender = { login: "octocat" };
const pull = {
  number: 7,
  title: "Add search",
  html_url: "https://github.test/octo/app/pull/7",
  body: "It finds.",
  merged: true,
};
const commits = Array.from({ length: 7 }, (_, n) => ({
  id: `${n}`.repeat(40),
  message: `Change ${n}\n\nbody`,
  url: `https://github.test/octo/app/commit/${n}`,
}));
const github = (event: string) => ({ "x-github-event": event, "content-type": "application/json" });
const gitlab = (event: string) => ({ "x-gitlab-event": event, "content-type": "application/json" });
const sentry = (resource: string) => ({ "sentry-hook-resource": resource, "content-type": "application/json" });
const project = { path_with_namespace: "group/app", web_url: "https://gitlab.test/group/app" };
const user = { name: "Ada", username: "ada" };
const alert = {
  status: "firing",
  labels: { alertname: "DiskFull", instance: "db1:9100", severity: "critical" },
  annotations: {
    summary: "Disk of db1 is full",
    description: "Only 2 % are left",
    runbook_url: "https://run.test/disk",
  },
  startsAt: "2026-03-01T12:00:00Z",
  generatorURL: "http://prometheus.test/graph?g0.expr=disk",
};

export const HOOK_SAMPLES: readonly Sample[] = [
  {
    name: "Slack text",
    body: { text: "Build *done* <https://ci.test/7|#7> &amp; ~late~" },
    shown: ["Build **done** [#7](https://ci.test/7) & ~~late~~"],
  },
  {
    name: "Slack attachments",
    body: {
      username: "bot",
      attachments: [{
        pretext: "New",
        title: "Report",
        title_link: "https://r.test/1",
        text: "All well",
        fields: [{ title: "Priority", value: "High", short: true }],
        actions: [{ type: "button", text: "Open", url: "https://r.test/open" }],
        footer: "Reporter",
      }],
    },
    shown: [
      "New",
      "**[Report](https://r.test/1)**",
      "All well",
      "**Priority:** High",
      "[Open](https://r.test/open)",
      "Reporter",
    ],
  },
  {
    name: "Slack blocks",
    body: {
      blocks: [
        { type: "header", text: { type: "plain_text", text: "Deploy" } },
        {
          type: "section",
          text: { type: "mrkdwn", text: "*api* is out" },
          fields: [{ type: "mrkdwn", text: "*By:* ada" }],
        },
        { type: "divider" },
        {
          type: "actions",
          elements: [{ type: "button", text: { type: "plain_text", text: "Logs" }, url: "https://l.test/" }],
        },
        { type: "rich_text", elements: [{ type: "rich_text_section", elements: [{ type: "text", text: "Rich" }] }] },
      ],
    },
    shown: ["**Deploy**", "**api** is out", "**By:** ada", "---", "[Logs](https://l.test/)", "Rich"],
  },
  {
    name: "GitHub ping",
    headers: github("ping"),
    body: { zen: "Design for failure.", repository, sender },
    shown: ["is connected", "> Design for failure."],
  },
  {
    name: "GitHub push",
    headers: github("push"),
    body: { ref: "refs/heads/main", compare: "https://github.test/c", commits, repository, sender },
    shown: [
      "**[octo/app](https://github.test/octo/app)** octocat pushed [7 commits](https://github.test/c) to `main`",
      "- [`0000000`](https://github.test/octo/app/commit/0) Change 0",
      "- and 2 more",
    ],
  },
  {
    name: "GitHub deleted branch",
    headers: github("push"),
    body: { ref: "refs/heads/old", deleted: true, commits: [], repository, sender },
    shown: ["octocat deleted `old`"],
  },
  {
    name: "GitHub pull request",
    headers: github("pull_request"),
    body: { action: "opened", pull_request: pull, repository, sender },
    shown: ["octocat opened pull request [#7 Add search](https://github.test/octo/app/pull/7)", "> It finds."],
  },
  {
    name: "GitHub merge",
    headers: github("pull_request"),
    body: { action: "closed", pull_request: pull, repository, sender },
    shown: ["octocat merged pull request"],
  },
  {
    name: "GitHub review",
    headers: github("pull_request_review"),
    body: { action: "submitted", review: { state: "approved", body: "Good" }, pull_request: pull, repository, sender },
    shown: ["reviewed", "approved", "> Good"],
  },
  {
    name: "GitHub comment",
    headers: github("issue_comment"),
    body: {
      action: "created",
      issue: { ...pull, number: 3 },
      comment: { html_url: "https://github.test/c3", body: "Why?" },
      repository,
      sender,
    },
    shown: ["[commented](https://github.test/c3)", "#3 Add search", "> Why?"],
  },
  {
    name: "GitHub workflow",
    headers: github("workflow_run"),
    body: {
      action: "completed",
      workflow_run: { name: "CI", head_branch: "main", conclusion: "failure", html_url: "https://github.test/run" },
      repository,
      sender,
    },
    shown: ["[CI](https://github.test/run) on `main`: **failure**"],
  },
  {
    name: "GitHub check, which is not shown",
    headers: github("check_run"),
    body: { action: "created", repository, sender },
    shown: null,
  },
  {
    name: "GitHub unknown",
    headers: github("star"),
    body: { action: "created", repository, sender },
    shown: ["octocat: star created"],
  },
  {
    name: "Gitea push",
    headers: { "x-gitea-event": "push", "x-github-event": "push" },
    body: {
      ref: "refs/heads/main",
      compare_url: "https://gitea.test/c",
      commits: commits.slice(0, 1),
      repository: { full_name: "org/app", html_url: "https://gitea.test/org/app" },
      sender: { login: "git" },
    },
    shown: ["git pushed [1 commit](https://gitea.test/c) to `main`"],
  },
  {
    name: "Forgejo issue",
    headers: { "x-forgejo-event": "issues", "x-gitea-event": "issues" },
    body: {
      action: "opened",
      issue: { number: 1, title: "Broken", html_url: "https://f.test/1", body: "" },
      repository,
      sender,
    },
    shown: ["octocat opened issue [#1 Broken](https://f.test/1)"],
  },
  {
    name: "GitLab push",
    headers: gitlab("Push Hook"),
    body: {
      object_kind: "push",
      ref: "refs/heads/main",
      after: "a".repeat(40),
      user_name: "Ada",
      total_commits_count: 2,
      commits: commits.slice(0, 2),
      project,
    },
    shown: ["**[group/app](https://gitlab.test/group/app)** Ada pushed 2 commits to `main`", "Change 1"],
  },
  {
    name: "GitLab merge request",
    headers: gitlab("Merge Request Hook"),
    body: {
      object_kind: "merge_request",
      user,
      project,
      object_attributes: { iid: 4, title: "Fix", action: "merge", url: "https://gitlab.test/mr/4" },
    },
    shown: ["Ada merged merge request [!4 Fix](https://gitlab.test/mr/4)"],
  },
  {
    name: "GitLab pipeline",
    headers: gitlab("Pipeline Hook"),
    body: { object_kind: "pipeline", user, project, object_attributes: { id: 31, ref: "main", status: "failed" } },
    shown: ["[pipeline #31](https://gitlab.test/group/app/-/pipelines/31) on `main`: **failed**"],
  },
  {
    name: "GitLab running pipeline",
    headers: gitlab("Pipeline Hook"),
    body: { object_kind: "pipeline", user, project, object_attributes: { id: 31, ref: "main", status: "running" } },
    shown: null,
  },
  {
    name: "GitLab note",
    headers: gitlab("Note Hook"),
    body: {
      object_kind: "note",
      user,
      project,
      object_attributes: { note: "Nice", url: "https://gitlab.test/n" },
      issue: { title: "Bug" },
    },
    shown: ["Ada [commented](https://gitlab.test/n) on Bug", "> Nice"],
  },
  {
    name: "Sentry alert",
    headers: sentry("event_alert"),
    body: {
      action: "triggered",
      data: {
        event: { title: "TypeError: x", web_url: "https://sentry.test/1", level: "error", culprit: "app/main" },
        triggered_rule: "Errors",
      },
    },
    shown: ["**Alert** Errors: [TypeError: x](https://sentry.test/1)", "error · `app/main`"],
  },
  {
    name: "Sentry issue",
    headers: sentry("issue"),
    body: {
      action: "created",
      data: {
        issue: { title: "Timeout", web_url: "https://sentry.test/2", level: "warning", project: { slug: "api" } },
      },
    },
    shown: ["**Issue created** in api: [Timeout](https://sentry.test/2)"],
  },
  {
    name: "Alertmanager",
    body: {
      version: "4",
      groupKey: "{}",
      receiver: "team",
      status: "firing",
      alerts: [alert, { ...alert, status: "resolved" }],
      commonLabels: { alertname: "DiskFull" },
      groupLabels: {},
      commonAnnotations: {},
      externalURL: "http://am.test",
      truncatedAlerts: 3,
    },
    shown: [
      "**[FIRING: 1]** DiskFull",
      "- **DiskFull** (firing): Disk of db1 is full",
      "Only 2 % are left",
      "`severity=critical`",
      "[runbook](https://run.test/disk)",
      "(resolved)",
      "and 3 more",
    ],
  },
  {
    name: "Grafana",
    body: {
      receiver: "r",
      status: "resolved",
      orgId: 1,
      title: "[RESOLVED] CPU",
      state: "ok",
      message: "m",
      alerts: [{
        ...alert,
        status: "resolved",
        dashboardURL: "https://g.test/d/1",
        valueString: "[ var='A' value=3 ]",
      }],
      groupLabels: {},
      commonLabels: {},
      externalURL: "https://g.test",
    },
    shown: ["**[RESOLVED]**", "[dashboard](https://g.test/d/1)", "value=3"],
  },
  {
    name: "Grafana of old",
    body: {
      title: "[Alerting] CPU",
      ruleName: "CPU",
      ruleUrl: "https://g.test/r",
      state: "alerting",
      message: "High",
      evalMatches: [{ metric: "cpu", value: 97 }],
    },
    shown: [
      "**[ALERTING]** [[Alerting] CPU](https://g.test/r)".replace("[[Alerting] CPU]", "[Alerting  CPU]"),
      "High",
      "- cpu: 97",
    ],
  },
];
