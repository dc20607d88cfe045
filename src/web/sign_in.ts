// Signing in: at the identity provider, by a one-time address, by an invitation, or with an access token.
import type { ComponentChildren, VNode } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, get } from "./core/api.ts";
import { html } from "./core/html.ts";
import { messageOf } from "./core/notice.ts";
import type { Me } from "./core/resources.ts";
import { replaceAddress, route } from "./core/route.ts";
import { signedOutReason, startSession, token } from "./core/session.ts";

type Joined = { token: string };

/** What people call the identity provider; empty without one. */
export const provider = document.querySelector<HTMLMetaElement>("meta[name=sign-in]")?.content ?? "";
/** Where a person wanted to go before the identity provider was asked. */
const PLACE = "gateway.place";
/** By the reason in the address. */
const FAILURES: Readonly<Record<string, string>> = {
  denied: `${provider} does not let you in here.`,
  disabled: "Your account here is disabled.",
  expired: "Signing in took too long. Please try again.",
  unavailable: `${provider} cannot be reached. Please try again later.`,
};

/** A code after the `#` is removed from the address at once: it must not be bookmarked or shared. */
const code = takeCode();
/** Whether a code was opened, which replaces the session of this tab, if there is one and the code is accepted. */
export const isSigningIn = signal(code !== undefined && code.kind !== "failed");

export function SignIn(): VNode {
  const [failure, setFailure] = useState(
    code?.kind === "failed" ? FAILURES[code.value] ?? `Signing in at ${provider} failed.` : "",
  );
  const [isBusy, setBusy] = useState(false);
  const [current, setCurrent] = useState(code);
  /** A code is worth one token. */
  const joined = useRef("");

  /** Starts a session with a token, once it is known to be accepted. */
  async function open(tokenOf: () => Promise<string>, stays = false): Promise<void> {
    setBusy(true);
    setFailure("");
    try {
      const token = await tokenOf();
      startSession(token, await call<Me>("GET", "v1/collaboration/me", undefined, token), stays);
      isSigningIn.value = false;
    } catch (error) {
      setFailure(messageOf(error));
    }
    setBusy(false);
  }
  const join = (displayName?: string, stays = false): Promise<void> =>
    open(async () => {
      if (joined.current !== "") return joined.current;
      const body = { code: current?.value, displayName };
      try {
        return joined.current = (await call<Joined>("POST", "v1/collaboration/auth/join", body, "")).token;
      } catch (error) {
        // A code that was refused is not accepted later.
        if (!(error instanceof ApiError && error.isTemporary)) setCurrent(undefined);
        throw error;
      }
    }, stays);
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
          : html`
            <${ProviderOr}>
              <${TokenForm} isBusy=${isBusy} onToken=${(token: string, stays: boolean) =>
                open(() => Promise.resolve(token), stays)} />
              <//>
          `}
        ${token.value === "" ? null : html`
          <p>You are signed in already. <button type="button" class="link" onClick=${() => (isSigningIn.value =
            false)}>Continue</button></p>
        `}
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

/** The identity provider, when there is one, and after it what is for those whom it does not know. */
function ProviderOr({ children }: { children: ComponentChildren }): VNode {
  if (provider === "") return html`${children}`;
  const remember = (): void => sessionStorage.setItem(PLACE, location.hash);
  return html`
    <a class="button primary" href="v1/collaboration/auth/sign-in" onClick=${remember}>Sign in with ${provider}</a>
    <details><summary>Sign in another way</summary>${children}</details>
  `;
}

function JoinForm({ isBusy, onJoin }: {
  isBusy: boolean;
  onJoin: (name: string, stays: boolean) => Promise<void>;
}): VNode {
  return html`
    <form class="fields" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      const fields = new FormData(event.currentTarget as HTMLFormElement);
      void onJoin(String(fields.get("name")).trim(), fields.has("stays"));
    }}>
      <p>You have been invited. What is your name?</p>
      <label>Name <input name="name" required maxlength="120" autofocus autocomplete="name" /></label>
      <label class="check"><input type="checkbox" name="stays" defaultChecked /> Stay signed in on this device</label>
      <button class="primary" disabled=${isBusy}>Join</button>
    </form>
  `;
}

function TokenForm({ isBusy, onToken }: {
  isBusy: boolean;
  onToken: (token: string, stays: boolean) => Promise<void>;
}): VNode {
  return html`
    <form class="fields" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      const fields = new FormData(event.currentTarget as HTMLFormElement);
      void onToken(String(fields.get("token")).trim(), fields.has("stays"));
    }}>
      <p>Open the address of an invitation, or paste an access token.</p>
      <label>Access token <textarea name="token" rows="4" required autofocus spellcheck="false" autocomplete="off"></textarea></label>
      <label class="check"><input type="checkbox" name="stays" /> Stay signed in on this device</label>
      <button class="primary" disabled=${isBusy}>Sign in</button>
      <p class="dim">In the gateway's folder, <code>deno task token --sub alice</code> prints one.</p>
    </form>
  `;
}

function takeCode(): { kind: "code" | "invite" | "failed"; value: string } | undefined {
  const params = new URLSearchParams(location.hash.slice(1));
  for (const kind of ["code", "invite", "failed"] as const) {
    const value = params.get(kind);
    if (value === null) continue;
    // Without a place, an empty address would leave this one.
    replaceAddress(sessionStorage.getItem(PLACE) || "#/");
    sessionStorage.removeItem(PLACE);
    return { kind, value };
  }
  return undefined;
}
