// The caller's own profile, notifications, sessions, and signing out.
import type { VNode } from "preact";
import { call, get, withQuery } from "../core/api.ts";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt, notify } from "../core/notice.ts";
import { addPeople } from "../core/people.ts";
import type { Me, NotificationPrefs } from "../core/resources.ts";
import { isKept, keepSession, me, myId, signOut } from "../core/session.ts";
import { drafts } from "../message/editing.ts";
import { unsent } from "../message/outbox.ts";
import { isAvailable, isShown, setShown } from "../notification/desktop.ts";
import { unsubscribe } from "../notification/push.ts";
import { Avatar } from "../part/avatar.ts";
import { confirmThen } from "../part/dialog.ts";
import { PlaceHead } from "../part/place.ts";
import { provider } from "../sign_in.ts";
import { Applications, PushedBrowsers, Tokens } from "./access.ts";
import { BrowserCard } from "./preferences.ts";
import { openErase } from "./erase.ts";
import { OwnData } from "./own_data.ts";
import { Memories } from "./memories.ts";

const PREFS: readonly (readonly [keyof NotificationPrefs, string])[] = [
  ["mentions", "Mentions"],
  ["directMessages", "Direct messages"],
  ["replies", "Replies in my threads"],
  ["invitations", "Invitations"],
  ["reminders", "Reminders of events and tasks"],
];

const ZONES_ID = "time-zones";

export default function ProfilePage(): VNode {
  const current = me.value;
  return html`
    <${PlaceHead} title="Profile"><button type="button" onClick=${signOutSafely}>Sign out</button><//>
    <div class="body"><div class="narrow">${current === undefined ? null : html`
      <${Profile} me=${current} />
      <${Preferences} me=${current} />
      <${BrowserCard} />
      <${Tokens} />
      <${Applications} />
      <${PushedBrowsers} />
      <${Memories} />
      <section class="card">
        <h2>Your account</h2>
        <${Toggle} label="Stay signed in on this device, also after the browser was closed" isOn=${isKept()}
          onChange=${(isOn: boolean) => Promise.resolve(keepSession(isOn))} />
        <${OwnData} />
        <p><button type="button" class="danger-text" onClick=${() =>
          openErase(current.principal, () => void signOut())}>Erase my account</button></p>
      </section>
    `}</div></div>
  `;
}

/** What is not sent yet is lost with the session. */
function signOutSafely(): void {
  const lost = [
    ...unsent.value.length === 0
      ? []
      : [`${count(unsent.value.length, "message")} could not be sent yet, and would be lost.`],
    ...drafts.value.size === 0 ? [] : [`${count(drafts.value.size, "draft")} would be lost.`],
  ];
  if (lost.length === 0) return void attempt(logOut);
  confirmThen("Sign out?", lost.join(" "), "Sign out", logOut);
}

/**
 * Revokes the token, so that it is worthless wherever it was copied to, and ends the session at the identity provider, which would
 * sign in the next person as this one.
 */
async function logOut(): Promise<void> {
  // Without it, what is pushed ends with the token; the next person has a subscription of their own.
  await unsubscribe().catch(() => undefined);
  const next = provider === "" ? undefined : "v1/collaboration/auth/sign-out";
  await signOut((token) => call("POST", "v1/collaboration/auth/logout", {}, token), next);
}

async function save(change: Record<string, unknown>): Promise<void> {
  await call("PATCH", "v1/collaboration/me", change);
  me.value = await get<Me>("v1/collaboration/me");
  addPeople([me.value.principal]);
  notify("Saved");
}

function Profile({ me: { principal } }: { me: Me }): VNode {
  const { displayName, handle, status, timeZone } = principal;
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(fields.get(name) ?? "").trim();
    const [statusText, emoji] = [text("status"), text("emoji")];
    // One that is left as it is still ends when it was to end.
    const isSame = statusText === (status?.text ?? "") && emoji === (status?.emoji ?? "");
    const next = statusText === "" && emoji === "" ? null : {
      ...statusText === "" ? {} : { text: statusText },
      ...emoji === "" ? {} : { emoji },
    };
    await attempt(() =>
      save({
        displayName: text("displayName"),
        handle: text("handle") === "" ? null : text("handle"),
        timeZone: text("timeZone") === "" ? null : text("timeZone"),
        ...isSame ? {} : { status: next },
      })
    );
  }
  async function setPicture(file: File | undefined): Promise<void> {
    if (file === undefined) return;
    await attempt(async () => {
      const { id } = await call<{ id: string }>("POST", withQuery("v1/collaboration/files", { name: file.name }), file);
      await save({ avatarFileId: id });
    });
  }
  return html`
    <form class="card fields" key=${JSON.stringify([displayName, handle, status, timeZone])} onSubmit=${(
      event: SubmitEvent,
    ) => void submit(event)}>
      <div class="row"><span class="large-avatar"><${Avatar} id=${myId()} /></span>
        <label class="button">Change picture<input type="file" accept="image/jpeg,image/png,image/gif,image/webp" class="hidden-input"
          onChange=${(event: Event) => void setPicture((event.target as HTMLInputElement).files?.[0])} /></label></div>
      <label>Name <input name="displayName" required maxlength="100" defaultValue=${displayName} /></label>
      <label>Handle for mentions <input name="handle" maxlength="64" pattern="[a-z0-9._\\-]+" defaultValue=${handle ??
        ""} placeholder="ada" /></label>
      <div
        class="pair"><label>Status <input name="status" maxlength="100" defaultValue=${status?.text ??
          ""} placeholder="At lunch" /></label>
        <label class="short">Emoji <input name="emoji" maxlength="20" defaultValue=${status?.emoji ??
          ""} placeholder="🥪" /></label></div>
      <label>Time zone <input name="timeZone" maxlength="64" list=${ZONES_ID} autocomplete="off" defaultValue=${timeZone ??
        ""} placeholder=${Intl
        .DateTimeFormat().resolvedOptions().timeZone} /></label>
      <datalist id=${ZONES_ID}>${Intl.supportedValuesOf("timeZone").map((zone) =>
        html`<option key=${zone} value=${zone}></option>`
      )}</datalist>
      <footer><button class="primary">Save</button></footer>
    </form>
  `;
}

function Preferences({ me: { notificationPrefs, readReceipts } }: { me: Me }): VNode {
  return html`
    <section class="card">
      <h2>Notify me about</h2>
      ${PREFS.map(([name, label]) =>
        html`<${Toggle} key=${name} label=${label} isOn=${notificationPrefs[name]} onChange=${(isOn: boolean) =>
          save({ notificationPrefs: { [name]: isOn } })} />`
      )}
      ${isAvailable()
        ? html`
          <${Toggle} label="In this browser, also while another window is in front" isOn=${isShown.value}
            onChange=${setShown} />
        `
        : null}
    </section>
    <section class="card">
      <h2>Privacy</h2>
      <${Toggle} label="Show others how far I have read" isOn=${readReceipts} onChange=${(readReceipts: boolean) =>
        save({ readReceipts })} />
    </section>
  `;
}

/** Saved at once; as it was before, if it could not be. */
function Toggle({ label, isOn, onChange }: {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => Promise<unknown>;
}): VNode {
  async function change({ currentTarget }: Event): Promise<void> {
    const box = currentTarget as HTMLInputElement;
    if (!await attempt(() => onChange(box.checked))) box.checked = !box.checked;
  }
  return html`
    <label class="check"><input type="checkbox" checked=${isOn} onChange=${change} /> ${label}</label>
  `;
}
