// A message that is not acknowledged yet.
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { classes, html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import { myId } from "../core/session.ts";
import { Avatar } from "../part/avatar.ts";
import { draftKey, drafts, setDraft, setReply } from "./editing.ts";
import { Files } from "./files.ts";
import { markdown } from "./markdown.ts";
import { discard, retry, type Unsent } from "./outbox.ts";

export function UnsentRow({ message }: { message: Unsent }): VNode {
  const { clientMessageId: id, failure, text, files } = message;
  const key = draftKey(message.roomId, message.threadId);
  const edit = (): void => {
    setDraft(key, [drafts.value.get(key) ?? "", text].join("\n").trim());
    if (message.replyToId !== undefined) setReply(message.roomId, message.replyToId);
    discard(id);
  };
  const nodes = useMemo(() => markdown(text), [text]);
  return html`
    <article class=${classes("message", "unsent", failure !== undefined && "failed")}>
      <div class="gutter">
        <${Avatar} id=${myId()} />
      </div>
      <div class="content">
        <header><span class="name">${nameOf(myId())}</span><span class="dim">${failure === undefined
          ? "sending…"
          : "not sent"}</span></header>
        <div class="text" dir="auto">${nodes}</div>
        <${Files} files=${files} />
        ${failure === undefined ? null : html`
          <p class="problem-text">${failure}
            <button type="button" onClick=${() => retry(id)}>Send again</button>
            ${files.length > 0 ? null : html`<button type="button" onClick=${edit}>Edit</button>`}
            <button type="button" onClick=${() => discard(id)}>Discard</button></p>
        `}
      </div>
    </article>
  `;
}
