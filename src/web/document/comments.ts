// Comments on a document, on a passage or on all of it.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, listAll, post } from "../core/api.ts";
import { shortTimeOf } from "../core/format.ts";
import { classes, html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, notify, useLatest } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import type { Mentions } from "../core/resources.ts";
import { myId } from "../core/session.ts";
import { markdown } from "../message/markdown.ts";
import { unmentionedIn } from "../message/unmentioned.ts";
import { Avatar } from "../part/avatar.ts";
import { confirmThen, Heading } from "../part/dialog.ts";
import { LineForm } from "../part/line_form.ts";
import { Placeholder } from "../part/place.ts";
import type { Editor } from "./connection.ts";
import { pictureOf } from "./pictures.ts";

type Comment = {
  id: string;
  parentId: string | null;
  authorId: string;
  text: string;
  anchor: { quote: string; text: string | null } | null;
  resolved: boolean;
  createdAt: string;
};

const QUOTE_MAX = 500;
/** Characters on each side of a quote. */
const CONTEXT_MAX = 200;
const CONTEXT_STEP = 20;

export function CommentsPane(
  { id, isEditable, editor, onClose }: {
    id: string;
    isEditable: boolean;
    editor: { current: Editor | undefined };
    onClose: () => void;
  },
): VNode {
  const [comments, setComments] = useState<readonly Comment[]>();
  const [showsResolved, setShowsResolved] = useState(false);
  const path = `v1/collaboration/documents/${encodeURIComponent(id)}/comments`;
  const read = useLatest(() => listAll<Comment>(path), setComments);
  useLive(read, ({ type, data }) => type === "document.commented" && data.documentId === id, [id]);
  async function add(text: string, parentId?: string): Promise<void> {
    const where = parentId === undefined ? anchorOf(editor.current) : { parentId };
    const { mentions = {} } = await post<{ mentions?: Partial<Mentions> }>(path, { text, ...where });
    for (const { name, reason } of unmentionedIn(mentions)) notify(`@${name} was not notified: ${reason}.`);
    read();
  }
  const roots = (comments ?? []).filter(({ parentId, resolved }) => parentId === null && (showsResolved || !resolved));
  const resolvedCount = (comments ?? []).filter(({ parentId, resolved }) => parentId === null && resolved).length;
  return html`
    <aside class="pane" aria-label="Comments">
      <${Heading} title="Comments" onClose=${onClose}>
        ${resolvedCount === 0 ? null : html`
          <button type="button" class="plain" aria-pressed=${showsResolved}
            onClick=${() => setShowsResolved(!showsResolved)}>${resolvedCount} resolved</button>
        `}
      <//>
      <ul class="cards scroll">
        ${roots.length > 0 ? null : html`
          <li>
            <${Placeholder} items=${comments && roots} read=${read}
              text=${isEditable ? "Select a passage and write a comment below." : "No comments yet."} />
          </li>
        `}
        ${roots.map((root) =>
          html`
            <${Thread} key=${root.id} root=${root} replies=${(comments ?? []).filter(({ parentId }) =>
              parentId === root.id
            )} path=${path} isEditable=${isEditable}
              onReply=${(text: string) => add(text, root.id)}
              onChange=${read} />
          `
        )}
      </ul>
      ${!isEditable ? null : html`
        <${LineForm} draft=${`comment ${id}`} className="writer" label="Comment" action="Comment" maxlength=${4000}
          onSend=${(
            text: string,
          ) => add(text)} />
      `}
    </aside>
  `;
}

function Thread({ root, replies, path, isEditable, onReply, onChange }: {
  root: Comment;
  replies: readonly Comment[];
  path: string;
  isEditable: boolean;
  onReply: (text: string) => Promise<void>;
  onChange: () => void;
}): VNode {
  const act = (work: Promise<unknown>): void => void attempt(async () => void (await work, onChange()));
  return html`
    <li class=${classes(root.resolved && "resolved")}>
      ${root.anchor === null
        ? null
        : html`<blockquote class="dim clip" dir="auto">${root.anchor.text ?? root.anchor.quote}</blockquote>`}
      ${[root, ...replies].map((one) =>
        html`
          <div class="comment" key=${one.id}>
            <small
              class="row"><${Avatar} id=${one.authorId} isSmall /><b dir="auto">${nameOf(
                one.authorId,
              )}</b> <span class="dim">${shortTimeOf(one.createdAt)}</span>
              ${isEditable && one.authorId === myId()
                ? html`<button type="button" class="link" onClick=${() =>
                  confirmThen("Delete this comment?", one.text, "Delete", async () => {
                    await call("DELETE", `${path}/${one.id}`);
                    onChange();
                  })}>delete</button>`
                : null}</small>
            <div class="text" dir="auto">${markdown(one.text, undefined, pictureOf)}</div>
          </div>
        `
      )}
      ${!isEditable ? null : html`
        <p class="row"><button type="button" class="link" onClick=${() =>
          act(call("PATCH", `${path}/${root.id}`, { resolved: !root.resolved }))}>${root.resolved
          ? "Reopen"
          : "Resolve"}</button></p>
        <${LineForm} draft=${`comment ${root.id}`} className="writer" label="Reply" action="Reply" maxlength=${4000}
          onSend=${onReply} />
      `}
    </li>
  `;
}

/** The selected text, with as much around it as is needed where it occurs more than once. */
function anchorOf(editor: Editor | undefined): { anchor?: { text: string; prefix: string; suffix: string } } {
  const all = editor?.text() ?? "";
  const { from, to } = editor?.selection() ?? { from: 0, to: 0 };
  const text = all.slice(from, to).trim().slice(0, QUOTE_MAX);
  if (text === "") return {};
  const start = all.indexOf(text, from);
  const end = start + text.length;
  for (let around = 0;; around += CONTEXT_STEP) {
    const [prefix, suffix] = [all.slice(Math.max(0, start - around), start), all.slice(end, end + around)];
    const whole = prefix + text + suffix;
    const isUnique = all.indexOf(whole) === all.lastIndexOf(whole);
    if (isUnique || around === CONTEXT_MAX) return { anchor: { text, prefix, suffix } };
  }
}
