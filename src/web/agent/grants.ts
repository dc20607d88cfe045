// Decisions about an agent in a room that hold for more than one call: they can be revoked.
import type { VNode } from "preact";
import { call, listAll } from "../core/api.ts";
import { fullDayOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Member, Room } from "../core/resources.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Grant = { id: string; tool: string; effect: "allow" | "deny"; createdBy: string; expiresAt: string };

const PATH = "v1/collaboration/ai/grants";

export function openGrants(room: Room, agent: Member): void {
  openDialog(() => html`<${Grants} room=${room} agent=${agent} />`);
}

function Grants({ room, agent: { principalId, displayName } }: { room: Room; agent: Member }): VNode {
  const { items, read, act } = useList(() => listAll<Grant>(PATH, { roomId: room.id, agentId: principalId }));
  return html`
    <div class="wide-dialog">
      <${Heading} title=${`Decisions about ${displayName}`} onClose=${closeDialog} />
      <${Placeholder} items=${items} read=${read} text="It asks before each call that needs an approval." />
      <ul class="rows">${(items ?? []).map(({ id, tool, effect, createdBy, expiresAt }) =>
        html`
          <li key=${id}><div><b>${tool}</b><small class="dim">by ${nameOf(createdBy)}, until ${fullDayOf(
            new Date(expiresAt),
          )}</small></div>
            <span class="tag">${effect === "allow" ? "approved" : "denied"}</span>
            <button type="button" aria-label=${`Revoke the decision about ${tool}`} onClick=${act(() =>
              call("DELETE", `${PATH}/${id}`)
            )}>Revoke</button></li>
        `
      )}</ul>
    </div>
  `;
}
