// What acts for the caller: sessions and tokens, and applications that were allowed to. And what is notified.
import type { VNode } from "preact";
import { call, get, listAll, post } from "../core/api.ts";
import { DAY_SECONDS, fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { showOnce } from "../part/shown_once.ts";

type Used = { id: string; scopes: string[]; createdAt: string; lastUsedAt: string | null };
type Token = Used & { name: string };
type Browser = { id: string; name: string; renewedAt: string };
type Application = Used & { clientName: string; clientHost: string | null };

const TOKENS = "v1/collaboration/tokens";
const APPLICATIONS = "v1/collaboration/oauth/applications";
const PUSH = "v1/collaboration/push-subscriptions";

export function Tokens(): VNode {
  const { items: tokens, read } = useList(() => listAll<Token>(TOKENS));
  const revoke = ({ id, name }: Token): void =>
    confirmThen("Revoke this token?", `What uses ${name} is signed out.`, "Revoke", async () => {
      await call("DELETE", `${TOKENS}/${id}`);
      read();
    });
  return html`
    <section class="card">
      <div class="row"><h2>Sessions and tokens</h2>
        <button type="button" onClick=${() => openNewToken(read)}>New token</button></div>
      <${Placeholder} items=${tokens} read=${read} text="None that the gateway has issued." />
      <ul class="rows">${(tokens ?? []).map((one) =>
        html`<li key=${one.id}><${Description} name=${one.name} used=${one} />
        <button type="button" onClick=${() => revoke(one)}>Revoke</button></li>`
      )}</ul>
    </section>
  `;
}

export function Applications(): VNode | null {
  const { items, read } = useList(async () => (await get<{ items: Application[] }>(APPLICATIONS)).items);
  const revoke = ({ id, clientName }: Application): void =>
    confirmThen("Revoke its access?", `${clientName} can no longer act for you.`, "Revoke", async () => {
      await call("DELETE", `${APPLICATIONS}/${id}`);
      read();
    });
  // Few people have any: it shows no more than that they could not be read.
  if (!read.hasFailed.value && (items ?? []).length === 0) return null;
  return html`
    <section class="card">
      <h2>Applications that act for you</h2>
      <${Placeholder} items=${items} read=${read} />
      <ul class="rows">${(items ?? []).map((one) =>
        html`<li key=${one.id}>
        <${Description} name=${
          one.clientHost === null ? one.clientName : `${one.clientName} of ${one.clientHost}`
        } used=${one} />
        <button type="button" onClick=${() => revoke(one)}>Revoke</button></li>`
      )}</ul>
    </section>
  `;
}

/** Browsers to which notifications are pushed. */
export function PushedBrowsers(): VNode | null {
  const { items, read } = useList(async () => (await get<{ items: Browser[] }>(PUSH)).items);
  const remove = ({ id, name }: Browser): void =>
    confirmThen(
      "Stop notifying it?",
      `${name} shows nothing while its page is closed, until it is opened again with notifications on.`,
      "Stop",
      async () => {
        await call("DELETE", `${PUSH}/${id}`);
        read();
      },
    );
  if (!read.hasFailed.value && (items ?? []).length === 0) return null;
  return html`
    <section class="card">
      <h2>Browsers that are notified</h2>
      <${Placeholder} items=${items} read=${read} />
      <ul class="rows">${(items ?? []).map((one) =>
        html`<li key=${one.id}><div><b dir="auto">${one.name}</b><small class="dim">Last opened ${
          fullTimeOf(one.renewedAt)
        }</small></div>
        <button type="button" onClick=${() => remove(one)}>Stop</button></li>`
      )}</ul>
    </section>
  `;
}

function Description({ name, used: { scopes, createdAt, lastUsedAt } }: { name: string; used: Used }): VNode {
  return html`<div title=${scopes.join(" ")}><b dir="auto">${name}</b><small class="dim">Created ${
    fullTimeOf(createdAt)
  }${lastUsedAt === null ? "" : `, last used ${fullTimeOf(lastUsedAt)}`}</small></div>`;
}

/** For the caller, or by an administrator for somebody who can no longer sign in. */
export function openNewToken(onCreated: () => void, person?: { id: string; displayName: string }): void {
  openDialog(() =>
    html`
      <${DialogForm} title=${person === undefined
        ? "New token"
        : `New token for ${person.displayName}`} action="Create" onSubmit=${async (fields: FormData) => {
        const { token } = await post<{ token: string }>(TOKENS, {
          ...person === undefined ? {} : { principalId: person.id },
          name: String(fields.get("name")).trim(),
          scopes: String(fields.get("scopes")).split(/[\s,]+/).filter((one) => one !== ""),
          expiresInSeconds: Number(fields.get("days")) * DAY_SECONDS,
        });
        onCreated();
        showOnce(
          "Copy this token",
          `Anyone who has it can act for ${person?.displayName ?? "you"}, and sign in with it.`,
          { label: "Token", value: token },
        );
      }}>
        <label>Name <input name="name" required maxlength="100" autofocus autocomplete="off" placeholder="Deploy script" /></label>
        <label>Scopes <input name="scopes" required maxlength="2000" defaultValue="*" autocomplete="off" spellcheck="false" /></label>
        <p class="dim">* is all that you may do; others are such as room.read and message.write.</p>
        <label>Valid for <select name="days"><option value="30">30 days</option><option value="90">90 days</option>
          <option value="365">one year</option></select></label>
        <//>
    `
  );
}
