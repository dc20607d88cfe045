// The page where a person allows an application to act for it, opened by `/oauth/authorize`.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { messageOf } from "../core/notice.ts";
import { route } from "../core/route.ts";
import { me } from "../core/session.ts";
import { areasOf, LEVELS } from "./scope_areas.ts";

type Request = { clientName: string; clientHost: string | null; redirectHost: string; scopes: string[] };

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
