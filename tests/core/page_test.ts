// Cursors: whatever a list is sorted by, the cursor that it gives is one that it takes.
import assert from "node:assert/strict";
import { openGateway } from "../harness.ts";
import { createCallers, ok } from "../modules/fixtures.ts";

Deno.test("a list sorted by the longest names there are is read to its end, page by page", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const longest = (start: string, length: number) => start + "語".repeat(length - 2) + "x";
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

Deno.test("a cursor is refused when anything of it is changed, or who asks, or for what", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  for (const name of ["One", "Two"]) ok(await alice.post("/v1/rooms", { name, visibility: "public" }));
  const cursor: string = ok(await alice.get("/v1/rooms?limit=1")).nextCursor;
  const [body = "", mac = ""] = cursor.split(".");
  const other = `${mac.startsWith("A") ? "B" : "A"}${mac.slice(1)}`;
  for (
    const changed of [body, `${body}.`, `.${mac}`, `${body}.${other}`, `${cursor}.`, `${cursor}.x`, `x${cursor}`, "."]
  ) {
    const answer = await alice.get(`/v1/rooms?limit=1&cursor=${changed}`);
    assert.deepEqual([answer.status, answer.body.code], [400, "invalid_cursor"], changed);
  }
  const stranger = await gateway.as("alice", { tenant: "elsewhere" });
  for (
    const [who, list] of [[bob, "/v1/rooms?limit=1"], [stranger, "/v1/rooms?limit=1"], [
      alice,
      "/v1/rooms?q=o",
    ]] as const
  ) {
    assert.equal((await who.get(`${list}&cursor=${cursor}`)).body.code, "invalid_cursor", list);
  }
  assert.equal((await alice.get(`/v1/collaboration/tasks?cursor=${cursor}`)).body.code, "invalid_cursor");
  assert.equal(ok(await alice.get(`/v1/rooms?limit=1&cursor=${cursor}`)).items.length, 1);
});
