// Groups of people: their names and handles, and who is in them.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call, get, listAll, post, withQuery } from "../core/api.ts";
import { count } from "../core/format.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import type { Group, Page } from "../core/resources.ts";
import { Avatar } from "../part/avatar.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { useFound, useList } from "../part/list.ts";
import { Menu } from "../part/menu.ts";
import { Placeholder } from "../part/place.ts";
import { usePrincipals } from "../room/create.ts";

type GroupMember = { principalId: string; displayName: string; disabled: boolean };

const PATH = "v1/collaboration/groups";
/** How many are listed; others are found by their name. */
const SHOWN_MAX = 100;

export function Groups(): VNode {
  const [q, setQ] = useState("");
  const { page, read, more } = useFound<Page<Group>>(
    q,
    (cursor) => get(PATH, { limit: 100, ...q === "" ? {} : { q }, cursor }),
  );
  return html`
    <p
      class="row spread"><span class="dim">A group is mentioned by its handle, and its members are added to rooms together.</span>
      <button type="button" class="primary" onClick=${() => openEdit(undefined, read)}>New group</button></p>
    <input type="search" placeholder="Find by name" aria-label="Find by name" value=${q}
      onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
    <${Placeholder} items=${page?.items} read=${read} text=${q === "" ? "No groups yet." : "There is no such group."} />
    <ul class="rows">${(page?.items ?? []).map((group) =>
      html`<${Row} key=${group.id} group=${group} onChange=${read} />`
    )}</ul>
    ${more === undefined ? null : html`<button type="button" onClick=${more}>Show more</button>`}
  `;
}

function Row({ group, onChange }: { group: Group; onChange: () => void }): VNode {
  const { id, name, handle, description, memberCount } = group;
  return html`
    <li>
      <div><b dir="auto">${name}</b><small class="dim">${handle === null
        ? "no handle"
        : html`<bdi>@${handle}</bdi>`}, ${count(
          memberCount ?? 0,
          "member",
        )}${description === null ? null : html`, <span dir="auto">${description}</span>`}</small></div>
      <button type="button" onClick=${() =>
        openDialog(() => html`<${Members} group=${group} onChange=${onChange} />`)}>Members</button>
      <${Menu} label=${`Menu of ${name}`} items=${[
        { label: "Edit", icon: "edit", onSelect: () => openEdit(group, onChange) },
        {
          label: "Delete",
          icon: "trash",
          isDanger: true,
          onSelect: () =>
            confirmThen(`Delete ${name}?`, "Its members stay in their rooms.", "Delete", async () => {
              await call("DELETE", `${PATH}/${id}`);
              onChange();
            }),
        },
      ]} />
    </li>
  `;
}

/** A new group, or what a group is called. */
function openEdit(group: Group | undefined, onChange: () => void): void {
  const save = async (fields: FormData): Promise<void> => {
    const [name, handle, description] = ["name", "handle", "description"].map((field) =>
      String(fields.get(field)).trim()
    );
    if (group === undefined) {
      await post(PATH, { name, ...handle === "" ? {} : { handle }, description: description || null });
    } else {
      const set = { name, handle: handle || null, description: description || null, version: group.version };
      await call("PATCH", `${PATH}/${group.id}`, set);
    }
    onChange();
  };
  openDialog(() =>
    html`
      <${DialogForm} title=${group === undefined ? "New group" : group.name} action=${group === undefined
        ? "Create"
        : "Save"} onSubmit=${save}>
        <label>Name <input name="name" required maxlength="200" autofocus defaultValue=${group?.name ?? ""} /></label>
        <label>Handle, by which it is mentioned <input name="handle" maxlength="64" pattern="[a-z0-9._\\-]+"
          title="a-z 0-9 . _ -" autocapitalize="none" defaultValue=${group?.handle ?? ""}
          placeholder=${group === undefined ? "like the name" : "none"} /></label>
        <label>What it is for <input name="description" maxlength="500" defaultValue=${group?.description ??
          ""} /></label>
        <//>
    `
  );
}

/** Its members, and those who can be added, both found by name. */
function Members({ group, onChange }: { group: Group; onChange: () => void }): VNode {
  const path = `${PATH}/${group.id}/members`;
  const { items, read } = useList(() => listAll<GroupMember>(path));
  const [q, setQ, people, note] = usePrincipals();
  const change = (work: () => Promise<unknown>) => (): void =>
    void attempt(async () => {
      await work();
      read();
      onChange();
    });
  const members = new Set(items?.map(({ principalId }) => principalId));
  const found = items?.filter(({ displayName }) => displayName.toLowerCase().includes(q.trim().toLowerCase()));
  const others = people.filter(({ id, kind, disabled }) => kind === "human" && !disabled && !members.has(id));
  return html`
    <div>
      <${Heading} title=${group.name} onClose=${closeDialog} />
      <input type="search" placeholder="Find members, and people to add" aria-label="Find members, and people to add" autofocus
        value=${q} onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
      <${Placeholder} items=${found} read=${read} text=${members.size === 0
        ? "This group has no members yet."
        : "No member has this name."} />
      <ul class="rows scroll">${found?.slice(0, SHOWN_MAX).map(({ principalId: id, displayName, disabled }) =>
        html`
          <li
            key=${id}><span class="person-link"><${Avatar} id=${id} isSmall /><span dir="auto">${displayName}</span></span>
            ${disabled ? html`<span class="tag danger-text">disabled</span>` : null}
            <button type="button" aria-label=${`Remove ${displayName}`} onClick=${change(() =>
              call("DELETE", withQuery(path, { principalIds: [id] }))
            )}>Remove</button></li>
        `
      )}${found !== undefined && found.length > SHOWN_MAX
        ? html`<li class="dim">${found.length - SHOWN_MAX} more. Find them by their name.</li>`
        : null}</ul>
      <ul class="rows">${(items === undefined ? [] : others).map(({ id, displayName }) =>
        html`
          <li
            key=${id}><span class="person-link"><${Avatar} id=${id} isSmall /><span dir="auto">${displayName}</span></span>
            <button type="button" aria-label=${`Add ${displayName}`} onClick=${change(() =>
              post(path, { principalIds: [id] })
            )}>Add</button></li>
        `
      )}</ul>
      ${note}
    </div>
  `;
}
