// Skills: instructions that agents read when they need them. An administrator approves each version.
import type { VNode } from "preact";
import { call, get, listAll, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Person } from "../core/resources.ts";
import { markdown } from "../message/markdown.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { Placeholder } from "../part/place.ts";
import { useList } from "../part/list.ts";
import { roomList, roomName } from "../room/rooms.ts";

type Summary = { name: string; description: string; digest: string; state: string; enabled: boolean };

type Attachment = { kind: "agent" | "room"; subjectId: string; digest: string };
type Subject = { kind: Attachment["kind"]; subjectId: string; label: string };
type Skill = {
  name: string;
  body: string;
  versions: { digest: string; state: string }[];
  attachments: Attachment[];
};

const PATH = "v1/collaboration/skills";

export function Skills(): VNode {
  const { items, read, act } = useList(async () => (await get<{ items: Summary[] }>(PATH)).items);
  return html`
    <p class="row spread"><span class="dim">Instructions that agents read when they need them.</span>
      <button type="button" class="primary" onClick=${() => openImport(read)}>Import</button></p>
    <${Placeholder} items=${items} read=${read} text="No skills." />
    <ul class="rows">${(items ?? []).map(({ name, description, digest, state, enabled }) =>
      html`<li key=${name}><div><b dir="auto">${name}</b><small class="dim" dir="auto">${description}</small></div>
        <span class="tag">${enabled ? state : "disabled"}</span>
        <button type="button" onClick=${() => openDialog(() => html`<${SkillText} name=${name} />`)}>Show</button>
        ${
        state === "pending"
          ? html`<button type="button" class="primary" onClick=${
            act(() => post(`${PATH}/${name}/approve`, { digest }))
          }>Approve</button>`
          : null
      }
        <button type="button" onClick=${act(() => call("PATCH", `${PATH}/${name}`, { enabled: !enabled }))}>${
        enabled ? "Disable" : "Enable"
      }</button>
        <button type="button" class="danger-text" onClick=${() =>
        confirmThen(`Remove ${name}?`, "Agents that have it lose it.", "Remove", async () => {
          await call("DELETE", `${PATH}/${name}`);
          read();
        })}>Remove</button></li>`
    )}</ul>
  `;
}

function SkillText({ name }: { name: string }): VNode {
  const { items, read, act } = useList(async () => [await get<Skill>(`${PATH}/${name}`)]);
  const [skill] = items ?? [];
  return html`
    <div class="wide-dialog">
      <${Heading} title=${name} onClose=${closeDialog} />
      <${Placeholder} items=${items} read=${read} />
      ${skill === undefined ? null : html`
        <div class="text scroll" dir="auto">${markdown(instructionsOf(skill.body))}</div>
        <${Attachments} skill=${skill} act=${act} />
      `}
    </div>
  `;
}

/** Without the head, which the list shows. */
function instructionsOf(text: string): string {
  const end = text.startsWith("---") ? text.indexOf("\n---", 3) : -1;
  return end < 0 ? text : text.slice(text.indexOf("\n", end + 1) + 1);
}

/** The agents and rooms that have it. In a room, all agents have it. */
function Attachments({ skill: { name, versions, attachments }, act }: {
  skill: Skill;
  act: (work: () => Promise<unknown>) => () => void;
}): VNode {
  const { items: agents } = useList(() => listAll<Person>("v1/collaboration/agents"));
  const subjects: Subject[] = [
    ...(agents ?? []).map(({ id, displayName }): Subject => ({ kind: "agent", subjectId: id, label: displayName })),
    ...roomList.value.map((room): Subject => ({ kind: "room", subjectId: room.id, label: roomName(room) })),
  ];
  const isAttached = (id: string): boolean => attachments.some(({ subjectId }) => subjectId === id);
  const labelOf = ({ kind, subjectId }: Attachment): string =>
    subjects.find((one) => one.subjectId === subjectId)?.label ?? (kind === "agent" ? nameOf(subjectId) : "a room");
  const approved = versions.find(({ state }) => state === "approved");
  const attach = ({ target }: Event): void => {
    const select = target as HTMLSelectElement;
    const chosen = subjects.find(({ subjectId }) => subjectId === select.value);
    select.value = "";
    if (chosen === undefined) return;
    const { kind, subjectId } = chosen;
    act(() => post(`${PATH}/${name}/attach`, { kind, subjectId, digest: approved?.digest }))();
  };
  return html`
    <h3>Attached to</h3>
    ${attachments.length === 0 ? html`<p class="dim">No agent or room has it yet.</p>` : null}
    <ul class="rows">${attachments.map((one) =>
      html`
        <li key=${`${one.kind} ${one.subjectId}`}><div dir="auto">${labelOf(one)}</div><span class="tag">${one
          .kind}</span>
          ${one.digest === approved?.digest ? null : html`<span class="tag">older version</span>`}
          <button type="button" aria-label=${`Detach ${labelOf(one)}`} onClick=${act(() =>
            post(`${PATH}/${name}/detach`, { kind: one.kind, subjectId: one.subjectId })
          )}>Detach</button></li>
      `
    )}</ul>
    ${approved === undefined ? html`<p class="dim">It can be attached once a version is approved.</p>` : html`
      <select aria-label="Attach to" value="" onChange=${attach}><option value="">Attach to…</option>
        ${subjects.filter(({ subjectId }) => !isAttached(subjectId)).map(({ kind, subjectId, label }) =>
          html`<option key=${subjectId} value=${subjectId}>${kind} ${label}</option>`
        )}</select>
    `}
  `;
}

function openImport(onImported: () => void): void {
  openDialog(() =>
    html`
      <${DialogForm} title="Import a skill" action="Import"
        onSubmit=${async (fields: FormData) => {
          await post(PATH, { files: [{ path: "SKILL.md", content: String(fields.get("text")) }] });
          onImported();
        }}><label>SKILL.md <textarea name="text" rows="12" required autofocus placeholder=${"---\nname: minutes\ndescription: Write minutes of a meeting\n---\n\n…"}></textarea></label><//>
    `
  );
}
