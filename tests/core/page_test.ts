// Cursors: whatever a list is sorted by, the cursor that it gives is one that it takes.
import assert from "node:assert/strict";
import { Cursors } from "@/core/page.ts";
import { Signer } from "@/core/crypto.ts";
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

Deno.test("long items make a page shorter, and each is on one page", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = ok(await alice.post("/v1/rooms", { name: "Long" })).id;
  const ids: string[] = [];
  for (let n = 0; n < 40; n++) {
    ids.push(ok(await alice.post("/v1/messages", { roomId, text: `${n} `.padEnd(16_000, "x") })).id);
  }
  const read = async (query: string) => {
    const page = ok(await alice.get(`/v1/messages?roomId=${roomId}&limit=200${query}`));
    assert.ok(JSON.stringify(page).length < 300_000);
    const found: string[] = page.items.map(({ id }: { id: string }) => id);
    return { ...page, found };
  };
  const before: string[] = [];
  for (let query: string | undefined = ""; query !== undefined;) {
    const { found, hasBefore } = await read(query);
    before.unshift(...found);
    query = hasBefore ? `&before=${found[0]}` : undefined;
  }
  assert.deepEqual(before, ids);
  const after = ids.slice(0, 1);
  for (let isEnd = false; !isEnd;) {
    const { found, hasAfter } = await read(`&after=${after.at(-1)}`);
    after.push(...found);
    isEnd = !hasAfter;
  }
  assert.deepEqual(after, ids);
  const around = await read(`&around=${ids[20]}`);
  assert.deepEqual([around.hasBefore, around.hasAfter], [true, true]);
  assert.ok(around.found.includes(ids[20] ?? ""));
  const seqs: number[] = [];
  for (let isComplete = false; !isComplete;) {
    const { events, complete } = ok(await alice.get(`/v1/rooms/${roomId}/events?limit=300&after=${seqs.at(-1) ?? 0}`));
    assert.ok(events.length < 20);
    seqs.push(...events.map(({ seq }: { seq: number }) => seq));
    isComplete = complete;
  }
  assert.deepEqual(seqs.slice(-40), seqs.slice(-40).map((_, n) => seqs.length - 39 + n));
});

Deno.test("an item that is longer than a page is on a page of its own, with a cursor", () => {
  const cursors = new Cursors(new Signer([new Uint8Array(32)], "cursor"));
  const rows = ["a", "b", "c"].map((name) => ({ name, text: name.repeat(300_000) }));
  const { items, hasMore, nextCursor } = cursors.page(rows, 50, "list", ({ name }) => [name], (row) => row);
  assert.deepEqual(items.map(({ name }) => name), ["a"]);
  assert.deepEqual([hasMore, cursors.decode(nextCursor ?? "", "list")], [true, ["a"]]);
});
