// What is shown while no room is open: the first step for newcomers.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { isGuest, me } from "../core/session.ts";
import { createRoom, openBrowse } from "./create.ts";
import { areRoomsRead, roomList } from "./rooms.ts";

export function Welcome(): VNode {
  const isEmpty = areRoomsRead.value && roomList.value.length === 0;
  return html`
    <main class="page welcome">
      ${isEmpty && !isGuest() ? html`<${FirstRoom} />` : areRoomsRead.value
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

function FirstRoom(): VNode {
  const box = useRef<HTMLInputElement>(null);
  // The browser follows `autofocus` only in a page that has just been loaded.
  useEffect(() => box.current?.select(), []);
  return html`
    <form class="card fields" onSubmit=${(event: SubmitEvent) => {
      event.preventDefault();
      const name = String(new FormData(event.currentTarget as HTMLFormElement).get("name"));
      void attempt(() => createRoom(name, "public"));
    }}>
      <h1>Create your first room</h1>
      <p
        class="dim">A room is a place to talk, with its own tasks, documents and calendar. Everybody in your team can join a public room.</p>
      <label>Name <input name="name" required maxlength="120" defaultValue="general" ref=${box} /></label>
      <footer><button type="button" onClick=${openBrowse}>Browse rooms</button><button class="primary">Create room</button></footer>
    </form>
  `;
}
