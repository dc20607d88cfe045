// Webhooks: where events are delivered, and how that works out.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get, listAll, post } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt, notify } from "../core/notice.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { Menu } from "../part/menu.ts";

type Webhook = {
  id: string;
  url: string;
  events: string[];
  description: string | null;
  enabled: boolean;
  state: string;
  lastError: string | null;
  parkedCount: number;
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
  const [items, setItems] = useState<readonly Webhook[]>();
  const read = (): void => void attempt(async () => setItems(await listAll<Webhook>(PATH)));
  useEffect(read, []);
  const act = (work: () => Promise<unknown>) => (): void =>
    void attempt(async () => {
      await work();
      read();
    });
  return html`
    <p class="row spread"><span class="dim">Events of your tenant, sent to your own services in order.</span>
      <button type="button" class="primary" onClick=${() => openNew(read)}>New webhook</button></p>
    ${items?.length === 0 ? html`<p class="empty">No webhooks.</p>` : null}
    <ul class="rows">${(items ?? []).map((one) =>
      html`
        <li key=${one.id}>
          <div><b class="clip">${one.url}</b><small class="dim">${one.state}${one.description === null
            ? ""
            : `, ${one.description}`}, ${one.events.join(", ")}${one.lastError === null
            ? ""
            : `, ${one.lastError}`}${one.parkedCount === 0 ? "" : `, ${one.parkedCount} parked`}</small></div>
          <${Menu} label=${`Menu of ${one.url}`} items=${[
            {
              label: "Deliveries",
              icon: "clock",
              onSelect: () => openDialog(() => html`<${Deliveries} id=${one.id} />`),
            },
            { label: "Send a test", icon: "send", onSelect: act(() => test(one.id)) },
            {
              label: one.enabled ? "Disable" : "Enable",
              icon: "check",
              onSelect: act(() => call("PATCH", `${PATH}/${one.id}`, { enabled: !one.enabled })),
            },
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

function showSecret(secret: string): void {
  openDialog(() =>
    html`
      <div class="fields"><${Heading} title="Secret of the webhook" onClose=${closeDialog} />
        <p class="dim">It signs every delivery, and is shown only now.</p>
        <input readonly value=${secret} aria-label="Secret" onFocus=${(event: FocusEvent) =>
          (event.target as HTMLInputElement).select()} /></div>
    `
  );
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
