// A copy of what there is of the person.
import type { VNode } from "preact";
import { get, post } from "../core/api.ts";
import { fullTimeOf, sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, notify } from "../core/notice.ts";
import { myId } from "../core/session.ts";
import { download } from "../part/download.ts";
import { useList } from "../part/list.ts";

type Export = {
  id: string;
  kind: string;
  state: string;
  size: number | null;
  requestedBy: string;
  createdAt: string;
  expiresAt: string | null;
};

const EXPORTS = "v1/collaboration/exports";

export function OwnData(): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Export[] }>(EXPORTS, { limit: 200 })).items);
  useLive(read, ({ type }) => type === "export.updated");
  const [last] = (items ?? []).filter(({ kind, requestedBy }) => kind === "principal" && requestedBy === myId());
  const ask = act(async () => {
    await post(EXPORTS, { kind: "principal" });
    notify("You are notified when your data is ready");
  });
  return html`
    <p>A file of your messages, uploads, settings, and what you created or are assigned to.</p>
    <p class="row"><button type="button" onClick=${ask}>Download my data</button>${last === undefined
      ? null
      : html`<${State} last=${last} />`}</p>
  `;
}

function State({ last: { id, state, size, createdAt, expiresAt } }: { last: Export }): VNode {
  if (state !== "done") {
    const text = state === "failed"
      ? "could not be prepared"
      : state === "expired"
      ? "was deleted"
      : "is being prepared";
    return html`<span class="dim">The copy of ${fullTimeOf(createdAt)} ${text}</span>`;
  }
  return html`
    <button type="button" class="primary" onClick=${() =>
      void attempt(() => download(`${EXPORTS}/${id}/content?format=html`, `${id}.html`))}>Save it to read</button>
    <button type="button" onClick=${() =>
      void attempt(() => download(`${EXPORTS}/${id}/content`, `${id}.ndjson`))}>Save it for programs</button>
    <span class="dim">${sizeOf(size ?? 0)}, of ${fullTimeOf(createdAt)}${expiresAt === null
      ? ""
      : `, until ${fullTimeOf(expiresAt)}`}</span>
  `;
}
