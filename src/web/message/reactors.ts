// Who reacted to a message.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { get, listAll } from "../core/api.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { useLatest } from "../core/notice.ts";
import type { Message, Page, Person } from "../core/resources.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";

type Reactor = { key: string; principal: Person };

const NAMES_MAX = 10;

/** Names of those who reacted with a key, in one line. */
export async function readReactors(messageId: string, key: string, count: number): Promise<string> {
  const { items } = await get<Page<Reactor>>(pathOf(messageId), { key, limit: NAMES_MAX });
  const names = items.map(({ principal }) => principal.displayName).join(", ");
  return count > items.length ? `${names} and ${count - items.length} more` : names;
}

export function openReactors(message: Message): void {
  openDialog(() => html`<${Reactors} message=${message} />`);
}

function Reactors({ message: { id, roomId } }: { message: Message }): VNode {
  const [reactors, setReactors] = useState<readonly Reactor[]>();
  const read = useLatest(() => listAll<Reactor>(pathOf(id)), setReactors);
  useLive(
    read,
    ({ type, data }, channel) => type.startsWith("reaction.") && channel === `room:${roomId}` && data.messageId === id,
    [id],
  );
  return html`
    <div>
      <${Heading} title="Reactions" onClose=${closeDialog} />
      <${Placeholder} items=${reactors} read=${read} text="None any more." />
      ${[...Map.groupBy(reactors ?? [], ({ key }) => key)].map(([key, all]) =>
        html`
          <h3>${key} ${all.length}</h3>
          <ul class="rows">${all.map(({ principal: { id, displayName } }) =>
            html`<li key=${id}><span class="person-link"><${Avatar} id=${id} isSmall />
                <span dir="auto">${displayName}</span></span></li>`
          )}</ul>
        `
      )}
    </div>
  `;
}

function pathOf(messageId: string): string {
  return `v1/messages/${messageId}/reactions`;
}
