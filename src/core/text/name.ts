// Names that people read, of principals, rooms, tasks and so on: one visible line that cannot imitate another. And emoji.
import { z } from "@zod/zod";
import { NAME_RULES } from "./name_rules.ts";

/** UTF-16 units for each character that a text may have in composed form: composing takes the square of the number of marks. */
const UNITS_PER_CHAR = 4;

/** A name of at most `max` characters, trimmed and in composed form (NFC). `min` 0: it may be empty. */
export function nameSchema(max: number, min: 0 | 1 = 1): z.ZodString {
  const error = `expected at most ${max} characters`;
  let name = z.string().max(UNITS_PER_CHAR * max, { abort: true, error }).trim().normalize("NFC").min(min).max(max);
  for (const [forbidden, message] of NAME_RULES) name = name.refine((text) => !forbidden.test(text), message);
  return name;
}

const EMOJI_MAX_CHARS = 64;
const EMOJI_NAME = /^:[A-Za-z0-9_+-]{1,62}:$/;
/** Neither spaces nor control characters, and something besides marks and format characters. */
const VISIBLE_TEXT = /^(?=.*[^\p{M}\p{Cf}])[^\s\p{Cc}]+$/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** An emoji of a reaction or a status: one visible character, however many code points it takes, or a name between colons. */
export const Emoji = z.string().min(1).max(EMOJI_MAX_CHARS, { abort: true }).refine(
  (text) => EMOJI_NAME.test(text) || (VISIBLE_TEXT.test(text) && [...graphemes.segment(text)].length === 1),
  "expected one emoji such as 👍, or a name such as :shipit:",
);
