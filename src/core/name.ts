// Names that people read, of principals, rooms, tasks and so on: one visible line that cannot imitate another. And emoji.
import { z } from "@zod/zod";

/** What a name must not contain, and the error text. Each pattern looks at one character, or at two neighbours, so it runs in linear time. */
const RULES: readonly (readonly [RegExp, string])[] = [
  [/[\p{Cc}\p{Zl}\p{Zp}]/u, "expected a single line without line breaks, tabs or other control characters"],
  [/[\u202a-\u202e\u2066-\u2069]/u, "expected no bidirectional control characters"],
  // Soft hyphen, zero-width space, word joiner, byte order mark and the like.
  [/[\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb]/u, "expected no invisible characters"],
  // Joiners belong between parts of an emoji, and between letters of the scripts that join them.
  [
    /(?:^|[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{P}\p{Z}0-9])[\u200c\u200d]|[\u200c\u200d](?:$|[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{P}\p{Z}0-9])/u,
    "expected no invisible characters",
  ],
  [/^[\p{Z}\p{C}\p{M}\p{DI}\u2800]+$/u, "expected at least one visible character"],
];

/** A name of at most `max` characters, trimmed and in composed form (NFC). `min` 0: it may be empty. */
export function nameSchema(max: number, min: 0 | 1 = 1): z.ZodString {
  let name = z.string().trim().normalize("NFC").min(min).max(max);
  for (const [forbidden, message] of RULES) name = name.refine((text) => !forbidden.test(text), message);
  return name;
}

/** A name of an external source, which is not refused: what a name must not contain is removed. */
export function sanitizeName(raw: string): string {
  const text = raw.normalize("NFC").replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+ */gu, " ")
    .replaceAll(/[\u00ad\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu, "").trim();
  const withoutJoiners = RULES.some(([forbidden]) => forbidden.test(text))
    ? text.replaceAll(/[\u200c\u200d]/g, "").trim()
    : text;
  return RULES.some(([forbidden]) => forbidden.test(withoutJoiners)) ? "" : withoutJoiners;
}

const EMOJI_MAX_CHARS = 64;
const EMOJI_NAME = /^:[A-Za-z0-9_+-]{1,62}:$/;
/** Neither spaces nor control characters, and something besides marks and format characters. */
const VISIBLE_TEXT = /^(?=.*[^\p{M}\p{Cf}])[^\s\p{Cc}]+$/u;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** An emoji of a reaction or a status: one visible character, however many code points it takes, or a name between colons. */
export const Emoji = z.string().min(1).max(EMOJI_MAX_CHARS).refine(
  (text) => EMOJI_NAME.test(text) || (VISIBLE_TEXT.test(text) && [...graphemes.segment(text)].length === 1),
  "expected one emoji such as 👍, or a name such as :shipit:",
);
