// Signing in: by a one-time address, by an invitation, or with an access token.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, get, post } from "./core/api.ts";
import { html } from "./core/html.ts";
import { messageOf } from "./core/notice.ts";
import type { Me } from "./core/resources.ts";
import { replaceRoute, route } from "./core/route.ts";
import { signedOutReason, startSession } from "./core/session.ts";

type Joined = { token: string };

/** A code after the `#` is removed from the address at once: it must not be bookmarked or shared. */
export const code = takeCode();

export function SignIn(): VNode {
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [current, setCurrent] = useState(code);
  /** A code is worth one token. */
  const joined = useRef("");

  /** Starts a session with a token, once it is known to be accepted. */
  async function open(tokenOf: () => Promise<string>): Promise<void> {
    setBusy(true);
    setFailure("");
    try {
      const token = await tokenOf();
      startSession(token, await call<Me>("GET", "v1/collaboration/me", undefined, token));
    } catch (error) {
      setFailure(messageOf(error));
    }
    setBusy(false);
  }
  const join = (displayName?: string): Promise<void> =>
    open(async () => {
      if (joined.current !== "") return joined.current;
      const body = { code: current?.code, ...displayName === undefined ? {} : { displayName } };
      try {
        return joined.current = (await post<Joined>("v1/collaboration/auth/join", body)).token;
      } catch (error) {
        // A code that was refused is not accepted later.
        if (!(error instanceof ApiError && error.isTemporary)) setCurrent(undefined);
        throw error;
      }
    });
  useEffect(() => {
    if (current?.kind === "code") void join();
  }, []);

  return html`
    <main class="sign-in">
      <div class="card">
        <h1>Collaboration Gateway</h1>
        ${signedOutReason === "" || failure !== "" ? null : html`<p role="status">${signedOutReason}</p>`}
        ${failure === "" ? null : html`<p class="problem-text" role="alert">${failure}</p>`}
        ${route.value.path[0] === "oauth" ? html`<${Asking} />` : null}
        ${current?.kind === "code"
          ? failure === "" || isBusy
            ? html`<p class="dim">Signing in…</p>`
            : html`<button type="button" class="primary" onClick=${() => void join()}>Try again</button>`
          : current?.kind === "invite"
          ? html`<${JoinForm} isBusy=${isBusy} onJoin=${join} />`
          : html`<${TokenForm} isBusy=${isBusy} onToken=${(token: string) => open(() => Promise.resolve(token))} />`}
        <p class="links"><a href="docs">API documentation</a></p>
      </div>
    </main>
  `;
}

/** Says which application sent the browser here, and will ask for access once somebody has signed in. */
function Asking(): VNode | null {
  const [asking, setAsking] = useState<{ clientName: string; clientHost: string | null }>();
  const id = route.value.query.get("request") ?? "";
  useEffect(() => {
    // The page after this one says what is wrong with a request.
    get<typeof asking>(`v1/collaboration/oauth/requests/${encodeURIComponent(id)}/client`)
      .then(setAsking, () => setAsking(undefined));
  }, [id]);
  if (asking === undefined) return null;
  return html`
    <p
      role="status"><b dir="auto">${asking.clientName}</b>${asking.clientHost === null
        ? ""
        : ` of ${asking.clientHost}`} asks for access. Sign in to see what it may do, and to allow or deny it.</p>
  `;
}

function JoinForm({ isBusy, onJoin }: { isBusy: boolean; onJoin: (name: string) => Promise<void> }): VNode {
  return html`
    <form class="fields" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      void onJoin(String(new FormData(event.currentTarget as HTMLFormElement).get("name")).trim());
    }}>
      <p>You have been invited. What is your name?</p>
      <label>Name <input name="name" required maxlength="120" autofocus autocomplete="name" /></label>
      <button class="primary" disabled=${isBusy}>Join</button>
    </form>
  `;
}

function TokenForm({ isBusy, onToken }: { isBusy: boolean; onToken: (token: string) => Promise<void> }): VNode {
  return html`
    <form class="fields" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      void onToken(String(new FormData(event.currentTarget as HTMLFormElement).get("token")).trim());
    }}>
      <p>Open the address of an invitation, or paste an access token.</p>
      <label>Access token <textarea name="token" rows="4" required autofocus spellcheck="false" autocomplete="off"></textarea></label>
      <button class="primary" disabled=${isBusy}>Sign in</button>
      <p class="dim">In the gateway's folder, <code>deno task token --sub alice</code> prints one.</p>
    </form>
  `;
}

function takeCode(): { kind: "code" | "invite"; code: string } | undefined {
  const params = new URLSearchParams(location.hash.slice(1));
  for (const kind of ["code", "invite"] as const) {
    const value = params.get(kind);
    if (value === null) continue;
    replaceRoute([]);
    return { kind, code: value };
  }
  return undefined;
}
