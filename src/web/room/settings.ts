// Name, topic and state of a room.
import { call } from "../core/api.ts";
import { html } from "../core/html.ts";
import type { Room, RoomSettings } from "../core/resources.ts";
import { confirmThen, DialogForm, openDialog } from "../part/dialog.ts";
import { openIntegrations } from "./integrations.ts";
import { canModerate, isMuted, patchRoom, updateSettings } from "./rooms.ts";

export function openRoomSettings(room: Room): void {
  const path = `v1/rooms/${room.id}`;
  const isOwner = room.myRole === "owner";
  const save = async (fields: FormData): Promise<void> => {
    const level = fields.get("level") as RoomSettings["level"];
    // Muted, it is so already, and comes back to the level of before.
    if (level !== "none" || !isMuted(room)) await updateSettings(room.id, { level, mutedUntil: null });
    if (!canModerate(room)) return;
    const text = (name: string): string | null => {
      const value = String(fields.get(name) ?? "").trim();
      return value === "" ? null : value;
    };
    const change = { name: text("name") ?? room.name, topic: text("topic"), description: text("description") };
    patchRoom(room.id, await call<Room>("PATCH", path, { ...change, version: room.version }));
  };
  const archive = room.state === "archived" ? "active" : "archived";
  openDialog(() =>
    html`<${DialogForm} title="Room settings" action="Save" onSubmit=${save}>
      <fieldset disabled=${!canModerate(room)}>
        <label>Name <input name="name" required maxlength="120" value=${room.name} /></label>
        <label>Topic <input name="topic" maxlength="500" value=${room.topic ?? ""} /></label>
        <label>Description <textarea name="description" rows="3" maxlength="4000" defaultValue=${
      room.description ?? ""
    }></textarea></label>
      </fieldset>
      <label>Notify me about <select name="level" value=${isMuted(room) ? "none" : room.mySettings?.level ?? "all"}>
        <option value="all">mentions, replies and direct messages</option>
        <option value="mentions">mentions only</option>
        <option value="none">nothing</option></select></label>
      ${
      canModerate(room)
        ? html`<p class="row"><button type="button" onClick=${() => openIntegrations(room)}>Integrations</button></p>`
        : null
    }
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
