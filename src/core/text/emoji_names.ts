// Names of emoji in texts and reactions of other systems. Names of a team's own stay names.
import { parseEmoji } from "./emoji_list.ts";
import { outsideCode } from "./text.ts";

const NAME = /(?<!\w):([a-z0-9_+-]{1,80}):(?::skin-tone-[2-6]:)?/g;
/** After the name of a reaction. */
const SKIN_TONE = /(?:::skin-tone-[2-6]|_(?:light|medium_light|medium|medium_dark|dark)_skin_tone)$/;
const COUNTRY = /^flag-([a-z]{2})$/;
/** From the letter a to the regional indicator A. */
const INDICATOR_OFFSET = 0x1f1e6 - 0x61;

let emojiByName: Map<string, string> | undefined;

/** The emoji with this name, without the tone of its skin; the name between colons if it has none. */
export function emojiNamed(name: string): string {
  const plain = name.replace(SKIN_TONE, "");
  return findEmoji(plain) ?? `:${plain}:`;
}

/** A Markdown text with emoji in place of their names, but for those in code. */
export function withEmoji(text: string): string {
  return outsideCode(text, (part) => part.replaceAll(NAME, (whole, name: string) => findEmoji(name) ?? whole));
}

function findEmoji(name: string): string | undefined {
  emojiByName ??= new Map(parseEmoji().flatMap(([emoji, names]) => names.map((name) => [name, emoji] as const)));
  const [, country] = COUNTRY.exec(name) ?? [];
  if (country === undefined) return emojiByName.get(name);
  return String.fromCodePoint(...[...country].map((letter) => letter.charCodeAt(0) + INDICATOR_OFFSET));
}
