// Exclusions in queries: `-word` and `-"words in order"`.
import assert from "node:assert/strict";
import { Matcher } from "@/modules/search/matcher.ts";
import { fillRoom, testSearch, waitForIndex } from "../../conformance/search_engines.ts";
import type { Caller } from "../../harness.ts";
import { completeSearch, search } from "../fixtures.ts";
import { runSteps } from "../steps.ts";

async function find(who: Caller, query: string, more: Record<string, unknown> = {}): Promise<string[]> {
  const { items } = await search(who, { query, ...more });
  return items.map((item: { message: { text: string } }) => item.message.text).sort();
}

const TEXTS = [
  "tea with milk",
  "tea with lemon",
  "Tea with oat milk",
  "a well-known tea",
  "Tee mit Straße",
  "东京 茶 大阪",
  "东京 茶",
  "чай с молоком",
  "чай с лимоном",
  "party 🎉 tonight",
  "party tonight",
  "run it with --force",
];

testSearch("search excludes a word after a hyphen, in any script and spelling", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  await fillRoom(gateway, alice, TEXTS);
  for (
    const [query, wanted] of [
      ["tea -milk", ["a well-known tea", "tea with lemon"]],
      ["-milk tea", ["a well-known tea", "tea with lemon"]],
      ["tea -MILK -lemon", ["a well-known tea"]],
      ['tea -"with milk"', ["Tea with oat milk", "a well-known tea", "tea with lemon"]],
      ['tea -"with milk', ["Tea with oat milk", "a well-known tea", "tea with lemon"]],
      ["tea -“oat milk”", ["a well-known tea", "tea with lemon", "tea with milk"]],
      // As the word alone would be found: from three letters on anywhere in a word, two at its start, one alone.
      ["tea -emo", ["Tea with oat milk", "a well-known tea", "tea with milk"]],
      ["tea -il", ["Tea with oat milk", "a well-known tea", "tea with lemon", "tea with milk"]],
      ["tea -mi", ["a well-known tea", "tea with lemon"]],
      ["tea -a", ["Tea with oat milk", "tea with lemon", "tea with milk"]],
      ["tee -strasse", []],
      ["tee -ＳＴＲＡＳＳＥ", []],
      ["茶 -大阪", ["东京 茶"]],
      ["茶 －大阪", ["东京 茶"]],
      ["чай -МОЛОКОМ", ["чай с лимоном"]],
      ["party -🎉", ["party tonight"]],
      ["tea -well-known", ["Tea with oat milk", "tea with lemon", "tea with milk"]],
      ["tea -tea", []],
      // No negations: a hyphen inside a word, alone, after a quote, doubled, or quoted itself.
      ["well-known", ["a well-known tea"]],
      ["tea - milk", ["Tea with oat milk", "tea with milk"]],
      ["tea -", ["Tea with oat milk", "a well-known tea", "tea with lemon", "tea with milk"]],
      ['"tea"-milk', ["Tea with oat milk", "tea with milk"]],
      ["--force", ["run it with --force"]],
      ['"-force"', ["run it with --force"]],
      ["tea -!!!", ["Tea with oat milk", "a well-known tea", "tea with lemon", "tea with milk"]],
    ] as const
  ) {
    assert.deepEqual(await find(alice, query, { mode: "keyword" }), [...wanted].sort(), query);
    assert.deepEqual(await find(alice, query, { sort: "recent" }), [...wanted].sort(), `${query}, recent`);
    const { items } = await completeSearch(() => alice.get(`/v1/search?mode=keyword&q=${encodeURIComponent(query)}`));
    const texts = items.map((item: { message: { text: string } }) => item.message.text);
    assert.deepEqual(texts.sort(), [...wanted].sort(), `${query}, by GET`);
  }
  const [hit] = (await search(alice, { query: "tea -milk -lemon" })).items;
  assert.deepEqual(hit.highlights, [{ field: "text", ranges: [[13, 16]] }]);
});

testSearch("search refuses a query with exclusions only, by GET and POST", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  for (const query of ["-milk", '-"oat milk" -tea', "-milk !!!"]) {
    for (
      const [answer, pointer] of [
        [await alice.post("/v1/search", { query }), "/query"],
        [await alice.get(`/v1/search?q=${encodeURIComponent(query)}`), "/q"],
      ] as const
    ) {
      assert.deepEqual([answer.status, answer.body.code], [422, "validation_failed"], query);
      assert.match(answer.body.detail, /only excluded words/);
      assert.deepEqual(answer.body.errors.map((error: { pointer: string }) => error.pointer), [pointer]);
    }
  }
  const words = `tea ${Array.from({ length: 32 }, (_, n) => `-word${n}`).join(" ")}`;
  assert.equal((await alice.post("/v1/search", { query: words })).status, 422, "words that must not be there count");
});

testSearch("search finds and counts the few matches among very many excluded ones", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  const { ids } = await fillRoom(gateway, alice, ["error: disk", "error: fan"]);
  await fillRoom(gateway, alice, Array.from({ length: 1200 }, (_, n) => `error: timeout ${n}`));
  await waitForIndex(alice);
  for (const sort of ["relevance", "recent"]) {
    const { items, totalEstimate, hasMore } = await search(alice, { query: "error -timeout", sort });
    const found = items.map((item: { message: { id: string } }) => item.message.id).sort();
    assert.deepEqual([found, totalEstimate, hasMore], [[...ids].sort(), 2, false], sort);
  }
  const first = await search(alice, { query: "error -timeout", limit: 1 });
  const second = await search(alice, { query: "error -timeout", limit: 1, cursor: first.nextCursor });
  const both = [...first.items, ...second.items].map((item: { message: { id: string } }) => item.message.id);
  assert.deepEqual(both.sort(), [...ids].sort());
});

Deno.test("an exclusion applies to all fields of a resource", () => {
  const matcher = new Matcher("plan -secret");
  assert.ok(runSteps(matcher.score({ title: "Plan", text: "open" })));
  assert.equal(runSteps(matcher.score({ title: "Plan", text: "a SECRET one" })), undefined);
  assert.equal(runSteps(matcher.score({ title: "Secret plan", text: "" })), undefined);
  // The same result each time: the pattern has no state.
  for (let n = 0; n < 3; n++) assert.equal(runSteps(matcher.score({ text: "plan secret" })), undefined);
});
