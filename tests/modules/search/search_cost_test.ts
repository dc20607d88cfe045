// The cost of search for other callers: hostile queries and long texts do not block them.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { normalizeWithOffsets } from "@/core/text/normalize.ts";
import { Matcher } from "@/modules/search/matcher.ts";
import { SearchIndex } from "@/modules/search/search_index.ts";
import { fillRoom, testSearch, waitForIndex } from "../../conformance/search_engines.ts";
import { assertYields, measureCpuMs } from "../../cpu_time.ts";
import { openGateway } from "../../harness.ts";
import { replace } from "../../replace.ts";
import { countTicks, slowTime } from "../../wait.ts";
import { ok } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";
import { runSteps } from "../steps.ts";

/** Far above the measured time, and far below that of exponential backtracking. */
const MATCH_MAX_MS = 1000;
const TEXT_MAX = 15_900;

/** Texts without repeated words, each with the maximum length of a message. */
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

Deno.test("a phrase of emoji is matched without backtracking in a text of many emoji", async () => {
  const text = `${"🎉".repeat(100)}${".".repeat(30)}x`;
  for (const count of [5, 30]) {
    assert.ok(
      await measureCpuMs(() =>
        assert.equal(runSteps(new Matcher(`"${"🎉 ".repeat(count)}x"`).score({ text })), undefined)
      ) <
        MATCH_MAX_MS,
    );
  }
  assert.ok(runSteps(new Matcher('"🎉 🎉 x"').score({ text: "🎉.🎉🎉. x" })));
  assert.ok(runSteps(new Matcher('"👍 done"').score({ text: "👍🏽 done" })));
  assert.deepEqual(runSteps(new Matcher('"a 🎉"').highlights({ text: "a 👍 🎉🎉" }))[0]?.ranges, [[0, 7]]);
});

Deno.test("a flag is found among all flags, and matched in linear time in a text of flags", async () => {
  const letters = Array.from({ length: 26 }, (_, n) => String.fromCodePoint(0x1f1e6 + n));
  const flags = letters.slice(0, 10).flatMap((first) => letters.map((second) => first + second));
  assert.deepEqual(runSteps(new Matcher("🇯🇿").highlights({ text: flags.join("") }))[0]?.ranges, [[
    1036,
    1040,
  ]]);
  const text = "🇪🇩".repeat(8000);
  assert.ok(
    await measureCpuMs(() => assert.equal(runSteps(new Matcher("🇩🇪").score({ text })), undefined)) < MATCH_MAX_MS,
  );
});

Deno.test("a long text is matched in windows, and matches across their borders are found once", () => {
  const text = `${"x".repeat(8 * 1024 - 6)} a needle ${"x".repeat(40_000)} a needle`;
  const matcher = new Matcher('"a needle"');
  const steps = matcher.highlights({ text });
  let windows = 1;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) windows++;
  assert.deepEqual(step.value[0]?.ranges, [[8 * 1024 - 5, 8 * 1024 + 3], [text.length - 8, text.length]]);
  assert.equal(windows, Math.ceil(text.length / (8 * 1024)));
  const excluding = new Matcher('hay -"a needle"');
  assert.equal(runSteps(excluding.score({ text: `hay ${text}` })), undefined);
});

Deno.test("very many combining marks are normalized in bounded pieces", async () => {
  const marks = "\u0300\u0316\u093c".repeat(5000);
  assert.ok(
    await measureCpuMs(() => normalizeWithOffsets(`क${marks}`)) <
      await measureCpuMs(() => `क${marks}`.normalize("NFKD")),
  );
  assert.equal(normalizeWithOffsets(`a${"\u0301".repeat(5000)}b`).text, "ab");
});

/** How many letters `work` looks up by themselves. */
function countLookups(work: () => unknown): number {
  const { get } = Map.prototype;
  let count = 0;
  using _replaced = replace(Map.prototype, "get", function (this: Map<unknown, unknown>, key) {
    count++;
    return get.call(this, key);
  });
  work();
  return count;
}

Deno.test("a long text of Chinese, Korean or Russian is normalized in runs, not letter by letter", () => {
  const decomposed = "e\u0301".repeat(1000);
  assert.ok(countLookups(() => normalizeWithOffsets(decomposed)) >= 1000, "as each letter with a mark is");
  for (const letters of ["机器学习的部署", "회의록정리", "абвгдежзикл"]) {
    const text = letters.repeat(40_000);
    assert.ok(countLookups(() => normalizeWithOffsets(text)) < text.length / 10, letters);
  }
});

testSearch("indexing and searching long texts yields the thread to other callers", async (gateway) => {
  const alice = await gateway.as("alice", { role: "owner" });
  await alice.get("/v1/rooms");
  const han = Array.from({ length: 2000 }, (_, n) => String.fromCharCode(0x4e00 + n)).join("");
  const texts = [...longTexts(12, han), ...longTexts(40, "äöüéèêçñøåš")];
  const search = async (): Promise<boolean> =>
    (await alice.get(`/v1/search?q=${encodeURIComponent("äöü")}&limit=50`)).body.degraded;
  await assertYields(async () => {
    await fillRoom(gateway, alice, texts);
    while (await search()) continue;
  });
  await assertYields(search);
  await assertYields(async () => {
    assert.equal((await alice.post("/v1/collaboration/search/reindex")).status, 202);
    await gateway.runJobs();
  });
});

Deno.test("others have their turn between the words of a question, and between the contexts of its results", async () => {
  await using gateway = await openGateway();
  const alice = await gateway.as("alice");
  const words = ["anchor", "harbor", "vessel", "tiller", "rudder", "lantern", "compass", "mooring"];
  await fillRoom(gateway, alice, Array.from({ length: 12 }, () => words.join(" ")));
  await waitForIndex(alice);
  /** How often others had their turn, on a machine so slow that each step takes a slice. */
  const turnsOf = async (query: string, limit = 12): Promise<number> => {
    using _slow = slowTime(4);
    using ticks = countTicks();
    assert.equal(ok(await alice.get(`/v1/search?q=${query}&context=1&limit=${limit}`)).items.length, limit);
    return ticks.count;
  };
  const least = await turnsOf("anchor");
  assert.ok(await turnsOf(words.join("+")) >= least + words.length - 1);
  // Of each result its text is matched, and its context read.
  assert.ok(await turnsOf("anchor", 1) <= least - 2 * 11);
});

Deno.test("SQLite counts documents, and looks up a frequent word with a filter that few match, in slices", async () => {
  await using gateway = await openGateway();
  const [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  await bob.get("/v1/rooms");
  const { roomId, ids: [id] } = await fillRoom(gateway, alice, ["the ship"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`));
  const own = ok(await bob.post("/v1/messages", { roomId, text: "the boat" }));
  await waitForIndex(alice);
  // No such messages exist, but the index has them: reading them would be the longest part of this test.
  const index = new SearchIndex(gateway.app.store as unknown as ConstructorParameters<typeof SearchIndex>[0]);
  const at = Date.parse("2026-04-01T00:00:00Z");
  await index.put(...Array.from({ length: 4100 }, (_, n) => ({
    tenantId: "default",
    kind: "message",
    id: `msg_${n}`,
    roomId,
    authorId: "alice",
    seq: 10 + n,
    at: new Date(at + n).toISOString(),
    version: 1,
    texts: ["the sea"],
  })));
  const admin = await gateway.as("olga", { role: "owner" });
  const counts = await recordQueries(async () => {
    assert.equal(ok(await admin.get("/v1/collaboration/search/status")).documents, 4102);
  });
  assert.equal(counts.filter(({ sql }) => sql.startsWith('select count(*) as "n" from "search_document"')).length, 3);
  for (const sort of ["recent", "relevance"]) {
    const found = async (filter: string) => {
      const path = `/v1/search?q=the&types=message&mode=keyword&sort=${sort}&${filter}`;
      return ok(await alice.get(path)).items.map(({ message }: { message: { id: string } }) => message.id);
    };
    const statements = await recordQueries(async () => assert.deepEqual(await found("senderId=bob"), [own.id]));
    assert.equal(statements.filter(({ sql }) => sql.includes('cross join "search_document"')).length, 3, sort);
    assert.deepEqual(await found("senderId=bob&to=2026-03-31T00:00:00Z"), [own.id]);
    assert.deepEqual(await found("senderId=alice&to=2026-03-31T00:00:00Z"), [id]);
  }
});
