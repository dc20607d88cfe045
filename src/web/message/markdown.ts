// Markdown of messages as nodes, with the mentioned marked. No markup is made of text, so hostile text stays text.
import type { Token, Tokens } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { addressOf } from "../core/api.ts";
import { copyText } from "../core/clipboard.ts";
import { html } from "../core/html.ts";
import { attempt } from "../core/notice.ts";
import { personOf } from "../core/people.ts";
import type { Mentions } from "../core/resources.ts";
import { tokensOf, unescaped } from "./plain_text.ts";

const SAFE_LINK = /^(?:https?:|mailto:|#)/i;
/** What reorders text: with it, an address would read as another one. */
const REORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** What is around a name is as for the gateway: a dot or hyphen after it may end the sentence. */
const PART_BEFORE = /(?![\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}])[\p{L}\p{N}._@/\\-]$/u;
const PART_AFTER = /[._-]*[A-Za-z0-9]/y;

/** What is shown for each name, which is in lower case. */
type MentionNames = ReadonlyMap<string, string>;
type Shown = { names: MentionNames; picture: (image: Tokens.Image) => ComponentChildren };

/** A text as formatted nodes; the mentions with these names are marked, and pictures shown as `picture` says. */
export function markdown(
  text: string,
  names: MentionNames = new Map(),
  picture: Shown["picture"] = () => undefined,
): ComponentChildren {
  return blocks(tokensOf(text), { names, picture });
}

/** The same in one line, such as a topic. */
export function markdownLine(text: string): ComponentChildren {
  const shown: Shown = { names: new Map(), picture: () => undefined };
  return tokensOf(text).map((token) => "tokens" in token ? inlines(token.tokens ?? [], shown) : token.raw);
}

function blocks(tokens: readonly Token[], shown: Shown): ComponentChildren[] {
  return tokens.map((token) => block(token, shown));
}

function block(token: Token, shown: Shown): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return html`<p class="heading">${inlines(token.tokens ?? [], shown)}</p>`;
    case "paragraph":
      return html`<p>${inlines(token.tokens ?? [], shown)}</p>`;
    case "blockquote":
      return html`<blockquote dir="auto">${blocks(token.tokens ?? [], shown)}</blockquote>`;
    case "code":
      return html`<div class="code"><pre tabindex="0"><code>${token.text}</code></pre><button type="button"
        aria-label="Copy code" onClick=${() =>
        void attempt(() => copyText(token.text, "Code copied"))}>Copy</button></div>`;
    case "hr":
      return html`<hr />`;
    case "list":
      return list(token as Tokens.List, shown);
    case "table":
      return table(token as Tokens.Table, shown);
    case "text":
      return token.tokens === undefined ? inline(token, shown) : inlines(token.tokens, shown);
    default:
      return html`<p>${token.raw}</p>`;
  }
}

function list({ ordered, start, items }: Tokens.List, shown: Shown): VNode {
  const entries = items.map(({ task, checked, tokens }) =>
    html`<li class=${task ? "task" : ""}>${task ? (checked ? "☑ " : "☐ ") : null}${
      blocks(tokens.filter(({ type }) => type !== "checkbox"), shown)
    }</li>`
  );
  return ordered
    ? html`<ol dir="auto" start=${start === "" ? 1 : start}>${entries}</ol>`
    : html`<ul dir="auto">${entries}</ul>`;
}

function table({ header, rows }: Tokens.Table, shown: Shown): VNode {
  const cells = (row: readonly Tokens.TableCell[], name: "th" | "td") =>
    row.map(({ tokens }) => html`<${name}>${inlines(tokens, shown)}<//>`);
  return html`
    <div class="scroll-x" tabindex="0">
      <table dir="auto">
        <thead>
          <tr>${cells(header, "th")}</tr>
        </thead>
        <tbody>${rows.map((row) => html`<tr>${cells(row, "td")}</tr>`)}</tbody>
      </table>
    </div>
  `;
}

function inlines(tokens: readonly Token[], shown: Shown): ComponentChildren[] {
  return tokens.map((token) => inline(token, shown));
}

function inline(token: Token, shown: Shown): ComponentChildren {
  switch (token.type) {
    case "strong":
      return html`<strong>${inlines(token.tokens ?? [], shown)}</strong>`;
    case "em":
      return html`<em>${inlines(token.tokens ?? [], shown)}</em>`;
    case "del":
      return html`<del>${inlines(token.tokens ?? [], shown)}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token as Tokens.Link, shown);
    // Pictures of other hosts would see who reads; so only their address is shown.
    case "image":
      return shown.picture(token as Tokens.Image) ?? link({ ...(token as Tokens.Image), tokens: [] }, shown);
    case "escape":
      return token.text;
    case "text":
      return token.tokens === undefined ? mentions(unescaped(token.text), shown.names) : inlines(token.tokens, shown);
    default:
      return token.raw;
  }
}

function link(
  { raw, href, text, tokens }: { raw: string; href: string; text: string; tokens: readonly Token[] },
  shown: Shown,
): ComponentChildren {
  const isBare = !/^!?\[/.test(raw);
  const content = isBare
    ? unescaped(text).replaceAll(REORDERING, "")
    : tokens.length > 0
    ? inlines(tokens, shown)
    : text === ""
    ? href
    : text;
  if (!SAFE_LINK.test(href)) return content;
  // A place in this client is opened in this tab.
  if (href.startsWith("#/") || href.startsWith(`${addressOf("")}#/`)) return html`<a href=${href}>${content}</a>`;
  return html`<a href=${href} dir=${isBare ? "ltr" : "auto"} target="_blank" rel="noopener noreferrer">${content}</a>`;
}

function mentions(text: string, names: MentionNames): ComponentChildren[] {
  return splitMentions(text, names).map((part, at) =>
    at % 2 === 0 ? part : html`<span class="mention" dir="auto">@${part}</span>`
  );
}

/** Names of the mentioned: handles as they are, and for ids, which say little, the display names. */
export function mentionNames({ principalIds, room, groups = [] }: Mentions): MentionNames {
  const words = groups.flatMap(({ handle, state }) => state === "mentioned" ? handle : []);
  if (room) words.push("all", "here", "channel", "everyone");
  const names = new Map(words.map((word) => [word, word]));
  for (const id of principalIds) {
    const { displayName = id, handle = null } = personOf(id) ?? {};
    for (const name of [id, displayName]) names.set(name.toLowerCase(), displayName);
    if (handle !== null) names.set(handle, handle);
  }
  return names;
}

/** A text in parts: every second one is a mention, without its @. */
function splitMentions(text: string, names: MentionNames): string[] {
  const longestFirst = [...names.keys()].toSorted((a, b) => b.length - a.length);
  const parts: string[] = [];
  let from = 0;
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    if (at < from || isWithinWord(text, at)) continue;
    const name = longestFirst.find((one) => isNameAt(text, at + 1, one));
    if (name === undefined) continue;
    parts.push(text.slice(from, at), names.get(name) ?? name);
    from = at + 1 + name.length;
  }
  return [...parts, text.slice(from)];
}

/** Whether an @ here belongs to what is before it, such as an address. */
export function isWithinWord(text: string, at: number): boolean {
  // The character before may be of two units.
  return PART_BEFORE.test(text.slice(Math.max(0, at - 2), at));
}

function isNameAt(text: string, at: number, name: string): boolean {
  const end = at + name.length;
  PART_AFTER.lastIndex = end;
  return text.slice(at, end).toLowerCase() === name && !PART_AFTER.test(text);
}
