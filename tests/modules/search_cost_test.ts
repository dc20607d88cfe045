// What a search may cost those who do not search: hostile questions and long texts keep nobody waiting.
import assert from "node:assert/strict";
import { nextTurn } from "@/core/clock.ts";
import { fold, foldText } from "@/modules/search/fold.ts";
import { Matcher } from "@/modules/search/matcher.ts";
import { fillRoom, testSearch } from "../conformance/search_engines.ts";
import { quickest } from "../cost.ts";

/** Far above what is measured, and far below what it was to read a text in every way there is. */
const MATCH_MAX_MS = 1000;
const TEXT_MAX = 15_900;

/** Texts of no words that repeat, each as long as a message can be. */
function longTexts(count: number, letters: string): string[] {
  let state = 42;
  const random = (): number => (state = Math.imul(state, 1_103_515_245) + 12_345 >>> 0) / 2 ** 32;
  return Array.from(
    { length: count },
    () =>
      Array.from({ length: TEXT_MAX }, () => random() < 0.1 ? " " : letters[Math.floor(random() * letters.length)])
        .join(""),
  );
}

/** The longest time that nothing else had a turn while `work` was done, as a share of all of it. */
async function longestStall(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  let [last, longest, isOver] = [startedAt, 0, false];
  const watching = (async () => {
    while (!isOver) {
      await nextTurn();
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }
  })();
  await work();
  isOver = true;
  await watching;
  return longest / (performance.now() - startedAt);
}

Deno.test("a phrase of emoji is looked for in one way only, however many stand in the text", async () => {
  const text = `${"🎉".repeat(100)}${".".repeat(30)}x`;
  for (const count of [5, 30]) {
    assert.ok(
      await quickest(() => assert.equal(new Matcher(`"${"🎉 ".repeat(count)}x"`).score({ text }), undefined)) <
        MATCH_MAX_MS,
    );
  }
  assert.ok(new Matcher('"🎉 🎉 x"').score({ text: "🎉.🎉🎉. x" }));
  assert.ok(new Matcher('"👍 done"').score({ text: "👍🏽 done" }));
  assert.deepEqual(new Matcher('"a 🎉"').highlights({ text: "a 👍 🎉🎉" })[0]?.ranges, [[0, 7]]);
});

Deno.test("a flag is found among all flags there are, and looked for in a text of nothing else", async () => {
  const letters = Array.from({ length: 26 }, (_, n) => String.fromCodePoint(0x1f1e6 + n));
  const flags = letters.slice(0, 10).flatMap((first) => letters.map((second) => first + second));
  assert.deepEqual(new Matcher("🇯🇿").highlights({ text: flags.join("") })[0]?.ranges, [[1036, 1040]]);
  const text = "🇪🇩".repeat(8000);
  assert.ok(await quickest(() => assert.equal(new Matcher("🇩🇪").score({ text }), undefined)) < MATCH_MAX_MS);
});

Deno.test("marks without end are put in order piece by piece", async () => {
  const marks = "\u0300\u0316\u093c".repeat(5000);
  assert.ok(await quickest(() => fold(`क${marks}`)) < await quickest(() => `क${marks}`.normalize("NFKD")));
  assert.equal(fold(`a${"\u0301".repeat(5000)}b`).text, "ab");
});

Deno.test("a long text of Chinese, Korean or Russian is folded in runs, not letter by letter", async () => {
  for (const letters of ["机器学习的部署", "회의록정리", "абвгдежзикл"]) {
    const text = letters.repeat(40_000);
    const byLetter = await quickest(() => [...text].map((letter) => foldText(letter)).join(""));
    assert.ok(await quickest(() => fold(text)) < byLetter / 2, letters);
  }
});

testSearch("long texts leave others their turns, when they are indexed and when they are read", async (gateway) => {
  const alice = await gateway.as("alice", { role: "owner" });
  await alice.get("/v1/rooms");
  const han = Array.from({ length: 2000 }, (_, n) => String.fromCharCode(0x4e00 + n)).join("");
  await fillRoom(gateway, alice, [...longTexts(12, han), ...longTexts(40, "äöüéèêçñøåš")]);
  const search = async (): Promise<boolean> =>
    (await alice.get(`/v1/search?q=${encodeURIComponent("äöü")}&limit=50`)).body.degraded;
  const shares = [
    await longestStall(async () => {
      while (await search()) continue;
    }),
  ];
  shares.push(await longestStall(search));
  assert.ok(Math.max(...shares) < 0.4, String(shares));
  assert.equal((await alice.post("/v1/collaboration/search/reindex")).status, 202);
  const share = await longestStall(() => gateway.runJobs());
  assert.ok(share < 0.4, String(share));
});
