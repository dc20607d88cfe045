// Who may read or edit a private document.
import type { VNode } from "preact";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, Heading } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { usePrincipals } from "../room/create.ts";

type Access = { principalId: string; role: "reader" | "editor" | "owner" };

export function Sharing({ path }: { path: string }): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Access[] }>(`${path}/access`)).items);
  const access = items ?? [];
  const [q, setQ, people, note] = usePrincipals();
  const set = (id: string, role: string): void => {
    const target = `${path}/access/${encodeURIComponent(id)}`;
    act(() => role === "" ? call("DELETE", target) : call("PUT", target, { role }))();
  };
  const others = people.filter(({ id, disabled }) =>
    !disabled && !access.some(({ principalId }) => principalId === id)
  );
  return html`
    <div>
      <${Heading} title="Share" onClose=${closeDialog} />
      <${Placeholder} items=${items} read=${read} />
      <ul class="rows">${access.map(({ principalId, role }) =>
        html`
          <li
            key=${principalId}><span class="person-link"><${Avatar} id=${principalId} isSmall /><span dir="auto">${nameOf(
              principalId,
            )}</span></span>
                  ${role === "owner" ? html`<span class="tag">owner</span>` : html`
                    <select aria-label=${`Access of ${nameOf(principalId)}`} value=${role}
                      onChange=${(event: Event) => set(principalId, (event.target as HTMLSelectElement).value)}>
                              <option value="reader">may read</option><option value="editor">may edit</option><option value="">remove</option></select>
                  `}</li>
        `
      )}</ul>
      <input type="search" placeholder="Add people by name" aria-label="Add people by name" value=${q}
        onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <ul class="rows">${others.map(({ id, displayName }) =>
        html`
          <li
            key=${id}><span class="person-link"><${Avatar} id=${id} isSmall /><span dir="auto">${displayName}</span></span>
                  <button type="button" onClick=${() => set(id, "editor")}>Add</button></li>
        `
      )}</ul>
      ${note}
    </div>
  `;
}
