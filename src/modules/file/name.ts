// File names: shown to people and offered to their file systems, so nothing that could mean a place or hide an ending.
import { Fault } from "@/core/fault.ts";
import { isLongerThan } from "@/core/text.ts";

const NAME_MAX_BYTES = 255;
const RULES: readonly (readonly [RegExp, string])[] = [
  [/^\s*$/, "A name is needed"],
  [/[/\\]/, "A name is not a path: no / or \\"],
  [/\.\./, "A name has no two dots in a row"],
  [/^\.$/, "A name is more than a dot"],
  // Control characters, and those that turn the direction of text: "gpj.exe" can be made to look like "exe.jpg".
  [/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u, "A name has no control characters"],
  [/\p{Cs}|\ufffd/u, "A name is well-formed Unicode"],
];

/** The name in its composed form; throws `validation_failed` for one that is refused. */
export function checkName(raw: string): string {
  const name = raw.normalize("NFC").trim();
  const broken = RULES.find(([pattern]) => pattern.test(raw) || pattern.test(name))?.[1] ??
    (isLongerThan(name, NAME_MAX_BYTES) ? `A name has at most ${NAME_MAX_BYTES} bytes of UTF-8` : undefined);
  if (broken === undefined) return name;
  throw Fault.at("/name", "invalid_name", broken);
}
