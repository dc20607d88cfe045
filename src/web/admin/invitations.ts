// Invitations: an address to share for each.
import type { VNode } from "preact";
import { addressOf, call, listAll, post } from "../core/api.ts";
import { count, DAY_SECONDS, fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { DialogForm, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { showOnce } from "../part/shown_once.ts";

type Invitation = { id: string; name: string; role: string; usesLeft: number; createdBy: string; expiresAt: string };

const PATH = "v1/collaboration/invitations";

export function Invitations(): VNode {
  const { items, read, act } = useList(() => listAll<Invitation>(PATH));
  return html`
    <p class="row spread"><span class="dim">People who open an invitation join your team.</span>
      <button type="button" class="primary" onClick=${() => openNew(read)}>New invitation</button></p>
    <${Placeholder} items=${items} read=${read} text="No invitation is open." />
    <ul class="rows">${(items ?? []).map(({ id, name, role, usesLeft, createdBy, expiresAt }) =>
      html`
        <li
          key=${id}><div><b dir="auto">${name}</b><small class="dim">${role}, ${count(
            usesLeft,
            "use",
          )} left, until ${fullTimeOf(expiresAt)}, by ${nameOf(createdBy)}</small></div>
                <button type="button" onClick=${act(() => call("DELETE", `${PATH}/${id}`))}>Revoke</button></li>
      `
    )}</ul>
  `;
}

function openNew(onCreated: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="New invitation" action="Create" onSubmit=${async (fields: FormData) => {
        const { path } = await post<{ path: string }>(PATH, {
          name: String(fields.get("name")).trim(),
          role: fields.get("role"),
          uses: Number(fields.get("uses")),
          expiresInSeconds: Number(fields.get("days")) * DAY_SECONDS,
        });
        onCreated();
        showOnce("Share this address", "Anyone who opens it joins your team.", {
          label: "Address of the invitation",
          value: addressOf("") + path,
        });
      }}>
        <label>For <input name="name" required maxlength="100" autofocus placeholder="Design team" /></label>
        <label>Role <select name="role"><option>member</option><option>guest</option><option>auditor</option><option>admin</option></select></label>
        <div
          class="pair"><label>How many people <input name="uses" type="number" min="1" max="1000" defaultValue="1" required /></label>
              <label>Days until it ends <input name="days" type="number" min="1" max="30" defaultValue="7" required /></label></div>
        <//>
    `
  );
}
