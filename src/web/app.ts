// The whole page: signing in, or the workspace.
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError, get } from "./core/api.ts";
import { capitalized } from "./core/format.ts";
import { classes, html } from "./core/html.ts";
import { connect, disconnect, generation } from "./core/live.ts";
import { messageOf, notify } from "./core/notice.ts";
import { addPeople } from "./core/people.ts";
import { route } from "./core/route.ts";
import type { Me } from "./core/resources.ts";
import { me, token } from "./core/session.ts";
import { CallBanner, ConnectionBanner } from "./part/banner.ts";
import { DialogHost } from "./part/dialog.ts";
import { isView, later, Lazy } from "./part/lazy.ts";
import { placeTitle } from "./part/place.ts";
import { RoomPage } from "./room/page.ts";
import { openRoom, roomName, setRooms, unreadTotal } from "./room/rooms.ts";
import { Sidebar, useShortcuts } from "./room/sidebar.ts";
import { isSigningIn, SignIn } from "./sign_in.ts";

const READ_AGAIN_MS = 2000;

const CallNotice = later(() => import("./meeting/notice.ts"));
const Welcome = later(() => import("./room/welcome.ts"));

export function App(): VNode {
  return html`
    ${token.value === "" || isSigningIn.value ? html`<${SignIn} />` : html`<${Workspace} key=${token.value} />`}
    <${DialogHost} />
  `;
}

/** Reads who the caller is; without a connection, again and again. */
async function readMe(): Promise<void> {
  try {
    me.value ??= await get<Me>("v1/collaboration/me");
    addPeople([me.value.principal]);
  } catch (error) {
    if (error instanceof ApiError && error.isTemporary) setTimeout(readMe, READ_AGAIN_MS);
    else notify(messageOf(error), true);
  }
}

function Workspace(): VNode {
  useShortcuts();
  useEffect(() => {
    void readMe();
    // Without it, notifications are in the inbox only.
    if (localStorage.length > 0) import("./notification/desktop.ts").catch(() => undefined);
    return disconnect;
  }, []);
  // Again when events were missed for good: everything is read again.
  useEffect(() => connect(setRooms), [generation.value]);
  useEffect(() => {
    // Without it there is no mark until the next change.
    import("./message/thread_unread.ts").then(({ readUnreadThreads }) => readUnreadThreads()).catch(() => undefined);
  }, [generation.value]);
  const [place, id] = route.value.path;
  const title = openRoom.value !== undefined
    ? roomName(openRoom.value)
    : place !== undefined && isView(place)
    ? placeTitle.value || capitalized(place)
    : "Collaboration Gateway";
  useEffect(() => {
    document.title = unreadTotal.value > 0 ? `(${unreadTotal.value}) ${title}` : title;
  }, [title, unreadTotal.value]);

  return html`
    <div class=${classes("workspace", place === undefined && "at-home")}>
      <${Sidebar} />
      <div class="place"><${ConnectionBanner} /><${CallBanner} /><${CallNotice} room=${openRoom
        .value} />${place === undefined
        ? html`<${Welcome} />`
        : place === "rooms" && id !== undefined
        ? html`<${RoomPage} key=${id} id=${id} />`
        : html`
          <main class="page">
            <${Lazy} name=${place} />
          </main>
        `}</div>
    </div>
  `;
}
