// The page where a person allows an application to act for it, opened by `/oauth/authorize`.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { messageOf } from "../core/notice.ts";
import { route } from "../core/route.ts";
import { me } from "../core/session.ts";

type Request = { clientName: string; clientHost: string | null; redirectHost: string; scopes: string[] };

export default function ConsentPage(): VNode {
  const id = route.value.query.get("request") ?? "";
  const path = `v1/collaboration/oauth/requests/${encodeURIComponent(id)}`;
  const [request, setRequest] = useState<Request>();
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    get<Request>(path).then(setRequest, (error) => setFailure(messageOf(error)));
  }, [path]);
  async function decide(decision: "allow" | "deny", scopes: FormDataEntryValue[] = []): Promise<void> {
    setBusy(true);
    try {
      const body = decision === "allow" ? { decision, scopes } : { decision };
      const { redirectTo } = await post<{ redirectTo: string }>(`${path}/decision`, body);
      location.assign(redirectTo);
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  }
  return html`
    <div class="welcome page">
      <form class="card fields" onSubmit=${(event: SubmitEvent) => {
        event.preventDefault();
        void decide("allow", new FormData(event.currentTarget as HTMLFormElement).getAll("scope"));
      }}>
      ${failure === "" ? null : html`<p class="problem-text" role="alert">${failure}</p>`}
      ${request === undefined ? null : html`
        <h1 dir="auto">${request.clientName} asks for access</h1>
        <p>It wants to act as <b>${me.value?.principal.displayName ?? "you"}</b>${request.clientHost === null
          ? ""
          : html`. It comes from <b>${request.clientHost}</b>`},
          ${" "}and you will return to <b>${request
            .redirectHost}</b>. Allow it only if you have just started this there.</p>
        <fieldset><legend class="dim">It may</legend>${request.scopes.map((scope) =>
          html`
            <label class="check"
              key=${scope}><input type="checkbox" name="scope" value=${scope} defaultChecked /> <code>${scope}</code></label>
          `
        )}</fieldset>
        <footer><button type="button" disabled=${isBusy} onClick=${() =>
          void decide("deny")}>Deny</button><button class="primary" disabled=${isBusy}>Allow</button></footer>
      `}
      </form>
    </div>
  `;
}
