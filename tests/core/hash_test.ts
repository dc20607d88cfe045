// The quick hash of texts: the same for the same, another for what differs little.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { fnv1a, hash64 } from "@/core/text/hash.ts";

Deno.test("hash64 distinguishes texts that differ in one place, and is the same for the same", () => {
  const part = fc.string({ unit: "grapheme", maxLength: 100 });
  // Longer than what is hashed at once, now and then.
  const start = fc.tuple(part, fc.constantFrom("", "x".repeat(16_380), "é".repeat(20_000))).map((parts) =>
    parts.join("")
  );
  const piece = fc.string({ unit: "grapheme", minLength: 1, maxLength: 4 });
  fc.assert(fc.property(start, piece, piece, part, (before, one, other, after) => {
    const hash = hash64(before + one + after);
    assert.match(hash, /^[0-9a-f]{16}$/);
    assert.equal(hash64([before, one, after].join("")), hash);
    assert.equal(hash64(before + other + after) === hash, one === other);
  }));
});

Deno.test("hash64 distinguishes numbers in a text, their order, and their number", () => {
  const seen = new Set<string>();
  for (let left = 0; left < 300; left++) {
    for (let right = 0; right < 300; right++) seen.add(hash64(`{"unreadCount":${left},"lastReadSeq":${right}}`));
  }
  assert.equal(seen.size, 300 * 300);
});

Deno.test("fnv1a is the published function", () => {
  // http://www.isthe.com/chongo/tech/comp/fnv/, test vectors of the 32-bit FNV-1a
  assert.equal(fnv1a("") >>> 0, 0x811c9dc5);
  assert.equal(fnv1a("a") >>> 0, 0xe40c292c);
  assert.equal(fnv1a("foobar") >>> 0, 0xbf9cf968);
});
