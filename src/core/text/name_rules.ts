// What a name that people read must not contain: one visible line that cannot imitate another. Without schemas, for worker threads.

import { truncateText } from "./text.ts";

/** Read of a name of an external source. No name is as long, and composing takes the square of the number of marks. */
const RAW_MAX_UNITS = 2000;

/** What a name must not contain, and the error text. Each pattern looks at one character, or two: it is linear. */
export const NAME_RULES: readonly (readonly [RegExp, string])[] = [
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

/** A name of an external source, which is not refused: what a name must not contain is removed. */
export function sanitizeName(raw: string): string {
  const text = truncateText(raw, RAW_MAX_UNITS).normalize("NFC").replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+ */gu, " ")
    .replaceAll(/[\u00ad\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu, "").trim();
  const withoutJoiners = NAME_RULES.some(([forbidden]) => forbidden.test(text))
    ? text.replaceAll(/[\u200c\u200d]/g, "").trim()
    : text;
  return NAME_RULES.some(([forbidden]) => forbidden.test(withoutJoiners)) ? "" : withoutJoiners;
}
