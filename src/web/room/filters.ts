// Plugins that check messages of a room before they are sent.
import type { VNode } from "preact";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import type { Room } from "../core/resources.ts";
import { isAdmin } from "../core/session.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Filter = { pluginId: string; name: string; active: boolean; failure: "open" | "closed" };
type Plugin = { id: string; state: string; manifest: { name: string; hooks: unknown[] } };
type Choice = { id: string; name: string; filter?: Filter };

/** Administrators know which plugins there are; other owners of the room see those that filter it. */
export function MessageFilters({ room }: { room: Room }): VNode | null {
  const path = `v1/rooms/${room.id}/filters`;
  const { items, read, act } = useList(async (): Promise<Choice[]> => {
    const [filters, plugins] = await Promise.all([
      get<{ items: Filter[] }>(path),
      isAdmin() ? get<{ items: Plugin[] }>("v1/collaboration/plugins") : { items: [] },
    ]);
    const used = filters.items.map((filter) => ({ id: filter.pluginId, name: filter.name, filter }));
    const others = plugins.items.filter(({ id, state, manifest }) =>
      state === "enabled" && manifest.hooks.length > 0 && !used.some((one) => one.id === id)
    );
    return [...used, ...others.map(({ id, manifest }) => ({ id, name: manifest.name }))];
  });
  return html`
    <p class="dim">Plugins can check, change or refuse messages before they are sent.</p>
    <${Placeholder} items=${items} read=${read} text="No plugin that filters messages." />
    <ul class="rows">${items?.map(({ id, name, filter }) =>
      html`
        <li key=${id}><div><b dir="auto">${name}</b><small class="dim">${filter === undefined
          ? "not used in this room"
          : filter.failure === "closed"
          ? "messages are refused while it fails"
          : "messages are sent while it fails"}</small></div>
          ${filter?.active === false ? html`<span class="tag danger-text">not running</span>` : null}
          ${room.myRole === "owner"
            ? html`<button type="button" onClick=${
              act(() => call(filter === undefined ? "PUT" : "DELETE", `${path}/${id}`))
            }>${filter === undefined ? "Use" : "Stop"}</button>`
            : null}</li>
      `
    )}</ul>
  `;
}
