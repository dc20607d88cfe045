// Tokens of the index: a text has all tokens that its queries need, and numbers are encoded as specified.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { normalizeText, normalizeWithOffsets } from "@/core/text/normalize.ts";
import { hashGrams, requiredGrams, runsOf, tokenize, TOKENS_MAX } from "@/modules/search/tokenize.ts";
import { encodeTokens } from "@/modules/search/term_query.ts";

const LETTERS = [
  ..."abcXYZ0189äßçñøΣςжя_-. ,🙂👩🏽©",
  ..."机器学习の部署カナ회의록ｶﾞ",
  ...["e\u0301", "\ud801\udc37", "क्षि", "🇦🇹", "🇩🇪", "1️⃣", "#️⃣", "❤️", "👩‍👧", "🏳️‍🌈", "👍🏽", "™", "\ufe0f", "\u200d"],
];

/** Letters that are normalized in runs, alone, and together with the following ones. */
const MIXED = [
  ...LETTERS,
  ..."АйЙёЁがガか학각上㐀𠀀",
  ..."\u3099\uff9e\u1161\u11a8\u0301\u064b\u200d\u3131\u1100\u05d0",
];

Deno.test("a text is normalized like its characters one by one, with and without offsets", () => {
  fc.assert(fc.property(fc.array(fc.constantFrom(...MIXED), { maxLength: 60 }), (letters) => {
    const text = letters.join("");
    const { text: folded, starts = [], ends = [] } = normalizeWithOffsets(text);
    assert.equal(normalizeText(text), folded);
    const clusters = text.match(/\P{M}[\p{M}\uff9e\uff9f\u1160-\u11ff]{0,30}|\p{M}{1,30}/gu) ?? [];
    assert.equal(clusters.map((cluster) => normalizeWithOffsets(cluster).text).join(""), folded);
    for (const [unit, start] of starts.entries()) {
      assert.ok(normalizeText(text.slice(start, ends[unit])).includes(folded[unit] ?? "none"), text);
    }
  }));
});

Deno.test("a text with too many distinct tokens is indexed by the first of them", () => {
  let state = 42;
  const next = (): number => (state = Math.imul(state, 1_103_515_245) + 12_345 >>> 0) >>> 8;
  const text = Array.from({ length: 120_000 }, () => String.fromCharCode(0x4e00 + next() % 20_000)).join("");
  const tokens = new Set(tokenize("t", text, ["@room"]));
  assert.ok(tokens.size >= TOKENS_MAX && tokens.size <= TOKENS_MAX + 1, String(tokens.size));
  for (const token of hashGrams("t", ["@room", ...requiredGrams(text.slice(0, 20_000))])) assert.ok(tokens.has(token));
});

Deno.test("every part of a text's runs requires only tokens of the text", () => {
  fc.assert(fc.property(
    fc.array(fc.constantFrom(...LETTERS), { maxLength: 60 }),
    fc.nat(),
    fc.nat(),
    (letters, from, length) => {
      const { text } = normalizeWithOffsets(letters.join(""));
      const tokens = new Set(tokenize("t", text, ["@room", "!link"]));
      for (const run of runsOf(text)) {
        const characters = [...run];
        const start = from % characters.length;
        const part = characters.slice(start, start + 1 + length % characters.length).join("");
        // Of a word, one or two letters need that it starts with them: there the run itself has to do.
        const grams = requiredGrams(part);
        const needed = grams.some((gram) => /^[=^]/.test(gram)) ? requiredGrams(run) : grams;
        for (const token of hashGrams("t", needed)) assert.ok(tokens.has(token), JSON.stringify([text, part]));
      }
      for (const token of hashGrams("t", ["@room", "!link"])) assert.ok(tokens.has(token));
    },
  ));
});

Deno.test("a text has no tokens but those of its words, and other tenants have others", () => {
  const expected = hashGrams("t", ["^he", "hel", "ell", "llo", "=a", "机", "器", "机器", "!file"]);
  assert.deepEqual(new Set(tokenize("t", "hello, a 机器", ["!file"])), new Set(expected));
  const emoji = hashGrams("t", ["^ok", "👍", "🏽", "👍🏽", "🇦", "🇹", "🇦🇹", "^1\u20e3"]);
  assert.deepEqual(new Set(tokenize("t", normalizeWithOffsets("ok👍🏽 🇦🇹 1️⃣").text, [])), new Set(emoji));
  assert.deepEqual(tokenize("t", " .,!", []), []);
  assert.equal(new Set([...tokenize("t", "hello", []), ...tokenize("u", "hello", [])]).size, 8);
});

Deno.test("tokens are written in base 36, as every index that exists has them", () => {
  const edges = [0, 1, 35, 36, 1295, 1296, 36 ** 5 - 1, 36 ** 5, 36 ** 6 - 1, 36 ** 6, 2 ** 31, 2 ** 32 - 1];
  const numbers = [...edges, ...Array.from({ length: 3000 }, (_, at) => Math.imul(at, 0x9e3779b1) >>> 0)];
  assert.equal(
    encodeTokens(numbers.map((number) => number | 0)),
    numbers.map((number) => number.toString(36)).join(" "),
  );
  assert.equal(encodeTokens([]), "");
});
