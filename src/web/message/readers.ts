// Who has read a message, as far as they share it.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { useLatest } from "../core/notice.ts";
import { readMembers } from "../core/people.ts";
import type { Member, Message } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";

export function openReaders(message: Message): void {
  openDialog(() => html`<${Readers} message=${message} />`);
}

function Readers({ message: { roomId, seq, senderId } }: { message: Message }): VNode {
  const [members, setMembers] = useState<readonly Member[]>();
  const read = useLatest(() => readMembers(roomId), setMembers);
  useLive(read, ({ type }, channel) => type === "member.read" && channel === `room:${roomId}`, [roomId]);
  const others = (members ?? []).filter(({ principalId, kind }) =>
    kind === "human" && principalId !== myId() && principalId !== senderId
  );
  const readers = others.filter(({ lastReadSeq }) => (lastReadSeq ?? 0) >= seq);
  const waiting = others.filter(({ lastReadSeq }) => lastReadSeq !== null && lastReadSeq < seq);
  const silent = others.length - readers.length - waiting.length;
  return html`
    <div>
      <${Heading} title="Read by" onClose=${closeDialog} />
      <${Placeholder} items=${members && readers} read=${read} text="Nobody yet." />
      <${People} people=${readers} />
      ${waiting.length === 0 ? null : html`
        <h3>Not yet</h3>
        <${People} people=${waiting} />
      `}
      ${silent === 0 ? null : html`<p class="dim">${silent} more do not share what they have read.</p>`}
    </div>
  `;
}

function People({ people }: { people: readonly Member[] }): VNode {
  return html`
    <ul class="rows">${people.map(({ principalId, displayName }) =>
      html`<li key=${principalId}><span class="person-link"><${Avatar} id=${principalId} isSmall />
        <span dir="auto">${displayName}</span></span></li>`
    )}</ul>
  `;
}
