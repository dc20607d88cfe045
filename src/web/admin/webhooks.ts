// Webhooks: where events are delivered, and how that works out.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get, listAll, post } from "../core/api.ts";
import { count, fullTimeOf, shortTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt, notify } from "../core/notice.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { Menu } from "../part/menu.ts";
import { Placeholder } from "../part/place.ts";
import { showOnce } from "../part/shown_once.ts";
import { useList } from "../part/list.ts";

type Webhook = {
  id: string;
  url: string;
  events: string[];
  description: string | null;
  enabled: boolean;
  state: string;
  lastError: string | null;
  disabledReason: string | null;
  nextAttemptAt: string | null;
  parkedCount: number;
};
type ParkedEvent = {
  id: string;
  type: string;
  state: "parked" | "waiting";
  httpStatus: number | null;
  error: string | null;
  parkedAt: string;
};
type Delivery = {
  id: string;
  type: string;
  attempt: number;
  outcome: string;
  httpStatus: number | null;
  error: string | null;
  durationMs: number;
  at: string;
};

const PATH = "v1/collaboration/webhooks";

export function Webhooks(): VNode {
  const { items, read, act } = useList(() => listAll<Webhook>(PATH));
  return html`
    <p class="row spread"><span class="dim">Events of your team, sent to your own services in order.</span>
      <button type="button" class="primary" onClick=${() => openNew(read)}>New webhook</button></p>
    <${Placeholder} items=${items} read=${read} text="No webhooks." />
    <ul class="rows">${(items ?? []).map((one) =>
      html`
        <li key=${one.id}>
          <div><b class="clip">${one.url}</b><small class="dim">${detailsOf(one)}</small></div>
          <span class="tag">${one.state}</span>
          ${one.enabled
            ? null
            : html`<button type="button" onClick=${act(() => setEnabled(one.id, true))}>Resume</button>`}
          ${one.parkedCount === 0
            ? null
            : html`<button type="button" onClick=${() =>
              openDialog(() => html`<${Parked} id=${one.id} onChange=${read} />`)}>${one.parkedCount} parked</button>`}
          <${Menu} label=${`Menu of ${one.url}`} items=${[
            {
              label: "Deliveries",
              icon: "clock",
              onSelect: () => openDialog(() => html`<${Deliveries} id=${one.id} />`),
            },
            { label: "Send a test", icon: "send", onSelect: act(() => test(one.id)) },
            ...one.enabled
              ? [{ label: "Disable", icon: "lock" as const, onSelect: act(() => setEnabled(one.id, false)) }]
              : [],
            {
              label: "New secret",
              icon: "lock",
              onSelect: act(async () =>
                showSecret((await post<{ secret: string }>(`${PATH}/${one.id}/rotate`)).secret)
              ),
            },
            {
              label: "Delete",
              icon: "trash",
              isDanger: true,
              onSelect: () =>
                confirmThen("Delete this webhook?", one.url, "Delete", async () => {
                  await call("DELETE", `${PATH}/${one.id}`);
                  read();
                }),
            },
          ]} />
        </li>
      `
    )}</ul>
  `;
}

function detailsOf({ description, events, disabledReason, nextAttemptAt, lastError }: Webhook): string {
  return [
    description,
    events.join(", "),
    disabledReason === null ? null : `disabled: ${disabledReason.replaceAll("_", " ")}`,
    nextAttemptAt === null ? null : `next attempt ${shortTimeOf(nextAttemptAt)}`,
    lastError?.replaceAll("_", " "),
  ].filter((one) => one).join(", ");
}

function setEnabled(id: string, enabled: boolean): Promise<unknown> {
  return call("PATCH", `${PATH}/${id}`, { enabled });
}

async function test(id: string): Promise<void> {
  const { outcome, httpStatus, error } = await post<Delivery>(`${PATH}/${id}/test`);
  notify(
    `${outcome}${httpStatus === null ? "" : ` (${httpStatus})`}${error === null ? "" : `: ${error}`}`,
    outcome !== "delivered",
  );
}

function openNew(onCreated: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="New webhook" action="Create" onSubmit=${async (fields: FormData) => {
        const events = String(fields.get("events")).split(/[\s,]+/).filter((one) => one !== "");
        const description = String(fields.get("description")).trim();
        const { secret } = await post<{ secret: string }>(PATH, {
          url: String(fields.get("url")).trim(),
          ...events.length === 0 ? {} : { events },
          ...description === "" ? {} : { description },
        });
        onCreated();
        showSecret(secret);
      }}>
        <label>Address <input name="url" type="url" required autofocus placeholder="https://example.com/events" /></label>
        <label>Events <input name="events" placeholder="message.created task.*" /></label>
        <label>Description <input name="description" maxlength="200" /></label>
        <//>
    `
  );
}

function showSecret(value: string): void {
  showOnce("Secret of the webhook", "It signs every delivery.", { label: "Secret", value });
}

function Deliveries({ id }: { id: string }): VNode {
  const [items, setItems] = useState<readonly Delivery[]>();
  useEffect(
    () => void attempt(async () => setItems((await get<{ items: Delivery[] }>(`${PATH}/${id}/deliveries`)).items)),
    [id],
  );
  return html`
    <div class="wide-dialog"><${Heading} title="Deliveries" onClose=${closeDialog} />
      ${items?.length === 0 ? html`<p class="dim">Nothing was delivered yet.</p>` : null}
      <ul class="rows">${(items ?? []).map((one) =>
        html`
          <li
            key=${one.id}><div><b>${one.type}</b><small class="dim">${fullTimeOf(one.at)}, attempt ${one.attempt}, ${one
              .durationMs} ms${one.error === null ? "" : `, ${one.error}`}</small></div>
                  <span class="tag">${one.outcome}${one.httpStatus === null ? "" : ` ${one.httpStatus}`}</span></li>
        `
      )}</ul></div>
  `;
}

/** Events that the endpoint refused; those delivered again leave the list once they are accepted. */
function Parked({ id, onChange }: { id: string; onChange: () => void }): VNode {
  const { items, read } = useList(() => listAll<ParkedEvent>(`${PATH}/${id}/parked`));
  const replay = (ids?: string[]): void =>
    void attempt(async () => {
      const { waitingCount } = await post<{ waitingCount: number }>(
        `${PATH}/${id}/parked/replay`,
        ids === undefined ? {} : { ids },
      );
      notify(`${count(waitingCount, "event")} will be delivered again`);
      read();
      onChange();
    });
  return html`
    <div class="wide-dialog">
      <${Heading} title="Parked events" onClose=${closeDialog} />
      <p class="row"><button type="button" class="primary" disabled=${(items ?? []).length === 0} onClick=${() =>
        replay()}>Deliver all again</button><button type="button" onClick=${read}>Refresh</button></p>
      ${items?.length === 0 ? html`<p class="dim">No event is parked.</p>` : null}
      <ul class="rows">${(items ?? []).map((one) =>
        html`<li key=${one.id}><div><b>${one.type}</b><small class="dim">${fullTimeOf(one.parkedAt)}${
          one.error === null ? "" : `, ${one.error}`
        }</small></div>
          <span class="tag">${one.state}${one.httpStatus === null ? "" : ` ${one.httpStatus}`}</span>
          <button type="button" disabled=${one.state === "waiting"} onClick=${() =>
          replay([one.id])}>Deliver again</button></li>`
      )}</ul></div>
  `;
}
