// Messages in the format of Slack and Mattermost, as Markdown.
import { emojiNamed, withEmoji } from "@/core/text/emoji_names.ts";
import { outsideCode } from "@/core/text/text.ts";
import { at, lines, link, listAt, longTextAt, textAt, urlOf } from "../value.ts";

/** The body that it is part of is shorter. */
const TEXT_MAX = 512 * 1024;
const BLOCKS_MAX = 50;
const PARTS_MAX = 25;
/** Longer texts keep Slack's markup of bold and struck text. */
const MARKUP_MAX = 64 * 1024;
const NAMES_MAX = 1000;
/** Levels of a list in a list. */
const INDENT_MAX = 8;
/** Outside of code: Slack's bold and struck text. */
const BOLD = /(^|[\s(])\*([^*\n]{1,500})\*(?=$|[\s).,:;!?])/g;
const STRUCK = /(^|[\s(])~([^~\n]{1,500})~(?=$|[\s).,:;!?])/g;
const EVERYBODY: ReadonlySet<string> = new Set(["!channel", "!here", "!everyone"]);

type HookText = { text: string; mentionsAll: boolean };

/** The text of a body with `text`, `blocks` or `attachments`. */
export function slackText(body: unknown): HookText {
  const reader = new SlackMarkup();
  const text = lines(reader.text(longTextAt(body, TEXT_MAX, "text")), reader.blocks(body), reader.attachments(body));
  return { text, mentionsAll: reader.mentionsAll };
}

/** Converts a message, and notes whom it mentions. */
export class SlackMarkup {
  mentionsAll = false;
  /** Slack's ids of people. */
  readonly userIds = new Set<string>();
  readonly #nameOf: (userId: string) => string | undefined;

  constructor(nameOf: (userId: string) => string | undefined = () => undefined) {
    this.#nameOf = nameOf;
  }

  /** Slack's markup as Markdown. */
  text(raw: string): string {
    const text = this.plainText(raw);
    if (text.length > MARKUP_MAX) return text;
    return withEmoji(outsideCode(text, (part) => part.replaceAll(BOLD, "$1**$2**").replaceAll(STRUCK, "$1~~$2~~")));
  }

  blocks(message: unknown): string {
    return lines(...listAt(message, BLOCKS_MAX, "blocks").map((block) => this.#block(block)));
  }

  attachments(message: unknown): string {
    return lines(...listAt(message, PARTS_MAX, "attachments").map((attachment) => this.#attachment(attachment)));
  }

  #block(block: unknown): string {
    const fields = listAt(block, PARTS_MAX, "fields").map((field) => this.#object(field));
    const elements = listAt(block, PARTS_MAX, "elements").map((element) => this.#element(element));
    switch (at(block, "type")) {
      case "header":
        return bold(textAt(block, "text", "text"));
      case "divider":
        return "---";
      case "image":
        return link(textAt(block, "alt_text") || "image", at(block, "image_url"));
      case "rich_text":
        return listAt(block, PARTS_MAX, "elements").map((section) => this.#section(section)).join("\n");
      default:
        return lines(this.#object(at(block, "text")), ...fields, elements.filter((one) => one !== "").join(" · "));
    }
  }

  #attachment(attachment: unknown): string {
    const title = this.text(textAt(attachment, "title"));
    const body = longTextAt(attachment, TEXT_MAX, "text") ||
      (title === "" && countBlocks(attachment) === 0 ? longTextAt(attachment, TEXT_MAX, "fallback") : "");
    const actions = listAt(attachment, PARTS_MAX, "actions").flatMap((action) =>
      urlOf(at(action, "url")) === undefined ? [] : [link(textAt(action, "text") || "open", at(action, "url"))]
    );
    return lines(
      this.text(longTextAt(attachment, TEXT_MAX, "pretext")),
      link(textAt(attachment, "author_name"), at(attachment, "author_link")),
      title === "" ? undefined : bold(link(title, at(attachment, "title_link"))),
      this.text(body),
      ...listAt(attachment, PARTS_MAX, "fields").map((field) => {
        const name = this.text(textAt(field, "title"));
        return `${name === "" ? "" : `**${name}:** `}${this.text(longTextAt(field, TEXT_MAX, "value"))}`;
      }),
      this.blocks(attachment),
      urlOf(at(attachment, "image_url")) === undefined ? undefined : link("image", at(attachment, "image_url")),
      actions.join(" · "),
      this.text(textAt(attachment, "footer")),
    );
  }

  /** `{type, text}`: a text object; `plain_text` has no markup. */
  #object(value: unknown): string {
    const text = longTextAt(value, TEXT_MAX, "text");
    return at(value, "type") === "plain_text" ? text : this.text(text);
  }

  #element(element: unknown): string {
    const label = textAt(element, "text", "text");
    if (urlOf(at(element, "url")) !== undefined) return link(label || "open", at(element, "url"));
    return typeof at(element, "text") === "string" ? this.#object(element) : label;
  }

  /** A paragraph, a list of such, a quotation or code. */
  #section(section: unknown): string {
    const parts = listAt(section, PARTS_MAX, "elements");
    const type = at(section, "type");
    if (type === "rich_text_list") {
      const mark = at(section, "style") === "ordered" ? "1." : "-";
      const indent = "  ".repeat(Math.min(Number(at(section, "indent")) || 0, INDENT_MAX));
      return parts.map((item) => `${indent}${mark} ${this.#section(item)}`).join("\n");
    }
    const text = parts.map((part) => this.#richText(part)).join("");
    if (type === "rich_text_quote") return text.split("\n").map((line) => `> ${line}`).join("\n");
    return type === "rich_text_preformatted" ? `\`\`\`\n${text}\n\`\`\`` : text;
  }

  #richText(part: unknown): string {
    const url = at(part, "url");
    if (url !== undefined) return link(textAt(part, "text"), url);
    switch (at(part, "type")) {
      case "broadcast":
        this.mentionsAll = true;
        return `@${textAt(part, "range") || "channel"}`;
      case "user":
        return this.#mention(textAt(part, "user_id"));
      case "emoji":
        return emojiNamed(textAt(part, "name"));
    }
    const text = longTextAt(part, TEXT_MAX, "text") || textAt(part, "name");
    return at(part, "style", "bold") === true ? bold(text) : text;
  }

  /** `<address|label>`, `<!channel>`, `<@U1>` and escaped characters. */
  plainText(raw: string): string {
    let text = "";
    let from = 0;
    for (let open = raw.indexOf("<"); open >= 0; open = raw.indexOf("<", from)) {
      const close = raw.indexOf(">", open);
      if (close < 0) break;
      text += raw.slice(from, open) + this.#link(raw.slice(open + 1, close));
      from = close + 1;
    }
    return (text + raw.slice(from)).replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  }

  #link(inner: string): string {
    const bar = inner.indexOf("|");
    const [target, label] = bar < 0 ? [inner, ""] : [inner.slice(0, bar), inner.slice(bar + 1)];
    if (EVERYBODY.has(target)) {
      this.mentionsAll = true;
      return `@${target.slice(1)}`;
    }
    const first = target[0] ?? "";
    if (first === "@") return this.#mention(target.slice(1), label);
    if (first === "#") return `#${label || target.slice(1)}`;
    if (first === "!") return label || target.slice(1);
    return urlOf(target) === undefined ? label || target : label === "" ? target : link(label, target);
  }

  #mention(userId: string, label = ""): string {
    if (this.userIds.size < NAMES_MAX) this.userIds.add(userId);
    return `@${(label || this.#nameOf(userId) || userId).replace(/^@/, "")}`;
  }
}

function bold(text: string): string {
  return text === "" ? "" : `**${text}**`;
}

function countBlocks(attachment: unknown): number {
  return listAt(attachment, 1, "blocks").length;
}
