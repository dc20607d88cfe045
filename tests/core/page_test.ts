// Cursors: whatever a list is sorted by, the cursor that it gives is one that it takes.
import assert from "node:assert/strict";
import { openGateway } from "../harness.ts";
import { ok, people } from "../modules/team.ts";

Deno.test("a list sorted by the longest names there are is read to its end, page by page", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  const longest = (start: string, length: number) => start + "\u0001".repeat(length - 2) + "x";
  for (const start of "abc") {
    ok(await alice.post("/v1/rooms", { name: longest(start, 120) }));
    ok(await alice.post("/v1/collaboration/documents", { title: longest(start, 200) }));
  }
  for (const list of ["/v1/rooms?sort=name", "/v1/collaboration/documents?sort=title"]) {
    let count = 0;
    for (let after = ""; after !== "end";) {
      const { items, nextCursor } = ok(await alice.get(`${list}&limit=1${after}`));
      count += items.length;
      after = nextCursor === null ? "end" : `&cursor=${encodeURIComponent(nextCursor)}`;
    }
    assert.equal(count, 3, list);
  }
});
