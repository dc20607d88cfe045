// Imports of archives of other services and gateways, and exports of this team.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { listAll, post, upload } from "../core/api.ts";
import { count, fullTimeOf, sizeOf } from "../core/format.ts";
import { html } from "../core/html.ts";
import { useLive } from "../core/live.ts";
import { attempt, notify } from "../core/notice.ts";
import { nameOf } from "../core/people.ts";
import { myId } from "../core/session.ts";
import { closeDialog, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { download } from "../part/download.ts";
import { useList } from "../part/list.ts";
import { Placeholder } from "../part/place.ts";

type Transfer = {
  id: string;
  kind: string;
  state: string;
  size: number | null;
  failure: { detail: string } | null;
  requestedBy: string;
  createdAt: string;
};
type Reported = { code: string; count: number; examples: string[] };
type Import = Transfer & {
  progress: { done: number; total: number; added: Record<string, number> };
  report: Reported[];
};

const IMPORTS = "v1/collaboration/imports";
const EXPORTS = "v1/collaboration/exports";
const SOURCES: Readonly<Record<string, string>> = {
  slack: "Slack (zip)",
  mattermost: "Mattermost (zip or JSONL)",
  gateway: "Another gateway (NDJSON)",
};
const UNFINISHED = ["waiting", "queued", "running"];
const SHOWN_MAX = 200;

export function Transfers(): VNode {
  const { items, read, act } = useList(async () => {
    const [imports, exports] = await Promise.all([
      listAll<Import>(IMPORTS, {}, SHOWN_MAX),
      listAll<Transfer>(EXPORTS, {}, SHOWN_MAX),
    ]);
    return [...imports, ...exports].toSorted((a, b) => b.createdAt.localeCompare(a.createdAt));
  });
  useLive(read, ({ type }) => type === "import.updated" || type === "export.updated");
  return html`
    <p
      class="row spread"><span class="dim">Archives of Slack, Mattermost or another gateway, and exports of your team.</span>
      <span class="row"><button type="button" onClick=${read}>Refresh</button>
        <button type="button" onClick=${() => openExport(read)}>Export</button>
        <button type="button" class="primary" onClick=${() => openImport(read)}>Import</button></span></p>
    <${Placeholder} items=${items} read=${read} text="Nothing was imported or exported yet." />
    <ul class="rows">${(items ?? []).map((one) => html`<${Row} key=${one.id} transfer=${one} act=${act} />`)}</ul>
  `;
}

function Row({ transfer, act }: {
  transfer: Transfer | Import;
  act: (work: () => Promise<unknown>) => () => void;
}): VNode {
  const { id, kind, state, size, failure, requestedBy, createdAt } = transfer;
  const isImport = "progress" in transfer;
  const title = isImport
    ? `Import: ${SOURCES[kind] ?? kind}`
    : `Export of ${{ tenant: "the team", principal: "a person" }[kind] ?? "a room"}`;
  const details = [
    fullTimeOf(createdAt),
    nameOf(requestedBy),
    ...size === null ? [] : [sizeOf(size)],
    ...isImport ? addedBy(transfer) : [],
    ...failure === null ? [] : [failure.detail],
  ];
  return html`
    <li>
      <div><b>${title}</b><small class="dim">${details.join(", ")}</small></div>
      <span class="tag">${isImport && state === "running" ? `${percentOf(transfer)} %` : state}</span>
      ${isImport && transfer.report.length > 0
        ? html`<button type="button" onClick=${() => openReport(transfer.report)}>Report</button>`
        : null}
      ${isImport && UNFINISHED.includes(state)
        ? html`<button type="button" onClick=${act(() => post(`${IMPORTS}/${id}/cancel`))}>Cancel</button>`
        : null}
      ${!isImport && state === "done" && (kind !== "principal" || requestedBy === myId())
        ? html`<button type="button" onClick=${() =>
          void attempt(() => download(`${EXPORTS}/${id}/content`, `${id}.ndjson`))}>Download</button>`
        : null}
    </li>
  `;
}

function percentOf({ progress: { done, total } }: Import): number {
  return total === 0 ? 0 : Math.floor(100 * done / total);
}

function addedBy({ progress: { added } }: Import): string[] {
  return Object.entries(added).filter(([, n]) => n > 0).map(([name, n]) => `${name} ${n}`);
}

/** What was left out or changed, and why. */
function openReport(report: readonly Reported[]): void {
  openDialog(() =>
    html`
      <div class="wide-dialog">
        <${Heading} title="Report of the import" onClose=${closeDialog} />
        <ul class="rows">${report.map(({ code, count: n, examples }) =>
          html`
            <li key=${code}>
              <div><b>${code.replaceAll("_", " ")}, ${count(n, "time")}</b>
              <small class="dim">${examples.join(" · ")}</small></div>
            </li>
          `
        )}</ul>
      </div>
    `
  );
}

function openImport(onChange: () => void): void {
  openDialog(() => html`<${ImportForm} onChange=${onChange} />`);
}

/** Archives may be large: how much was sent is shown, and who closes the dialog ends the upload. */
function ImportForm({ onChange }: { onChange: () => void }): VNode {
  const [progress, setProgress] = useState<number>();
  const end = useRef(new AbortController());
  useEffect(() => () => end.current.abort(), []);
  async function submit(fields: FormData): Promise<void> {
    const { signal } = end.current;
    setProgress(0);
    let id = "";
    try {
      ({ id } = await post<{ id: string }>(IMPORTS, { kind: fields.get("kind") }));
      await upload(`${IMPORTS}/${id}/content`, fields.get("archive") as File, setProgress, signal, "PUT");
      notify("The import has started");
    } catch (error) {
      setProgress(undefined);
      // Otherwise it waits for its archive, and ends after a day.
      if (id !== "") await post(`${IMPORTS}/${id}/cancel`).catch(() => undefined);
      if (!signal.aborted) throw error;
    }
    onChange();
  }
  return html`
    <${DialogForm} title="Import" action="Upload" onSubmit=${submit}>
      <label>From <select name="kind">${Object.entries(SOURCES).map(([kind, label]) =>
        html`<option key=${kind} value=${kind}>${label}</option>`
      )}</select></label>
      <label>Archive <input name="archive" type="file" required accept=".zip,.jsonl,.ndjson" /></label>
      <p class="dim">Rooms, people and messages are added to your team. Importing the same again adds only what is
        missing. Nobody is notified.</p>
      ${progress === undefined ? null : html`
        <label>${progress < 1 ? `Uploading, ${Math.floor(progress * 100)} %` : "Uploaded, being checked"}
          <progress value=${progress}></progress></label>
      `}
      <//>
  `;
}

function openExport(onChange: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Export" action="Start" onSubmit=${async (fields: FormData) => {
        await post(EXPORTS, {
          kind: "tenant",
          files: fields.get("files") !== null,
          revisions: fields.get("revisions") !== null,
        });
        onChange();
      }}>
        <label class="check"><input type="checkbox" name="files" defaultChecked /> With the contents of files</label>
        <label
          class="check"><input type="checkbox" name="revisions" defaultChecked /> With earlier revisions of documents</label>
        <p class="dim">All rooms are in it, also private and direct ones. It can be downloaded for three days.</p>
        <//>
    `
  );
}
