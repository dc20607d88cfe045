// JSON from outside is bounded as it arrives, whatever its chunks, by the same rules as a whole text.
import assert from "node:assert/strict";
import { limitJson } from "@/adapters/outbound/json_limit.ts";
import { hasMoreValuesThan, isDeeperThan } from "@/core/text/text.ts";

const encoder = new TextEncoder();
const BOUNDS = { bytesMax: 1000, depthMax: 3, valuesMax: 10 };

/** What is too large when the text arrives in chunks of this size. */
function excessOf(text: string, { size = Infinity, ...bounds }: Partial<typeof BOUNDS> & { size?: number } = {}) {
  const check = limitJson({ ...BOUNDS, ...bounds });
  const bytes = encoder.encode(text);
  for (let at = 0; at < bytes.length; at += size) {
    const excess = check(bytes.subarray(at, at + size));
    if (excess !== undefined) return excess;
  }
  return undefined;
}

function randomJson(depth = 0): unknown {
  const kind = Math.floor(Math.random() * (depth < 5 ? 6 : 3));
  if (kind === 0) return Math.random();
  if (kind === 1) return null;
  if (kind === 2) return ['"', "\\", '[{,"\\', "ä\n", "", "]}"][Math.floor(Math.random() * 6)];
  const parts = Array.from({ length: Math.floor(Math.random() * 4) }, () => randomJson(depth + 1));
  return kind < 5 ? parts : Object.fromEntries(parts.map((part, n) => [`k,"${n}`, part]));
}

Deno.test("a text is found too deep or too many exactly when the whole of it is", () => {
  for (let round = 0; round < 2000; round++) {
    const text = JSON.stringify(randomJson());
    const size = 1 + Math.floor(Math.random() * 20);
    const excess = excessOf(text, { size, bytesMax: Infinity });
    assert.equal(
      excess !== undefined,
      isDeeperThan(text, BOUNDS.depthMax) || hasMoreValuesThan(text, BOUNDS.valuesMax),
      text,
    );
  }
});

Deno.test("each event of a stream is bounded by itself, in every form of its end", () => {
  for (const end of ["\n\n", "\r\n\r\n", "\n\r\n"]) {
    for (const size of [1, 7, Infinity]) {
      const events = `data: [1,2,3,4,5,6]${end}`.repeat(500);
      assert.equal(excessOf(events, { size }), undefined, JSON.stringify([end, size]));
      // A comment with a quotation mark does not hide what follows.
      assert.equal(excessOf(`: it"s alive${end}${events}`, { size }), undefined);
      assert.equal(excessOf(`${events}: "\ndata: [[[[${end}`, { size }), "nested deeper than 3 levels");
      assert.equal(excessOf(`${events}data: [1,2,3,4,5,\ndata: 6,7,8,9,10]${end}`, { size }), "more than 10 values");
      assert.equal(excessOf(`${events}data: "${"x".repeat(1000)}`, { size }), "longer than 1000 bytes");
    }
  }
  // One line after the other, and no blank one.
  assert.equal(excessOf("data: x\n".repeat(200)), "longer than 1000 bytes");
});
