// Who may read or edit a private document.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, Heading } from "../part/dialog.ts";
import { usePrincipals } from "../room/create.ts";

type Access = { principalId: string; role: "reader" | "editor" | "owner" };

export function Sharing({ path }: { path: string }): VNode {
  const [access, setAccess] = useState<readonly Access[]>([]);
  const [q, setQ, people] = usePrincipals();
  const read = async (): Promise<void> => setAccess((await get<{ items: Access[] }>(`${path}/access`)).items);
  useEffect(() => void attempt(read), [path]);
  const set = (id: string, role: string): void =>
    void attempt(async () => {
      const target = `${path}/access/${encodeURIComponent(id)}`;
      await (role === "" ? call("DELETE", target) : call("PUT", target, { role }));
      await read();
    });
  const others = people.filter(({ id, disabled }) =>
    !disabled && !access.some(({ principalId }) => principalId === id)
  );
  return html`
    <div>
      <${Heading} title="Share" onClose=${closeDialog} />
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
      <ul class="rows">${others.slice(0, 6).map(({ id, displayName }) =>
        html`
          <li
            key=${id}><span class="person-link"><${Avatar} id=${id} isSmall /><span dir="auto">${displayName}</span></span>
                  <button type="button" onClick=${() => set(id, "editor")}>Add</button></li>
        `
      )}</ul>
    </div>
  `;
}
