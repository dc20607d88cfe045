// What a message said before it was edited.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { listAll } from "../core/api.ts";
import { fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Message } from "../core/resources.ts";
import { closeDialog, Heading, openDialog } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";
import { markdown } from "./markdown.ts";

type Version = { version: number; text: string | null; editorId: string; at: string };

export function openHistory(message: Message): void {
  openDialog(() => html`<${History} message=${message} />`);
}

function History({ message: { id, senderId, format } }: { message: Message }): VNode {
  const [versions, setVersions] = useState<readonly Version[]>();
  const read = useLatest(() => listAll<Version>(`v1/messages/${id}/history`), setVersions);
  useLive(read, ({ type, data }) => type === "message.updated" && data.messageId === id, [id]);
  return html`
    <div>
      <${Heading} title="Edit history" onClose=${closeDialog} />
      <${Placeholder} items=${versions} read=${read} />
      <ul class="rows">${(versions ?? []).toReversed().map(({ version, text, editorId, at }, n) =>
        html`
          <li key=${version}>
            <div><small class="dim">${fullTimeOf(at)}${editorId === senderId ? "" : html`
              by <b dir="auto">${nameOf(editorId)}</b>
            `}${n === 0 ? " (now)" : ""}</small>
            <div class="text" dir="auto">${format === "plain"
              ? html`<p class="plain-text">${text}</p>`
              : markdown(text ?? "")}</div></div>
          </li>
        `
      )}</ul>
    </div>
  `;
}
