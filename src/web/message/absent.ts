// Whom a message names that is not in the room. Only its author sees this: else it would seem that they do not respond.
import { marked } from "marked";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import type { Message, Page, Principal, Room } from "../core/resources.ts";
import { isGuest, myId } from "../core/session.ts";
import { canModerate } from "../room/rooms.ts";
import { isWithinWord, mentionNames } from "./markdown.ts";
import { tokensOf } from "./plain_text.ts";
import { unmentionedIn } from "./unmentioned.ts";

/** What else such a name may end with ends the sentence. */
const NAME = /@([A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?)/g;
/** Each is a request. */
const NAMES_MAX = 3;
const FOUND_MAX = 100;

/** By message and text, so that each is looked up once, however often it is shown. */
const lookups = new Map<string, Promise<readonly Principal[]>>();

export default function Absent({ message, room }: { message: Message; room: Room }): VNode | null {
  const { id, text, mentions } = message;
  const key = `${id} ${text}`;
  const [found, setFound] = useState<readonly Principal[]>([]);
  useEffect(() => {
    const lookup = lookups.get(key) ?? readNamed(message);
    lookups.set(key, lookup);
    // What could not be looked up is not known.
    lookup.then(setFound, () => undefined);
  }, [key]);
  const absent = found.filter((one) => !mentions.principalIds.includes(one.id));
  const dismiss = (principalId: string): void => {
    const others = found.filter((one) => one.id !== principalId);
    lookups.set(key, Promise.resolve(others));
    setFound(others);
  };
  const add = (principalId: string): void =>
    void attempt(async () => {
      await call("PUT", `v1/rooms/${room.id}/members/${encodeURIComponent(principalId)}`, {});
      // The gateway reads the names again, and notifies those who are members now: an agent responds.
      await call("PATCH", `v1/messages/${id}`, { parseMentions: true });
    });
  const mayAdd = canModerate(room) && room.kind !== "direct";
  return html`<div role="status">${
    unmentionedIn(mentions).map(({ name, reason }) =>
      html`
        <p key=${name}
          class="row absent"><span>Nobody was notified by <b dir="auto">@${name}</b>: ${reason}.</span></p>
      `
    )
  }${
    absent.map((one) =>
      html`
        <p key=${one.id}
          class="row absent"><span><b dir="auto">${one.displayName}</b> is not in this room and was not notified.</span>
          ${mayAdd ? html`<button type="button" onClick=${() => add(one.id)}>Add to the room</button>` : null}
          <button type="button" class="link" onClick=${() => dismiss(one.id)}>Dismiss</button></p>
      `
    )
  }</div>`;
}

/** Those whom a text names, although they are not mentioned. */
async function readNamed({ text, mentions }: Message): Promise<readonly Principal[]> {
  // Guests cannot look up names.
  if (isGuest()) return [];
  const known = new Set([...mentionNames(mentions).keys(), ...unmentionedIn(mentions).map(({ name }) => name)]);
  const names = namesIn(text ?? "").filter((name) => !known.has(name)).slice(0, NAMES_MAX);
  const pages = await Promise.all(
    names.map((q) => get<Page<Principal>>("v1/collaboration/principals", { q, limit: FOUND_MAX })),
  );
  const found = pages.map(({ items }, at) =>
    items.find((one) => !one.disabled && [one.handle, one.id.toLowerCase()].includes(names[at] ?? ""))
  );
  return found.filter((one) => one !== undefined && one.id !== myId()) as Principal[];
}

/** The names after an @ in a Markdown text, in lower case; none of code. */
function namesIn(text: string): string[] {
  const names = new Set<string>();
  marked.walkTokens(tokensOf(text), (token) => {
    if (token.type !== "text" || token.tokens !== undefined) return;
    for (const { 1: name = "", index } of token.text.matchAll(NAME)) {
      if (!isWithinWord(token.text, index)) names.add(name.toLowerCase());
    }
  });
  return [...names];
}
