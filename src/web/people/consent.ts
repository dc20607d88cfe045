// The page where a person allows an application to act for it, opened by `/oauth/authorize`: scopes in plain words, by area.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { messageOf } from "../core/notice.ts";
import { route } from "../core/route.ts";
import { me } from "../core/session.ts";

type Request = { clientName: string; clientHost: string | null; redirectHost: string; scopes: string[] };

const LEVELS = ["Read", "Write", "Manage"] as const;
type Level = (typeof LEVELS)[number];
/** An area, and its scopes by level. */
type Area = { label: string; scopes: ReadonlyMap<Level, readonly string[]> };

/** Areas by the first word of their scopes. */
const AREAS: readonly (readonly [label: string, words: readonly string[]])[] = [
  ["Messages", ["message", "command"]],
  ["Rooms", ["room", "permission"]],
  ["Search", ["search"]],
  ["Notifications", ["notification"]],
  ["Tasks", ["task"]],
  ["Documents", ["document"]],
  ["Files", ["file"]],
  ["Calendar", ["calendar"]],
  ["Calls", ["meeting"]],
  ["People", ["principal"]],
  ["Agents", ["agent", "run", "skill", "memory"]],
  ["Language models, at your team's cost", ["ai"]],
  ["Webhooks and plugins", ["webhook", "plugin"]],
  ["Your team and its data", ["tenant", "capabilities", "transfer"]],
];

export default function ConsentPage(): VNode {
  const id = route.value.query.get("request") ?? "";
  const path = `v1/collaboration/oauth/requests/${encodeURIComponent(id)}`;
  const [request, setRequest] = useState<Request>();
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  /** Those that are ticked: exactly these are granted. */
  const [granted, setGranted] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    get<Request>(path).then((read) => {
      setRequest(read);
      setGranted(new Set(read.scopes));
    }, (error) => setFailure(messageOf(error)));
  }, [path]);
  async function decide(decision: "allow" | "deny"): Promise<void> {
    setBusy(true);
    try {
      const body = decision === "allow" ? { decision, scopes: [...granted] } : { decision };
      const { redirectTo } = await post<{ redirectTo: string }>(`${path}/decision`, body);
      location.assign(redirectTo);
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  }
  return html`
    <div class="welcome page">
      <form class="card fields consent" onSubmit=${(event: SubmitEvent) => {
        event.preventDefault();
        void decide("allow");
      }}>
      ${failure === "" ? null : html`<p class="problem-text" role="alert">${failure}</p>`}
      ${request === undefined ? null : html`
        <h1 dir="auto">${request.clientName} asks for access</h1>
        <p>It wants to act as <b>${me.value?.principal.displayName ?? "you"}</b>${request.clientHost === null
          ? ""
          : html`. It comes from <b>${request.clientHost}</b>`},
          ${" "}and you will return to <b>${request
            .redirectHost}</b>. Allow it only if you have just started this there.</p>
        <${Scopes} requested=${request.scopes} granted=${granted} onChange=${setGranted} />
        <footer><button type="button" disabled=${isBusy} onClick=${() =>
          void decide("deny")}>Deny</button><button class="primary" disabled=${isBusy ||
          granted.size === 0}>Allow</button></footer>
      `}
      </form>
    </div>
  `;
}

function Scopes({ requested, granted, onChange }: {
  requested: readonly string[];
  granted: ReadonlySet<string>;
  onChange: (granted: ReadonlySet<string>) => void;
}): VNode {
  const areas = areasOf(requested);
  const levels = LEVELS.filter((level) => areas.some(({ scopes }) => scopes.has(level)));
  const toggle = (scopes: readonly string[], isGranted: boolean): void =>
    onChange(isGranted ? granted.union(new Set(scopes)) : granted.difference(new Set(scopes)));
  return html`
    <table>
      <thead>
        <tr><th scope="col">It may</th>${levels.map((level) => html`<th key=${level} scope="col">${level}</th>`)}</tr>
      </thead>
      <tbody>${areas.map(({ label, scopes }) =>
        html`<tr key=${label}><th scope="row">${label}</th>${
          levels.map((level) => {
            const own = scopes.get(level);
            return html`<td key=${level}>${
              own === undefined ? null : html`<label title=${own.join(", ")}><input type="checkbox"
            aria-label=${`${level}: ${label}`} checked=${own.every((scope) => granted.has(scope))}
            onChange=${(event: Event) => toggle(own, (event.target as HTMLInputElement).checked)} /></label>`
            }</td>`;
          })
        }</tr>`
      )}</tbody>
    </table>
    <details><summary class="dim">Names of these permissions</summary><code>${[...granted].join(" ")}</code></details>
  `;
}

/** The areas of these scopes: each scope is in one of them, also one that is not known here. */
function areasOf(scopes: readonly string[]): Area[] {
  const byArea = Map.groupBy(scopes, labelOf);
  const order = [...AREAS.map(([label]) => label), ...byArea.keys()];
  return [...new Set(order)].flatMap((label) => {
    const own = byArea.get(label);
    return own === undefined ? [] : [{ label, scopes: Map.groupBy(own, levelOf) }];
  });
}

function labelOf(scope: string): string {
  const word = scope.split(".", 1)[0] ?? "";
  return AREAS.find(([, words]) => words.includes(word))?.[0] ?? word;
}

function levelOf(scope: string): Level {
  return scope.endsWith(".read") ? "Read" : scope.endsWith(".write") ? "Write" : "Manage";
}
