// The address of what is shown, after the `#`: it can be bookmarked, and the browser's back button works.
import { signal } from "@preact/signals";

type Route = { path: readonly string[]; query: URLSearchParams };

let shown = location.hash;
export const route = signal(parse(shown));

/** How often a place was left for another one, which {@link replaceRoute} does not do. */
export const moves = signal(0);

addEventListener("hashchange", move);

/** The address of a path such as `rooms/room_1`; segments are encoded. */
export function hrefOf(path: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

export function go(path: readonly string[], query: Readonly<Record<string, string>> = {}): void {
  goTo(hrefOf(path, query));
}

/** Shows what an address names. At once, before the browser reports it: what is typed next is meant for what is there then. */
export function goTo(href: string): void {
  location.hash = href;
  move();
}

/** Back to what was shown before; to the start if that was another site. */
export function goBack(): void {
  if (moves.peek() > 0) history.back();
  else go([]);
}

/** The same without a trace in the history. */
export function replaceRoute(path: readonly string[], query: Readonly<Record<string, string>> = {}): void {
  replaceAddress(hrefOf(path, query));
}

/** The same for a whole address. */
export function replaceAddress(href: string): void {
  history.replaceState(null, "", href);
  show();
}

/** Shows the place of a new address; once, although the browser may report it later. */
function move(): void {
  if (location.hash === shown) return;
  // A code that signs in, such as of an invitation, is taken when the page is loaded.
  if (/^#\w/.test(location.hash)) return location.reload();
  show();
  moves.value++;
}

function show(): void {
  shown = location.hash;
  route.value = parse(shown);
}

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter((part) => part !== "").map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
