// Views that are loaded when they are first opened: the first page stays small.
import { type ComponentType, h, type VNode } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { capitalized } from "../core/format.ts";
import { html } from "../core/html.ts";
import { connection } from "../core/live.ts";
import type { Room } from "../core/resources.ts";
import { callRoomId } from "../meeting/active.ts";
import { PlaceHead } from "./place.ts";

export type ViewProps = { room?: Room | undefined };
type Load = () => Promise<{ default: ComponentType<ViewProps> }>;

const VIEWS: Readonly<Record<string, Load>> = {
  search: () => import("../search/page.ts"),
  inbox: () => import("../notification/page.ts"),
  threads: () => import("../message/threads.ts"),
  later: () => import("../message/later.ts"),
  people: () => import("../people/page.ts"),
  profile: () => import("../people/profile.ts"),
  tasks: () => import("../task/page.ts"),
  documents: () => import("../document/page.ts"),
  calendar: () => import("../calendar/page.ts"),
  call: () => import("../meeting/page.ts"),
  oauth: () => import("../people/consent.ts"),
  admin: () => import("../admin/page.ts"),
};

let styles: Promise<unknown> | undefined;

/** The first page needs none of what views look like. */
function loadStyles(): Promise<unknown> {
  return styles ??= new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("./views.css", import.meta.url).href;
    link.onload = resolve;
    link.onerror = () => {
      styles = undefined;
      link.remove();
      reject(new Error("The styles could not be loaded"));
    };
    document.head.append(link);
  });
}

export function isView(name: string): boolean {
  return Object.hasOwn(VIEWS, name);
}

export function Lazy({ name, room }: { name: string; room?: Room }): VNode {
  const [view, setView] = useState<{ name: string; component: ComponentType<ViewProps> }>();
  const [isFailed, setFailed] = useState(false);
  const hadNoConnection = useRef(false);
  useEffect(() => {
    let isOpen = true;
    setFailed(false);
    const fail = (): void => {
      if (!isOpen) return;
      const isConnected = connection.peek() === "connected";
      // Firefox does not load a file again that it could not load, unless the page is; that would end a call.
      if (isConnected && hadNoConnection.current && callRoomId.peek() === undefined) return location.reload();
      hadNoConnection.current = !isConnected;
      setFailed(true);
    };
    // After an upgrade of the gateway its files have other addresses.
    Promise.all([VIEWS[name]?.(), loadStyles()]).then(
      // Another one may have been opened since, and be there already.
      ([view]) => isOpen && view !== undefined && setView({ name, component: view.default }),
      fail,
    );
    return () => void (isOpen = false);
    // Again with the next connection: it may have been loaded without one.
  }, [name, connection.value === "connected"]);
  // On a narrow screen, its link is the way back; a room has a head of its own.
  const head = room === undefined ? html`<${PlaceHead} title=${isView(name) ? capitalized(name) : "Page"} />` : null;
  if (!isView(name)) return html`${head}<p class="empty">This page does not exist.</p>`;
  if (isFailed) {
    return html`${head}<p class="empty">This page could not be loaded. ${
      connection.value === "connected"
        ? html`<button type="button" onClick=${() => location.reload()}>Reload</button>`
        : "It is loaded with the next connection."
    }</p>`;
  }
  return view?.name === name ? h(view.component, { room, key: room?.id }) : html`${head}<p class="empty">Loading…</p>`;
}

/** A part of a page that is loaded when it is first needed. A pane has a name: without it there would be nothing to see. */
export function later<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
  paneName?: string,
): (props: Props) => VNode | null {
  const loaded = signal<ComponentType<Props>>();
  return function Part(props: Props): VNode | null {
    const [isFailed, setFailed] = useState(false);
    const open = (): void => {
      // The page is usable without it, until it is opened again.
      load().then((part) => loaded.value = part.default, () => setFailed(true));
    };
    useEffect(open, []);
    if (loaded.value !== undefined) return html`<${loaded.value} ...${props} />`;
    return !isFailed || paneName === undefined ? null : html`
      <aside class="pane" aria-label=${paneName}>
        <p class="empty">${paneName} could not be loaded.
        <button type="button" onClick=${open}>Try again</button></p>
      </aside>
    `;
  };
}
