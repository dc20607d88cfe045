// What a room is, who sees it, and what its caller is notified about.
import type { VNode } from "preact";
import { call } from "../core/api.ts";
import { html } from "../core/html.ts";
import type { Room, RoomSettings } from "../core/resources.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { openIntegrations } from "./integrations.ts";
import { openRoomMemory } from "./memory.ts";
import { canModerate, isMuted, patchRoom, updateSettings } from "./rooms.ts";

const VISIBILITIES = { public: "everybody in the team", private: "only its members" };
const HISTORIES = { shared: "all messages", joined: "messages from then on" };
const AGENT_MODES = { mention: "when they are mentioned", all: "to every message", off: "never" };

export function openRoomSettings(room: Room): void {
  const path = `v1/rooms/${room.id}`;
  const isOwner = room.myRole === "owner";
  const mayChange = canModerate(room) && room.state === "active";
  const save = async (fields: FormData): Promise<void> => {
    const level = fields.get("level") as RoomSettings["level"];
    // Muted, it is so already, and comes back to the level of before.
    if (level !== "none" || !isMuted(room)) await updateSettings(room.id, { level, mutedUntil: null });
    const change = mayChange ? changesOf(fields, room) : {};
    if (Object.keys(change).length === 0) return;
    patchRoom(room.id, await call<Room>("PATCH", path, { ...change, version: room.version }));
  };
  const archive = room.state === "archived" ? "active" : "archived";
  openDialog(() =>
    html`<${DialogForm} title="Room settings" action="Save" onSubmit=${save}>
      <fieldset disabled=${!mayChange}>
        <label>Name <input name="name" required maxlength="120" value=${room.name} /></label>
        <label>Topic <input name="topic" maxlength="500" value=${room.topic ?? ""} /></label>
        <label>Description <textarea name="description" rows="3" maxlength="4000" defaultValue=${
      room.description ?? ""
    }></textarea></label>
        ${isOwner ? html`<${OwnersFields} room=${room} />` : null}
      </fieldset>
      <label>Notify me about <select name="level" value=${isMuted(room) ? "none" : room.mySettings?.level ?? "all"}>
        <option value="all">mentions, replies and direct messages</option>
        <option value="mentions">mentions only</option>
        <option value="none">nothing</option></select></label>
      <p class="row"><button type="button" onClick=${() => openRoomMemory(room)}>What agents know</button>
        ${
      canModerate(room)
        ? html`<button type="button" onClick=${() => openIntegrations(room)}>Integrations</button>`
        : null
    }</p>
      ${
      isOwner
        ? html`<p class="row">
        <button type="button" onClick=${() =>
          confirmThen(
            archive === "archived" ? "Archive this room?" : "Restore this room?",
            archive === "archived"
              ? "It stays readable, but members cannot write in it."
              : "Members can write in it again.",
            archive === "archived" ? "Archive" : "Restore",
            async () => patchRoom(room.id, await call<Room>("PATCH", path, { state: archive })),
          )}>${archive === "archived" ? "Archive" : "Restore"}</button>
        <button type="button" class="danger-text" onClick=${() =>
          confirmThen(
            "Delete this room?",
            "Its messages, files, tasks and documents are deleted. An owner can restore it for 30 days.",
            "Delete",
            () => call("DELETE", path),
          )}>Delete room</button></p>`
        : null
    }
    <//>`
  );
}

/** What only owners change. */
function OwnersFields({ room }: { room: Room }): VNode {
  return html`
    <div class="pair">
      <label>Who finds it <select name="visibility">${optionsOf(VISIBILITIES, room.visibility)}</select></label>
      <label>New members see <select name="historyVisibility">${optionsOf(
        HISTORIES,
        room.historyVisibility,
      )}</select></label>
    </div>
    <div class="pair">
      <label>Agents respond <select name="agents">${optionsOf(AGENT_MODES, room.agentPolicy.mode)}</select></label>
      <label>Days that messages are stored <input name="retentionDays" type="number" min="1" max="36500"
        placeholder="as in the team" defaultValue=${room.retentionDays ?? ""} /></label>
    </div>
  `;
}

function optionsOf(options: Readonly<Record<string, string>>, chosen: string): VNode[] {
  return Object.entries(options).map(([value, label]) =>
    html`<option key=${value} value=${value} selected=${value === chosen}>${label}</option>`
  );
}

/** Fields that are not as they were; of who owns the room, also those that others cannot change. */
function changesOf(fields: FormData, room: Room): Record<string, unknown> {
  const text = (name: string): string | null => String(fields.get(name) ?? "").trim() || null;
  const wanted: Record<string, unknown> = {
    name: text("name") ?? room.name,
    topic: text("topic"),
    description: text("description"),
  };
  if (fields.has("visibility")) {
    const days = text("retentionDays");
    wanted["visibility"] = fields.get("visibility");
    wanted["historyVisibility"] = fields.get("historyVisibility");
    wanted["retentionDays"] = days === null ? null : Number(days);
  }
  const before = room as unknown as Record<string, unknown>;
  const mode = fields.get("agents") ?? room.agentPolicy.mode;
  return {
    ...Object.fromEntries(Object.entries(wanted).filter(([name, value]) => value !== (before[name] ?? null))),
    ...mode === room.agentPolicy.mode ? {} : { agentPolicy: { mode } },
  };
}
