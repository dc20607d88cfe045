// What is shown while no room is open: the first step for newcomers.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { me } from "../core/session.ts";
import { createRoom, openBrowse } from "./create.ts";
import { areRoomsRead, roomList } from "./rooms.ts";

export function Welcome(): VNode {
  const isEmpty = areRoomsRead.value && roomList.value.length === 0;
  return html`
    <main class="page welcome">
      ${isEmpty ? html`<${FirstRoom} />` : areRoomsRead.value
        ? html`
          <div class="card">
            <h1>Welcome back${me.value === undefined ? "" : `, ${me.value.principal.displayName}`}</h1>
            <p class="dim">Choose a room on the left, or press Ctrl+K to search.</p>
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
