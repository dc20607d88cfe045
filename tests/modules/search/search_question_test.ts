// Search by questions in plain words: any of their words finds a result, rare words count more.
import assert from "node:assert/strict";
import { fillRoom, testSearch, waitForIndex } from "../../conformance/search_engines.ts";
import { type ApiResponse, type Harness, openGateway } from "../../harness.ts";
import { createRoom, embedAll, openVectorGateway, search } from "../vector/vector_fixture.ts";
import { search as ask } from "../fixtures.ts";

/** A message, and how somebody asks for it later. The last ones share no word with their answer. */
const PAIRS: readonly (readonly [answer: string, question: string])[] = [
  ["We moved the nightly backup to 03:30, since the old slot collided with the billing run", "when do the backups run"],
  ["The Oslo warehouse ships its last pallets on Thursday", "what is shipping from the warehouse in Oslo"],
  ["Henrik has the spare key of the bike cellar", "who has a key for the cellar"],
  ["Our certificate for the payment gateway was renewed until 2028", "until when is the payment certificate valid"],
  ["The crane inspection found a cracked hook, lifting is stopped", "why is lifting with the crane stopped"],
  ["Tickets older than ninety days are closed by a robot", "what happens to old tickets"],
  ["The new colour of the logo is #0B3D91, marketing has the file", "which colour has our logo now"],
  ["I have cancelled the newsletter of May, the numbers were wrong", "was the newsletter cancelled"],
  ["Nadia wrote the importer for the Danish tax tables", "who wrote the tax importer"],
  ["The pilot with the hospital starts with twelve beds", "how many beds are in the hospital pilot"],
  ["Latency of the map service doubled after the last deployment", "did the deployment make maps slower"],
  ["Please send travel receipts to Tomoko before the tenth", "where should I send my receipts"],
  ["The greenhouse sensors report every two minutes", "how often do the sensors report"],
  ["We decided against a second warehouse in Porto", "what was decided about Porto"],
  ["The fuse box is behind the shelf in the kitchen", "where can I find the fuse box"],
  ["Training for forklifts is on Monday and Wednesday", "on which days is forklift training"],
  ["The firmware of the scanners must stay at 4.1", "which firmware should the scanners have"],
  ["Bruno translates the manual into Portuguese", "who is translating the manual"],
  ["The auction of the old servers brought 1900 euros", "how much did we get for the servers"],
  ["Rust in the cooling pipes was the reason for the leak", "what caused the leak"],
  ["Invoices above ten thousand need two signatures", "how many signatures does an invoice need"],
  ["The choir rehearses in room 210 from now on", "where does the choir meet"],
  ["We stopped testing on tablets with Android 9", "do we still test old tablets"],
  ["The ferry to the plant leaves at 6:40 and 7:20", "ferry times"],
  ["All freezers were defrosted on Sunday", "is there ice in the cold rooms"],
  ["Our landlord wants to raise the rent by four percent", "how expensive will the office become"],
  ["The physician comes on the first Tuesday of a month", "doctor appointments"],
  ["Two of the vans have no winter tyres yet", "which cars are not ready for snow"],
];
const OTHERS = [
  "ok",
  "thanks!",
  "see you on Monday",
  "who has time on Thursday?",
  "I will send the file",
  "what about May?",
];

function idsOf({ items }: ApiResponse["body"]): string[] {
  return items.map((item: { message: { id: string } }) => item.message.id);
}

testSearch("search finds the answers to questions in plain words among the first five results", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  const { ids } = await fillRoom(gateway, alice, [...PAIRS.map(([answer]) => answer), ...OTHERS]);
  const found = { auto: 0, keyword: 0 };
  for (const [at, [, query]] of PAIRS.entries()) {
    for (const mode of ["auto", "keyword"] as const) {
      const body = await ask(alice, { query, mode, limit: 5 });
      assert.deepEqual([body.mode, body.degraded], ["keyword", false]);
      if (idsOf(body).includes(ids[at] ?? "")) found[mode]++;
    }
  }
  assert.ok(found.auto >= 0.6 * PAIRS.length, `${found.auto} of ${PAIRS.length}`);
  assert.ok(found.keyword <= 0.1 * PAIRS.length, "all words together find next to nothing");
});

Deno.test("search finds as many results with an embedding model, also one without meaning", async () => {
  const count = async (gateway: Harness, mode: string): Promise<number> => {
    const alice = await gateway.as("alice");
    const { ids } = await createRoom(alice, [...PAIRS.map(([answer]) => answer), ...OTHERS]);
    await embedAll(gateway, alice);
    let found = 0;
    for (const [at, [, query]] of PAIRS.entries()) {
      const body = await search(alice, query, { mode: "auto", limit: 5 });
      assert.deepEqual([body.mode, body.degraded], [mode, false]);
      if (idsOf(body).includes(ids[at] ?? "")) found++;
    }
    return found;
  };
  await using plain = await openGateway();
  await using opened = await openVectorGateway();
  const [byWords, withVectors] = [await count(plain, "keyword"), await count(opened.gateway, "hybrid")];
  assert.ok(withVectors >= byWords, `${withVectors} and ${byWords} of ${PAIRS.length}`);
});

testSearch("search by question reads other forms of words, and highlights them", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  const { ids } = await fillRoom(gateway, alice, [
    "Deployments are frozen",
    "部署计划已经完成",
    "Der Serverraum ist zu warm",
    "unrelated",
  ]);
  for (
    const [query, at, words] of [
      ["who is deploying this week", 0, ["Deployments"]],
      ["谁负责部署计划", 1, ["部署计划"]],
      ["Warum ist es im Serverraum so warm", 2, ["Serverraum", "warm"]],
    ] as const
  ) {
    const { items } = await ask(alice, { query });
    assert.equal(items[0]?.message.id, ids[at], query);
    const { text } = items[0].message;
    const cut = items[0].highlights[0].ranges.map(([start, end]: number[]) => text.slice(start, end));
    assert.deepEqual(cut, words, query);
  }
});

testSearch(
  "search by question asks for all words where quotes, exclusions or the order ask for them",
  async (gateway) => {
    const alice = await gateway.as("alice");
    await alice.get("/v1/rooms");
    const { ids } = await fillRoom(gateway, alice, ["budget of the garden", "garden party", "budget party"]);
    const [both = "", garden = "", budget = ""] = ids;
    assert.deepEqual(idsOf(await ask(alice, { query: "garden budget" }))[0], both);
    assert.deepEqual(idsOf(await ask(alice, { query: "garden budget" })).sort(), [both, garden, budget].sort());
    for (
      const more of [
        { query: 'garden "budget"' },
        { query: "garden budget -party" },
        { query: "garden budget", sort: "recent" },
        { query: "garden budget", mode: "keyword" },
      ]
    ) {
      assert.deepEqual(idsOf(await ask(alice, more)), [both], JSON.stringify(more));
    }
  },
);

testSearch(
  "search by question finds an old answer with two frequent words, and shows none of hidden rooms",
  async (gateway) => {
    const [alice, eve] = [await gateway.as("alice"), await gateway.as("eve")];
    for (const one of [alice, eve]) await one.get("/v1/rooms");
    const { ids } = await fillRoom(gateway, alice, ["The tank pressure was 4 bar"]);
    await fillRoom(gateway, alice, Array.from({ length: 600 }, (_, n) => `tank ${n} is empty`));
    await fillRoom(gateway, alice, Array.from({ length: 600 }, (_, n) => `pressure of pump ${n}`));
    await waitForIndex(alice);
    assert.equal(idsOf(await ask(alice, { query: "what is the pressure in the tank" }))[0], ids[0]);
    assert.deepEqual((await ask(eve, { query: "what is the pressure in the tank" })).items, []);
  },
);

testSearch("search by question pages without duplicates or gaps while messages arrive", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  const texts = Array.from({ length: 40 }, (_, n) => `anchor ${n % 3 === 0 ? "chain" : "rope"} number ${n}`);
  const { roomId, ids } = await fillRoom(gateway, alice, texts);
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(alice, { query: "which anchor has a chain", limit: 7, ...cursor && { cursor } });
    seen.push(...idsOf(page));
    cursor = page.nextCursor ?? undefined;
    const sent = await alice.post("/v1/messages", { roomId, text: "another anchor" });
    assert.equal(sent.status, 201);
  } while (cursor !== undefined);
  assert.equal(new Set(seen).size, seen.length);
  assert.deepEqual(ids.filter((id) => !seen.includes(id)), []);
});

testSearch("search by a question of the most words, all frequent, is answered", async (gateway) => {
  const alice = await gateway.as("alice");
  await alice.get("/v1/rooms");
  const words = Array.from({ length: 32 }, (_, n) => `harbour${String.fromCharCode(97 + n % 26)}${n}`);
  await fillRoom(gateway, alice, Array.from({ length: 300 }, (_, n) => `${words.join(" ")} ${n}`));
  await waitForIndex(alice);
  assert.equal((await ask(alice, { query: words.join(" ") })).items.length, 20);
  assert.equal((await alice.post("/v1/search", { query: [...words, "more"].join(" ") })).status, 422);
});
