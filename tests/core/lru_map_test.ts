// A map that keeps what was set most recently.
import assert from "node:assert/strict";
import { LruMap } from "@/core/lru_map.ts";

Deno.test("a recent map forgets what was set longest ago, once it has more than its maximum", () => {
  const map = new LruMap<string, number>(2).set("a", 1).set("b", 2);
  assert.deepEqual([...map], [["a", 1], ["b", 2]]);
  map.set("c", 3);
  assert.deepEqual([...map], [["b", 2], ["c", 3]]);
});

Deno.test("an LRU map retains for longer what is set again, not what is only peeked at", () => {
  const map = new LruMap<string, number>(2).set("a", 1).set("b", 2);
  map.set("a", 10).get("b");
  map.set("c", 3);
  assert.deepEqual([...map], [["a", 10], ["c", 3]]);
});

Deno.test("a large LRU map evicts several entries at once, since each time it passes those evicted before", () => {
  const map = new LruMap<number, true>(160);
  for (let key = 0; key <= 160; key++) map.set(key, true);
  assert.deepEqual([...map.keys()], Array.from({ length: 150 }, (_, at) => at + 11));
});
