// What is shown while no room is open: the first step for newcomers.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import type { Page, Room } from "../core/resources.ts";
import { isAdmin, isGuest, me } from "../core/session.ts";
import { renameTeam } from "../core/team.ts";
import { createRoom, openBrowse, openCreate } from "./create.ts";
import { areRoomsRead, roomList } from "./rooms.ts";

export default function Welcome(): VNode {
  const isEmpty = areRoomsRead.value && roomList.value.length === 0;
  return html`
    <main class="page welcome">
      ${isEmpty && !isGuest() ? html`<${FirstStep} />` : areRoomsRead.value
        ? html`
          <div class="card">
            <h1>Welcome${me.value === undefined ? "" : `, ${me.value.principal.displayName}`}</h1>
            <p class="dim">${isEmpty
              ? "You are a guest. Rooms that a member adds you to are listed on the left."
              : "Choose a room on the left, or press Ctrl+K to search."}</p>
          </div>
        `
        : null}
    </main>
  `;
}

/** Joining the rooms that others have made, or making the first one. */
function FirstStep(): VNode | null {
  const [hasPublic, setPublic] = useState<boolean>();
  useEffect(() => {
    const query = { visibility: "public", state: "active", limit: 1 };
    // A room can be created without knowing.
    get<Page<Room>>("v1/rooms", query).then(({ items }) => setPublic(items.length > 0), () => setPublic(false));
  }, []);
  if (hasPublic === undefined) return null;
  return hasPublic ? html`<${JoinRooms} />` : html`<${FirstRoom} />`;
}

function JoinRooms(): VNode {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  return html`
    <div class="card fields">
      <h1>Welcome${me.value === undefined ? "" : `, ${me.value.principal.displayName}`}</h1>
      <p
        class="dim">Your team talks in rooms. Each has its own tasks, documents and calendar, and you can join the public ones.</p>
      <footer><button type="button" onClick=${openCreate}>Create room</button><button
        type="button" class="primary" ref=${button} onClick=${openBrowse}>Browse rooms</button></footer>
    </div>
  `;
}

/** Until it is named. */
const UNNAMED = "default";

function FirstRoom(): VNode {
  const box = useRef<HTMLInputElement>(null);
  const isUnnamed = isAdmin() && me.value?.tenant.name === UNNAMED;
  // The browser follows `autofocus` only in a page that has just been loaded.
  useEffect(() => box.current?.select(), []);
  return html`
    <form class="card fields" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      const fields = new FormData(event.currentTarget as HTMLFormElement);
      void attempt(async () => {
        const team = String(fields.get("team") ?? "").trim();
        if (team !== "") await renameTeam(team);
        await createRoom(String(fields.get("name")), "public");
      });
    }}>
      <h1>Create your first room</h1>
      <p
        class="dim">A room is a place to talk, with its own tasks, documents and calendar. Everybody in your team can join a public room.</p>
      ${isUnnamed
        ? html`<label>Name of your team <input name="team" maxlength="120" placeholder="Gardeners" /></label>`
        : null}
      <label>Name of the room <input name="name" required maxlength="120" defaultValue="general" ref=${box} /></label>
      <footer><button class="primary">Create room</button></footer>
    </form>
  `;
}
