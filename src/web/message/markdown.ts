// Markdown of messages as nodes. No markup is made of text, so hostile text stays text.
import { marked, type Token, type Tokens } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { html } from "../core/html.ts";

const SAFE_LINK = /^(?:https?:|mailto:|#)/i;
const MENTION = /(^|[^\p{L}\p{N}_@.])(@[A-Za-z0-9._-]{1,64})/gu;

/** A text as formatted nodes. */
export function markdown(text: string): ComponentChildren {
  return blocks(marked.lexer(text, { gfm: true, breaks: true }));
}

function blocks(tokens: readonly Token[]): ComponentChildren[] {
  return tokens.map(block);
}

function block(token: Token): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return html`<p class="heading">${inlines(token.tokens ?? [])}</p>`;
    case "paragraph":
      return html`<p>${inlines(token.tokens ?? [])}</p>`;
    case "blockquote":
      return html`<blockquote>${blocks(token.tokens ?? [])}</blockquote>`;
    case "code":
      return html`<pre tabindex="0"><code>${token.text}</code></pre>`;
    case "hr":
      return html`<hr />`;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "text":
      return token.tokens === undefined ? inline(token) : inlines(token.tokens);
    default:
      return html`<p>${token.raw}</p>`;
  }
}

function list({ ordered, start, items }: Tokens.List): VNode {
  const entries = items.map(({ task, checked, tokens }) =>
    html`<li class=${task ? "task" : ""}>${task ? (checked ? "☑ " : "☐ ") : null}${
      blocks(tokens.filter(({ type }) => type !== "checkbox"))
    }</li>`
  );
  return ordered ? html`<ol start=${start === "" ? 1 : start}>${entries}</ol>` : html`<ul>${entries}</ul>`;
}

function table({ header, rows }: Tokens.Table): VNode {
  const cells = (row: readonly Tokens.TableCell[], name: "th" | "td") =>
    row.map(({ tokens }) => html`<${name}>${inlines(tokens)}<//>`);
  return html`
    <div class="scroll-x" tabindex="0">
      <table>
        <thead>
          <tr>${cells(header, "th")}</tr>
        </thead>
        <tbody>${rows.map((row) => html`<tr>${cells(row, "td")}</tr>`)}</tbody>
      </table>
    </div>
  `;
}

function inlines(tokens: readonly Token[]): ComponentChildren[] {
  return tokens.map(inline);
}

function inline(token: Token): ComponentChildren {
  switch (token.type) {
    case "strong":
      return html`<strong>${inlines(token.tokens ?? [])}</strong>`;
    case "em":
      return html`<em>${inlines(token.tokens ?? [])}</em>`;
    case "del":
      return html`<del>${inlines(token.tokens ?? [])}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token as Tokens.Link);
    // Pictures of other hosts would see who reads; so only their address is shown.
    case "image":
      return link({ ...(token as Tokens.Image), tokens: [] });
    case "escape":
      return token.text;
    case "text":
      return token.tokens === undefined ? mentions(unescaped(token.text)) : inlines(token.tokens);
    default:
      return token.raw;
  }
}

function link({ href, text, tokens }: { href: string; text: string; tokens: readonly Token[] }): ComponentChildren {
  const content = tokens.length > 0 ? inlines(tokens) : text === "" ? href : text;
  if (!SAFE_LINK.test(href)) return content;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer">${content}</a>`;
}

/** Names after an @ are marked. */
function mentions(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(MENTION)) {
    const at = match.index + (match[1]?.length ?? 0);
    parts.push(text.slice(end, at), html`<span class="mention">${match[2]}</span>`);
    end = at + (match[2]?.length ?? 0);
  }
  return [...parts, text.slice(end)];
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

/** Entities as the characters they name. */
export function unescaped(text: string): string {
  return text.replaceAll(/&(amp|lt|gt|quot|#39);/g, (all, name: string) => ENTITIES[name] ?? all);
}
