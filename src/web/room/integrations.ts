// Programs in a room: hooks, to which they post, and slash commands, which call them.
import type { VNode } from "preact";
import { addressOf, call, listAll, post } from "../core/api.ts";
import { html } from "../core/html.ts";
import { nameOf } from "../core/people.ts";
import type { Room } from "../core/resources.ts";
import { closeDialog, confirmThen, DialogForm, Heading, openDialog } from "../part/dialog.ts";
import { useList } from "../part/list.ts";
import { Menu } from "../part/menu.ts";
import { Placeholder } from "../part/place.ts";
import { showOnce } from "../part/shown_once.ts";
import { MessageFilters } from "./filters.ts";

type Hook = { id: string; displayName: string; signed: boolean; enabled: boolean; responsibleId: string };
type NewHook = { path: string; signingSecret: string | null };
type SlashCommand = { id: string; name: string; description: string; url: string };
type Act = (work: () => Promise<unknown>) => () => void;

const HOOKS = "v1/collaboration/incoming";
const COMMANDS = "v1/collaboration/slash-commands";

export function openIntegrations(room: Room): void {
  openDialog(() => html`<${Integrations} room=${room} />`);
}

function Integrations({ room }: { room: Room }): VNode {
  const hooks = useList(() => listAll<Hook>(HOOKS, { roomId: room.id }));
  const commands = useList(() => listAll<SlashCommand>(COMMANDS, { roomId: room.id }));
  return html`
    <div class="wide-dialog">
      <${Heading} title="Integrations" onClose=${closeDialog} />
      <p class="row spread"><span class="dim">Programs post messages to the address of a hook.</span>
        <button type="button" onClick=${() => openNewHook(room)}>New hook</button></p>
      <${Placeholder} ...${hooks} text="No hooks." />
      <ul class="rows">${hooks.items?.map((hook) =>
        html`<${HookRow} key=${hook.id} hook=${hook} act=${hooks.act} />`
      )}</ul>
      <p class="row spread"><span class="dim">A slash command calls a program of yours, which responds in the room.</span>
        <button type="button" onClick=${() => openNewCommand(room)}>New command</button></p>
      <${Placeholder} ...${commands} text="No slash commands." />
      <ul class="rows">${commands.items?.map((command) =>
        html`<${CommandRow} key=${command.id} command=${command} act=${commands.act} />`
      )}</ul>
      <${MessageFilters} room=${room} />
    </div>
  `;
}

function HookRow(
  { hook: { id, displayName, signed, enabled, responsibleId }, act }: { hook: Hook; act: Act },
): VNode {
  const path = `${HOOKS}/${id}`;
  return html`
    <li><div><b dir="auto">${displayName}</b><small class="dim">for ${nameOf(responsibleId)}</small></div>
      ${signed ? html`<span class="tag">signed</span>` : null}
      ${enabled ? null : html`<span class="tag danger-text">disabled</span>`}
      <${Menu} label=${`Menu of ${displayName}`} items=${[
        {
          label: enabled ? "Disable" : "Enable",
          icon: "lock",
          onSelect: act(() => call("PATCH", path, { enabled: !enabled })),
        },
        { label: "New address", icon: "edit", onSelect: act(async () => showHook(await post(`${path}/rotate`))) },
        {
          label: "Delete",
          icon: "trash",
          isDanger: true,
          onSelect: () =>
            confirmThen(
              `Delete ${displayName}?`,
              "Its address stops working. Its messages stay.",
              "Delete",
              () => call("DELETE", path),
            ),
        },
      ]} /></li>
  `;
}

function CommandRow({ command: { id, name, description, url }, act }: { command: SlashCommand; act: Act }): VNode {
  const path = `${COMMANDS}/${id}`;
  return html`
    <li>
      <div><b>/${name}</b><small class="dim">${description}, ${url}</small></div>
      <${Menu} label=${`Menu of /${name}`} items=${[
        { label: "New secret", icon: "lock", onSelect: act(async () => showCommand(await post(`${path}/rotate`))) },
        {
          label: "Delete",
          icon: "trash",
          isDanger: true,
          onSelect: () =>
            confirmThen(
              `Delete /${name}?`,
              "It can no longer be run in this room.",
              "Delete",
              () => call("DELETE", path),
            ),
        },
      ]} />
    </li>
  `;
}

function openNewHook(room: Room): void {
  openDialog(() =>
    html`
      <${DialogForm} title="New hook" action="Create" onSubmit=${async (fields: FormData) =>
        showHook(
          await post(HOOKS, {
            roomId: room.id,
            displayName: String(fields.get("displayName")).trim(),
            signed: fields.get("signed") !== null,
          }),
        )}>
        <label>Name <input name="displayName" required maxlength="80" autofocus placeholder="GitHub" /></label>
        <label class="check"><input type="checkbox" name="signed" /> Requests are signed, as by GitHub and GitLab</label>
        <//>
    `
  );
}

function showHook({ path, signingSecret }: NewHook): void {
  showOnce(
    "Address of the hook",
    "What is posted to it is a message in this room.",
    { label: "Address", value: addressOf(path) },
    ...signingSecret === null ? [] : [{ label: "Secret that signs requests", value: signingSecret }],
  );
}

function openNewCommand(room: Room): void {
  openDialog(() =>
    html`
      <${DialogForm} title="New slash command" action="Create" onSubmit=${async (fields: FormData) => {
        const text = (name: string): string => String(fields.get(name)).trim();
        showCommand(
          await post(COMMANDS, {
            roomId: room.id,
            name: text("name").replace(/^\//, ""),
            description: text("description"),
            displayName: text("displayName"),
            url: text("url"),
          }),
        );
      }}>
        <label>Command <input name="name" required maxlength="33" autofocus placeholder="/deploy" /></label>
        <label>Description <input name="description" required maxlength="200" placeholder="Deploy a version" /></label>
        <label>Address of your program <input name="url" type="url" required placeholder="https://example.com/deploy" /></label>
        <label>Name under which it responds <input name="displayName" required maxlength="80" placeholder="CI" /></label>
        <//>
    `
  );
}

function showCommand({ secret }: { secret: string }): void {
  showOnce("Secret of the command", "It signs every call.", { label: "Secret", value: secret });
}
