// What agents and others have stored about the caller, which can be forgotten.
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { dateOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Page } from "../core/resources.ts";
import { confirmThen } from "../part/dialog.ts";
import { usePages } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";
import { roomName, rooms } from "../room/rooms.ts";

type Memory = {
  id: string;
  scope: { type: "room" | "principal" | "agent" | "tenant"; id: string };
  text: string | null;
  status: "proposed" | "active";
  createdBy: string;
  createdAt: string;
};

export function Memories(): VNode {
  const { page, setPage, read, more } = usePages((cursor) =>
    get<Page<Memory>>("v1/collaboration/me/memories", { status: ["active", "proposed"], limit: 50, cursor })
  );
  useEffect(read, []);
  const forget = ({ id, text }: Memory): void =>
    confirmThen("Forget this?", text ?? "", "Forget", async () => {
      await call("DELETE", `v1/collaboration/memory/items/${id}`);
      setPage((shown) => shown && { ...shown, items: shown.items.filter((one) => one.id !== id) });
    });
  return html`
    <section class="card">
      <h2>What agents know of you</h2>
      <${Placeholder} items=${page?.items} read=${read} text="Nothing is stored about you." />
      <ul class="rows">${page?.items.map((one) =>
        html`<li key=${one.id}><div><span dir="auto">${one.text}</span>
          <small class="dim">${describe(one)}</small></div>
          <button type="button" aria-label=${`Forget: ${one.text}`} onClick=${() => forget(one)}>Forget</button></li>`
      )}</ul>
      ${more === undefined ? null : html`<p><button type="button" onClick=${more}>Show more</button></p>`}
    </section>
  `;
}

/** Who wrote it when, and who can read it. */
function describe({ scope, status, createdBy, createdAt }: Memory): string {
  const room = rooms.value.get(scope.id);
  const readers = scope.type === "room"
    ? room === undefined ? "members of a room" : `members of ${roomName(room)}`
    : scope.type === "agent"
    ? `the agent ${nameOf(scope.id)}`
    : scope.type === "tenant"
    ? "everybody in your team"
    : "you alone";
  return `${status === "proposed" ? "Proposed" : "Stored"} by ${nameOf(createdBy)}, ${dateOf(createdAt)}. ` +
    `Read by ${readers}.`;
}
