// Markdown of messages as plain text in one line, for previews.
import { marked, type Token, type Tokens } from "marked";

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

/** What a person reads of a text, without the marks of its formatting. */
export function plainText(text: string): string {
  return textsOf(marked.lexer(text, { gfm: true, breaks: true })).replaceAll(/\s+/g, " ").trim();
}

function textsOf(tokens: readonly Token[]): string {
  return tokens.map(textOf).join("");
}

function textOf(token: Token): string {
  switch (token.type) {
    case "space":
    case "def":
    case "hr":
    case "br":
    case "checkbox":
      return " ";
    case "heading":
    case "paragraph":
    case "blockquote":
      return `${textsOf(token.tokens ?? [])} `;
    case "list":
      return (token as Tokens.List).items.map(({ tokens }) => `${textsOf(tokens)} `).join("");
    case "table": {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows].flat().map(({ tokens }) => `${textsOf(tokens)} `).join("");
    }
    case "code":
      return `${token.text} `;
    case "strong":
    case "em":
    case "del":
      return textsOf(token.tokens ?? []);
    case "link":
      return textsOf(token.tokens ?? []) || token.href;
    case "image":
      return token.text || token.href;
    case "codespan":
    case "escape":
      return token.text;
    case "text":
      return token.tokens === undefined ? unescaped(token.text) : textsOf(token.tokens);
    default:
      return token.raw;
  }
}

/** Entities as the characters they name. */
export function unescaped(text: string): string {
  return text.replaceAll(/&(amp|lt|gt|quot|#39);/g, (all, name: string) => ENTITIES[name] ?? all);
}
