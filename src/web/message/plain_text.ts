// Markdown of messages: its parser, and a text in one line, for previews.
import { Lexer, type Token, Tokenizer, type Tokens } from "marked";

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

/** Nobody formats in so many levels; each takes some of the stack. */
const DEPTH_MAX = 30;
/** Parts of a line, for each of which the rest of it is searched for the ends of marks. */
const PARTS_MAX = 1000;
/** A longer word is parsed in pieces: each of its characters might begin an address. */
const WORD_MAX = 500;

/** Beyond what texts of people need, marks stay text: one message could block the page of everybody in its room, or end it. */
class BoundedTokenizer extends Tokenizer {
  #depth = 0;
  #left: number;

  constructor(length: number) {
    super();
    this.#left = length * PARTS_MAX;
  }

  override blockquote(src: string): Tokens.Blockquote | undefined {
    return this.#within(() => super.blockquote(src));
  }

  override list(src: string): Tokens.List | undefined {
    return this.#within(() => super.list(src));
  }

  override link(src: string): Tokens.Link | Tokens.Image | undefined {
    return this.#within(() => super.link(src));
  }

  override reflink(...args: Parameters<Tokenizer["reflink"]>): ReturnType<Tokenizer["reflink"]> {
    return this.#within(() => super.reflink(...args));
  }

  override emStrong(...args: Parameters<Tokenizer["emStrong"]>): ReturnType<Tokenizer["emStrong"]> {
    return this.#within(() => super.emStrong(...args));
  }

  override del(...args: Parameters<Tokenizer["del"]>): Tokens.Del | undefined {
    return this.#within(() => super.del(...args));
  }

  /** What is no mark, up to what may be one. */
  override inlineText(src: string): Tokens.Text | undefined {
    this.#left -= src.length;
    if (this.#left < 0) return { type: "text", raw: src, text: src, escaped: false };
    const word = src.slice(0, WORD_MAX);
    return super.inlineText(word === src ? src : word.slice(0, word.lastIndexOf(" ")) || word);
  }

  #within<Found>(parse: () => Found | undefined): Found | undefined {
    if (this.#depth === DEPTH_MAX) return undefined;
    this.#depth++;
    try {
      return parse();
    } finally {
      this.#depth--;
    }
  }
}

/** What a text consists of. */
export function tokensOf(text: string): Token[] {
  return new Lexer({ gfm: true, breaks: true, tokenizer: new BoundedTokenizer(text.length) }).lex(text);
}

/** What a person reads of a text, without the marks of its formatting. */
export function plainText(text: string): string {
  return textsOf(tokensOf(text)).replaceAll(/\s+/g, " ").trim();
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
