// The same change for several tasks of a board.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt, notify } from "../core/notice.ts";
import { readMembers } from "../core/people.ts";
import type { Member } from "../core/resources.ts";
import { PRIORITIES, STATUSES, type Task, updateTasks } from "./tasks.ts";

type Option = readonly [value: string, label: string];

const STATUS_OPTIONS: readonly Option[] = [...STATUSES, ["cancelled", "Cancelled"]];
const PRIORITY_OPTIONS: readonly Option[] = PRIORITIES.map((one) => [one, one]);
/** Not the id of a person. */
const NOBODY = " ";

/** What is done with the selected tasks; `all` are those that could be. People are offered where there is a room. */
export function BulkBar({ roomId, all, selected, onSelect, onClose }: {
  roomId: string | undefined;
  all: readonly Task[];
  selected: ReadonlySet<string>;
  onSelect: (ids: readonly string[]) => void;
  onClose: () => void;
}): VNode {
  const [isBusy, setBusy] = useState(false);
  const [members, setMembers] = useState<readonly Member[]>([]);
  useEffect(() => {
    if (roomId !== undefined) void attempt(async () => setMembers(await readMembers(roomId)));
  }, [roomId]);
  const chosen = all.filter(({ id }) => selected.has(id));
  const change = async (patch: Record<string, unknown>): Promise<void> => {
    setBusy(true);
    await attempt(async () => {
      const failed = await updateTasks(chosen, patch);
      const done = count(chosen.length - failed.length, "task");
      if (failed.length === 0) notify(`Changed ${done}`);
      else notify(`Changed ${done}. ${failed.join(". ")}`, true);
    });
    setBusy(false);
  };
  const people: Option[] = members.map(({ principalId, displayName }) => [principalId, displayName]);
  const isWhole = chosen.length === all.length;
  return html`
    <div class="bulk-bar" role="toolbar" aria-label="Selected tasks">
      <b role="status">${count(chosen.length, "task")} selected</b>
      <button type="button" onClick=${() => onSelect(isWhole ? [] : all.map(({ id }) => id))}>${isWhole
        ? "Select none"
        : "Select all"}</button>
      <fieldset disabled=${isBusy || chosen.length === 0}>
        <${Choice} label="Status" options=${STATUS_OPTIONS} onChoose=${(status: string) => change({ status })} />
        <${Choice} label="Priority" options=${PRIORITY_OPTIONS} onChoose=${(priority: string) =>
          change({ priority })} />
        ${roomId === undefined ? null : html`
          <${Choice} label="Assign to" options=${[[NOBODY, "Nobody"], ...people]} onChoose=${(id: string) =>
            change({ assigneeIds: id === NOBODY ? [] : [id] })} />
        `}
        <label class="due">Due <input type="date" value="" onChange=${({ target }: Event) => {
          const { value } = target as HTMLInputElement;
          // At the end of the day, where the person is.
          if (value !== "") void change({ dueAt: new Date(`${value}T18:00`).toISOString() });
        }} /></label>
      </fieldset>
      <button type="button" onClick=${onClose}>Done</button>
    </div>
  `;
}

/** Acts on each choice, and is then as before. */
function Choice({ label, options, onChoose }: {
  label: string;
  options: readonly Option[];
  onChoose: (value: string) => Promise<void>;
}): VNode {
  return html`
    <select aria-label=${label} value="" onChange=${({ target }: Event) => {
      const select = target as HTMLSelectElement;
      const { value } = select;
      select.value = "";
      if (value !== "") void onChoose(value);
    }}><option value="">${label}…</option>${options.map(([value, text]) =>
      html`<option key=${value} value=${value}>${text}</option>`
    )}</select>
  `;
}
