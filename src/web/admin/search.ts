// The index of the search, and the vectors by which it finds texts of a similar meaning.
import type { VNode } from "preact";
import { get, post } from "../core/api.ts";
import { count, fullTimeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { notify } from "../core/notice.ts";
import { confirmThen } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Index = { enabled: boolean; documents: number; pendingRoomCount: number; lastError: string | null };
type Vectors = {
  enabled: boolean;
  model: string | null;
  stored: number;
  pending: number;
  failed: number;
  building: { model: string; stored: number; pending: number } | null;
  pausedCode: string | null;
  pausedUntil: string | null;
};

const INDEX = "v1/collaboration/search";
const VECTORS = "v1/collaboration/vectors";

export function SearchAdmin(): VNode {
  const index = useList(async () => [await get<Index>(`${INDEX}/status`)]);
  const vectors = useList(async () => [await get<Vectors>(`${VECTORS}/status`)]);
  return html`
    <p class="row spread"><span class="dim">The search stays available while it is rebuilt.</span>
      <button type="button" onClick=${() => {
        index.read();
        vectors.read();
      }}>Refresh</button></p>
    <${Part} title="Words" text=${wordsOf} ...${index} path=${INDEX}
      question="All content is read again, so that older content is found as new content is." />
    <${Part} title="Meaning" text=${meaningOf} ...${vectors} path=${VECTORS}
      question="All content is sent to the embedding model again, which counts against your budgets." />
  `;
}

function Part<State extends { enabled: boolean }>({ title, text, items, read, path, question }: {
  title: string;
  text: (state: State) => string[];
  path: string;
  question: string;
} & Pick<ReturnType<typeof useList<State>>, "items" | "read">): VNode {
  const [state] = items ?? [];
  const rebuild = (): void =>
    confirmThen(`Rebuild: ${title}?`, question, "Rebuild", async () => {
      await post(`${path}/reindex`);
      notify("Rebuilding has started");
      read();
    });
  return html`
    <section>
      <h2>${title}</h2>
      <${Placeholder} items=${items} read=${read} />
      ${state === undefined ? null : html`
        <ul>${text(state).map((line) => html`<li key=${line}>${line}</li>`)}</ul>
        ${state.enabled
          ? html`<p><button type="button" aria-label=${`Rebuild: ${title}`} onClick=${rebuild}>Rebuild</button></p>`
          : null}
      `}
    </section>
  `;
}

function wordsOf({ enabled, documents, pendingRoomCount, lastError }: Index): string[] {
  if (!enabled) return ["The search is turned off on this gateway."];
  return [
    `${count(documents, "item")} can be found`,
    ...pendingRoomCount === 0 ? [] : [`${count(pendingRoomCount, "room")} with new messages are waiting`],
    ...lastError === null ? [] : [`The last failure was ${lastError}`],
  ];
}

function meaningOf({ enabled, model, stored, pending, failed, building, pausedCode, pausedUntil }: Vectors): string[] {
  if (!enabled) {
    return ["Your team has no embedding model. The operator of the gateway or a provider of yours adds one."];
  }
  return [
    ...model === null ? [] : [`Model: ${model}`],
    `${count(stored, "item")} can be found${pending === 0 ? "" : `, ${pending.toLocaleString()} are waiting`}`,
    ...failed === 0 ? [] : [`${count(failed, "item")} were refused by the model`],
    ...building === null ? [] : [
      `Being rebuilt with ${building.model}: ${building.stored.toLocaleString()} done, ${building.pending.toLocaleString()} waiting`,
    ],
    ...pausedCode === null ? [] : [
      `Paused: ${pausedCode.replaceAll("_", " ")}${pausedUntil === null ? "" : `, until ${fullTimeOf(pausedUntil)}`}`,
    ],
  ];
}
