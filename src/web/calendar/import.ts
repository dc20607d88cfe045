// Events of a file of another calendar program.
import type { VNode } from "preact";
import { get, post } from "../core/api.ts";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import type { Room } from "../core/resources.ts";
import { closeDialog, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { canWrite, roomList, roomName } from "../room/rooms.ts";

type Report = {
  created: number;
  updated: number;
  unchanged: number;
  problems: { uid: string | null; detail: string }[];
};
type Import = { id: string; report: Report | null };

const PATH = "v1/collaboration/calendar/import";
const READ_AGAIN_MS = 500;
const FILE_MAX_BYTES = 1024 * 1024;

export function openImport(room: Room | undefined, onDone: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Import a calendar file" action="Import" onSubmit=${async (fields: FormData) => {
        const report = await importFile(fields.get("file") as File, String(fields.get("roomId")));
        onDone();
        openDialog(() => html`<${Outcome} report=${report} />`);
      }}>
        <label>File <input name="file" type="file" required autofocus accept=".ics,text/calendar" /></label>
        <label>Into <select name="roomId" value=${room !== undefined && canWrite(room) ? room.id : ""}>
          <option value="">your own calendar</option>
          ${roomList.value.filter(canWrite).map((one) =>
            html`<option key=${one.id} value=${one.id}>${roomName(one)}</option>`
          )}</select></label>
        <p class="dim">Calendar programs export such files, which end in .ics. Importing the same file again changes
          events that are there already, and adds none twice.</p>
        <//>
    `
  );
}

async function importFile(file: File, roomId: string): Promise<Report> {
  if (file.size > FILE_MAX_BYTES) throw new Error("The file is larger than 1 MB. Export fewer events at a time");
  const into = roomId === "" ? {} : { roomId };
  let { id, report } = await post<Import>(PATH, { text: await file.text(), ...into });
  while (report === null) {
    await new Promise((resolve) => setTimeout(resolve, READ_AGAIN_MS));
    ({ report } = await get<Import>(`${PATH}/${id}`));
  }
  return report;
}

function Outcome({ report: { created, updated, unchanged, problems } }: { report: Report }): VNode {
  return html`
    <div>
      <${Heading} title="Imported" onClose=${closeDialog} />
      <p role="status">${count(created, "event")} added, ${updated} changed, ${unchanged} as before.</p>
      ${problems.length === 0 ? null : html`
        <p>This was left out:</p>
        <ul class="rows">${problems.map(({ uid, detail }, at) =>
          html`
            <li key=${at}>
              <div>${detail}${uid === null ? null : html`<small class="dim">${uid}</small>`}</div>
            </li>
          `
        )}</ul>
      `}
    </div>
  `;
}
