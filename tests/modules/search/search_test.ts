// Search, through the API: results, permissions, freshness and responses.
import assert from "node:assert/strict";
import { Fault } from "@/core/fault.ts";
import { testSearch } from "../../conformance/search_engines.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { allEnded, until } from "../../wait.ts";
import { upload } from "../file/file_harness.ts";
import { completeSearch, ok, search } from "../fixtures.ts";

async function createRoom(owner: Caller, fields: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await owner.post("/v1/rooms", { name: "Kitchen", ...fields });
  assert.equal(status, 201);
  return body.id;
}

async function sendMessage(
  who: Caller,
  roomId: string,
  text: string,
  more: Record<string, unknown> = {},
): Promise<string> {
  const { status, body } = await who.post("/v1/messages", { roomId, text, ...more });
  assert.equal(status, 201, JSON.stringify(body));
  return body.id;
}

async function find(who: Caller, query: string, filters: Record<string, unknown> = {}): Promise<string[]> {
  const { items } = await search(who, { query, filters, mode: "keyword" });
  return items.map((item: { message: { id: string } }) => item.message.id);
}

async function createTrio(gateway: Harness): Promise<{ alice: Caller; bob: Caller; eve: Caller }> {
  const [alice, bob, eve] = await Promise.all(["alice", "bob", "eve"].map((sub) => gateway.as(sub)));
  assert.ok(alice !== undefined && bob !== undefined && eve !== undefined);
  for (const one of [alice, bob, eve]) assert.equal((await one.get("/v1/rooms")).status, 200);
  return { alice, bob, eve };
}

testSearch(
  "search.query finds messages right after sending, with highlights as offsets and context",
  async (gateway) => {
    const { alice } = await createTrio(gateway);
    const roomId = await createRoom(alice);
    const before = await sendMessage(alice, roomId, "first");
    const id = await sendMessage(alice, roomId, "Der Bäcker backt Straßenbrot 🥖 für Zoë");
    const after = await sendMessage(alice, roomId, "last");
    const body = await completeSearch(() => alice.get(`/v1/search?q=${encodeURIComponent("STRASSEN zoe")}&context=1`));
    assert.deepEqual(body.items.map((item: { message: { id: string } }) => item.message.id), [id]);
    const [item] = body.items;
    const cut = item.highlights[0].ranges.map(([start, end]: number[]) => item.message.text.slice(start, end));
    assert.deepEqual(cut, ["Straßen", "Zoë"]);
    assert.equal(item.highlights[0].field, "text");
    assert.deepEqual(item.context.before.map((message: { id: string }) => message.id), [before]);
    assert.deepEqual(item.context.after.map((message: { id: string }) => message.id), [after]);
    assert.deepEqual([body.mode, body.degraded, body.totalEstimate, body.hasMore], ["keyword", false, 1, false]);
  },
);

testSearch("a search finds what is indexed while the database takes no writes", async (gateway) => {
  const { alice } = await createTrio(gateway);
  const roomId = await createRoom(alice);
  const indexed = await sendMessage(alice, roomId, "the oven is hot");
  assert.deepEqual(await find(alice, "oven"), [indexed]);
  // Otherwise it may index the next one first.
  await gateway.app.modules.find(({ name }) => name === "search")?.stop?.();
  const late = await sendMessage(alice, roomId, "the oven is cold");
  const { store } = gateway.app;
  const { write } = store;
  store.write = () => Promise.reject(new Fault("unavailable", "The database is unavailable"));
  try {
    const { status, body } = await alice.get("/v1/search?q=oven&mode=keyword");
    assert.deepEqual([status, body.degradedReason], [200, "index_incomplete"]);
    assert.deepEqual(body.items.map((item: { message: { id: string } }) => item.message.id), [indexed]);
  } finally {
    store.write = write;
  }
  assert.deepEqual((await find(alice, "oven")).sort(), [indexed, late].sort());
});

testSearch(
  "search finds parts of words, Chinese, Japanese and Korean of any length, Hebrew and Arabic without vowels, and identifiers",
  async (gateway) => {
    const { alice } = await createTrio(gateway);
    const roomId = await createRoom(alice);
    const zh = await sendMessage(alice, roomId, "今天我们讨论机器学习的部署计划");
    const ja = await sendMessage(alice, roomId, "会議は東京のｵﾌｨｽで行われます");
    const ko = await sendMessage(alice, roomId, "회의록을 공유했습니다");
    // As some systems write it, such as in names of files: each letter a character.
    const parts = await sendMessage(alice, roomId, "한국어 사전".normalize("NFD"));
    const he = await sendMessage(alice, roomId, "שָׁלוֹם לְכֻלָּם");
    const ar = await sendMessage(alice, roomId, "مُحَمَّد كتـــاب أحمد");
    const en = await sendMessage(alice, roomId, "The database_migration to v2.10 of user@example.com failed");
    for (
      const [query, id] of [
        ["机器学习", zh],
        ["部署", zh],
        ["我", zh],
        ["オフィス", ja],
        ["東京", ja],
        ["회의", ko],
        ["의록", ko],
        ["국어", parts],
        ["국어".normalize("NFD"), parts],
        ["사전", parts],
        ["שלום", he],
        ["שָׁלוֹם", he],
        ["محمد", ar],
        ["كِتَاب", ar],
        ["أحمد".normalize("NFD"), ar],
        ["migr", en],
        ["tabas", en],
        ["to", en],
        ["v2.10", en],
        ["user@example", en],
        ['"migration to"', en],
      ] as const
    ) {
      assert.deepEqual(await find(alice, query), [id], query);
    }
    assert.deepEqual(await find(alice, "学机"), []);
    assert.deepEqual(await find(alice, '"to migration"'), []);
    assert.deepEqual(await find(alice, "v2.1"), []);
    assert.deepEqual(await find(alice, "ai"), []);
  },
);

testSearch("search finds emoji: pictures, flags, keycaps, skin tones and families", async (gateway) => {
  const { alice } = await createTrio(gateway);
  const roomId = await createRoom(alice);
  const party = await sendMessage(alice, roomId, "emoji 👍 🦄 party");
  const glued = await sendMessage(alice, roomId, "done✅生日🎂快乐 thanks👍🏽!");
  const love = await sendMessage(alice, roomId, "I ❤️ the 👩‍👩‍👧 of 🏳️‍🌈");
  const flags = await sendMessage(alice, roomId, "🇦🇹🇩🇪 won 1️⃣0️⃣ to 2, #️⃣ one");
  for (
    const [query, ids] of [
      ["🦄", [party]],
      ["👍 party", [party]],
      ["👍", [party, glued]],
      ["👍🏽", [glued]],
      ["🏽", [glued]],
      ["done✅", [glued]],
      ["✅ done", [glued]],
      ["🎂快乐", [glued]],
      ["生日", [glued]],
      ['"emoji 👍 🦄"', [party]],
      ["emoji👍", [party]],
      ["❤", [love]],
      ["❤️", [love]],
      ["👩‍👩‍👧", [love]],
      ["👧", [love]],
      ["🏳️‍🌈", [love]],
      ["🇦🇹", [flags]],
      ["🇩🇪", [flags]],
      ["1️⃣", [flags]],
      ["#️⃣", [flags]],
      ["🇹🇩", []],
      ["🦄👍", []],
      ["👩‍👧‍👧", []],
      ["3️⃣", []],
      ["👎", []],
    ] as const
  ) {
    assert.deepEqual((await find(alice, query)).sort(), [...ids].sort(), query);
  }
  const [hit] = (await search(alice, { query: "🇩🇪 ❤", mode: "keyword" })).items;
  assert.equal(hit, undefined);
  const [shown] = (await search(alice, { query: "👩‍👩‍👧" })).items;
  const [[start, end]] = shown.highlights[0].ranges;
  assert.equal(shown.message.text.slice(start, end), "👩‍👩‍👧");
});

testSearch("search finds a private document for principals it is shared with, while it is", async (gateway) => {
  const { alice, bob, eve } = await createTrio(gateway);
  const documents = "/v1/collaboration/documents";
  const document = { title: "Diary", text: "the zebra sleeps" };
  const { id } = (await alice.post(documents, document)).body;
  const found = async (who: Caller, query = "zebra"): Promise<string[]> => {
    const { items } = await search(who, { query, filters: { types: ["message", "document"] } });
    return items.map((item: { document: { id: string } }) => item.document.id);
  };
  assert.deepEqual([await found(alice), await found(bob), await found(eve)], [[id], [], []]);
  const access = `${documents}/${id}/access`;
  assert.equal((await alice.put(`${access}/bob`, { role: "reader" })).status, 200);
  assert.deepEqual([await found(alice), await found(bob), await found(eve)], [[id], [id], []]);
  assert.equal((await alice.post("/v1/collaboration/documents/import", { markdown: "zebra of alice" })).status, 201);
  assert.deepEqual(await found(bob), [id]);
  assert.equal((await alice.put(`${access}/bob`, { role: "owner" })).status, 200);
  assert.equal((await alice.put(`${access}/eve`, { role: "editor" })).status, 200);
  assert.equal((await alice.patch(`${documents}/${id}`, { title: "Journal" })).status, 200);
  assert.deepEqual([await found(bob, "journal"), await found(eve, "journal")], [[id], [id]]);
  assert.equal((await bob.delete(`${access}/eve`)).status, 204);
  assert.deepEqual([await found(bob), await found(eve)], [[id], []]);
  const admin = await gateway.as("root", { role: "owner" });
  assert.equal((await admin.post("/v1/collaboration/search/reindex", { types: ["document"] })).status, 202);
  await gateway.runJobs();
  assert.deepEqual([await found(bob), await found(eve)], [[id], []]);
  // Its creator no longer finds it either, once removed by the remaining owner.
  assert.equal((await bob.delete(`${access}/alice`)).status, 204);
  assert.deepEqual([await found(bob), await found(alice)], [[id], [(await alice.get(documents)).body.items[0].id]]);
});

testSearch("search finds comments on documents for those who read the document now", async (gateway) => {
  const { alice, bob, eve } = await createTrio(gateway);
  const documents = "/v1/collaboration/documents";
  const found = async (who: Caller, query = "zebra"): Promise<string[]> => {
    const { items, totalEstimate } = await search(who, { query, filters: { types: ["comment"] } });
    assert.equal(totalEstimate, items.length);
    return items.map(({ comment }: { comment: { id: string } }) => comment.id);
  };
  const roomId = await createRoom(alice, { memberIds: ["bob"] });
  const elsewhere = await createRoom(alice, { memberIds: ["eve"] });
  const { id } = (await alice.post(documents, { roomId, title: "Plan", text: "x" })).body;
  const comments = `${documents}/${id}/comments`;
  const { id: root } = (await alice.post(comments, { text: "The zebra is late" })).body;
  const reply = (await bob.post(comments, { text: "My zebra, too", parentId: root })).body;
  const { items: [hit] } = await search(bob, { query: "late", filters: { types: ["comment"] } });
  assert.deepEqual(
    [hit.comment.documentTitle, hit.comment.roomId, hit.comment.authorId, hit.highlights],
    ["Plan", roomId, "alice", [{ field: "text", ranges: [[13, 17]] }]],
  );
  assert.deepEqual((await found(bob)).toSorted(), [root, reply.id].toSorted());
  assert.deepEqual(await found(eve), []);
  assert.equal((await bob.patch(`${comments}/${reply.id}`, { text: "My horse, too" })).status, 200);
  assert.deepEqual([await found(bob), await found(bob, "horse")], [[root], [reply.id]]);

  // In another room: at once for those who may not read it there, soon for those who may.
  assert.equal((await alice.patch(`${documents}/${id}`, { roomId: elsewhere })).status, 200);
  assert.deepEqual([await found(bob), await found(eve)], [[], []]);
  gateway.clock.advance(30_000);
  await gateway.runJobs();
  assert.deepEqual([await found(alice), await found(bob), await found(eve)], [[root], [], [root]]);
  assert.equal((await alice.delete(`${documents}/${id}`)).status, 204);
  assert.deepEqual(await found(eve), []);
  assert.equal((await alice.post(`${documents}/${id}/restore`)).status, 200);
  assert.deepEqual(await found(eve), [root]);
  assert.equal((await alice.delete(`${comments}/${root}`)).status, 204);
  assert.deepEqual([await found(eve), await found(eve, "horse")], [[], []]);

  const own = (await alice.post(documents, { title: "Diary", text: "x" })).body;
  const { id: secret } = (await alice.post(`${documents}/${own.id}/comments`, { text: "zebra" })).body;
  assert.deepEqual([await found(alice), await found(bob)], [[secret], []]);
  assert.equal((await alice.put(`${documents}/${own.id}/access/bob`, { role: "reader" })).status, 200);
  gateway.clock.advance(30_000);
  await gateway.runJobs();
  assert.deepEqual(await found(bob), [secret]);
  const admin = await gateway.as("root", { role: "owner" });
  assert.equal((await admin.post("/v1/collaboration/search/reindex", { types: ["comment"] })).status, 202);
  await gateway.runJobs();
  assert.deepEqual([await found(bob), await found(eve)], [[secret], []]);
  assert.equal((await alice.delete(`${documents}/${own.id}/access/bob`)).status, 204);
  assert.deepEqual([await found(alice), await found(bob)], [[secret], []]);
  const narrow = await gateway.as("alice", { scope: "search.read message.read" });
  const refused = await narrow.post("/v1/search", { query: "zebra", filters: { types: ["comment"] } });
  assert.equal(refused.status, 403);
});

testSearch("search finds an event outside of rooms for its attendees, while they are invited", async (gateway) => {
  const { alice, bob, eve } = await createTrio(gateway);
  const events = "/v1/collaboration/calendar/events";
  const { id } = (await alice.post(events, {
    title: "Surprise fireworks",
    start: { dateTime: "2026-03-02T10:00:00", timeZone: "UTC" },
    durationMinutes: 30,
    attendees: [{ principalId: "bob" }, { email: "x@example.com" }],
  })).body;
  const found = async (who: Caller): Promise<string[]> => {
    const { items } = await search(who, { query: "fireworks", filters: { types: ["event"] } });
    return items.map((item: { event: { id: string } }) => item.event.id);
  };
  assert.deepEqual([await found(alice), await found(bob), await found(eve)], [[id], [id], []]);
  const changed = await alice.patch(`${events}/${id}`, { attendees: [{ principalId: "eve" }] });
  assert.equal(changed.status, 200);
  const admin = await gateway.as("root", { role: "owner" });
  assert.equal((await admin.post("/v1/collaboration/search/reindex", { types: ["event"] })).status, 202);
  await gateway.runJobs();
  assert.deepEqual([await found(alice), await found(bob), await found(eve)], [[id], [], [id]]);
});

testSearch("search applies an edit and a deletion at once", async (gateway) => {
  const { alice } = await createTrio(gateway);
  const roomId = await createRoom(alice);
  const id = await sendMessage(alice, roomId, "the colour is magenta");
  assert.deepEqual(await find(alice, "magenta"), [id]);
  assert.equal((await alice.patch(`/v1/messages/${id}`, { text: "the colour is turquoise" })).status, 200);
  assert.deepEqual(await find(alice, "magenta"), []);
  assert.deepEqual(await find(alice, "turquoise"), [id]);
  assert.equal((await alice.delete(`/v1/messages/${id}`)).status, 204);
  assert.deepEqual(await find(alice, "turquoise"), []);
});

testSearch("search finds a message by the names of its files", async (gateway) => {
  const { alice } = await createTrio(gateway);
  const roomId = await createRoom(alice);
  const names = ["Budget 2027.xlsx", "Mittagsmenü.pdf"];
  const fileIds = await allEnded(names.map(async (name) => ok(await upload(gateway, alice, { name }, "content")).id));
  const { id } = ok(await alice.post("/v1/messages", { roomId, fileIds }));
  const { items } = await search(alice, { query: "mittagsmenu", mode: "keyword" });
  assert.deepEqual(items.map((item: { message: { id: string } }) => item.message.id), [id]);
  assert.deepEqual(items[0].highlights, [{ field: "files/1/name", ranges: [[0, 11]] }]);
  assert.deepEqual(await find(alice, "budget 2027"), [id]);
  ok(await alice.delete(`/v1/messages/${id}`));
  assert.deepEqual(await find(alice, "budget 2027"), []);
});

testSearch("search finds nothing for non-members, other tenants and members just removed", async (gateway) => {
  const { alice, bob, eve } = await createTrio(gateway);
  const mallory = await gateway.as("alice", { tenant: "other" });
  const roomId = await createRoom(alice, { memberIds: ["bob"] });
  const id = await sendMessage(alice, roomId, "the launch code is swordfish");
  assert.deepEqual(await find(bob, "swordfish"), [id]);
  for (const filters of [{}, { roomIds: [roomId] }, { senderIds: ["alice"] }]) {
    assert.deepEqual(await find(eve, "swordfish", filters), []);
    assert.deepEqual(await find(mallory, "swordfish", filters), []);
  }
  assert.equal((await alice.delete(`/v1/rooms/${roomId}/members/bob`)).status, 204);
  assert.deepEqual(await find(bob, "swordfish"), []);
  assert.deepEqual(await find(bob, "swordfish", { roomIds: [roomId] }), []);
});

testSearch(
  "search applies room permissions: public rooms, observers, guests, deleted rooms, hidden history",
  async (gateway) => {
    const { alice, bob, eve } = await createTrio(gateway);
    const open = await createRoom(alice, { visibility: "public", name: "Open" });
    const inOpen = await sendMessage(alice, open, "pineapple in the open");
    const guest = await gateway.as("gus", { role: "guest" });
    assert.deepEqual(await find(eve, "pineapple"), [inOpen]);
    assert.deepEqual(await find(guest, "pineapple"), []);

    const closed = await createRoom(alice, { name: "Closed" });
    const inClosed = await sendMessage(alice, closed, "pineapple in private");
    assert.equal((await alice.put(`/v1/rooms/${closed}/members/bob`, { role: "observer" })).status, 201);
    assert.deepEqual((await find(bob, "pineapple")).sort(), [inOpen, inClosed].sort());

    const young = await createRoom(alice, { name: "Young", historyVisibility: "joined" });
    const early = await sendMessage(alice, young, "papaya before");
    assert.equal((await alice.put(`/v1/rooms/${young}/members/bob`, {})).status, 201);
    const later = await sendMessage(alice, young, "papaya after");
    assert.deepEqual((await find(alice, "papaya")).sort(), [early, later].sort());
    const { items } = await search(bob, { query: "papaya", context: 5 });
    assert.deepEqual(items.map((item: { message: { id: string } }) => item.message.id), [later]);
    assert.deepEqual(items[0].context.before, []);
    const looked = await createRoom(alice, { name: "Window", historyVisibility: "joined", visibility: "public" });
    await sendMessage(alice, looked, "papaya behind glass");
    assert.deepEqual(await find(eve, "papaya"), []);

    assert.equal((await alice.delete(`/v1/rooms/${closed}`)).status, 204);
    assert.deepEqual(await find(alice, "pineapple"), [inOpen]);
  },
);

testSearch("search of an agent is limited to the permissions of its owner", async (gateway) => {
  const { alice, bob } = await createTrio(gateway);
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  assert.equal((await robo.get("/v1/collaboration/me")).status, 200);
  const shared = await createRoom(alice, { memberIds: ["robo"] });
  const id = await sendMessage(alice, shared, "guava for everybody");
  const foreign = await createRoom(bob, { memberIds: ["alice", "robo"] });
  assert.equal((await alice.delete(`/v1/rooms/${foreign}/members/me`)).status, 204);
  await sendMessage(bob, foreign, "guava for bob");
  const open = await createRoom(bob, { visibility: "public" });
  await sendMessage(bob, open, "guava in public");
  assert.deepEqual(await find(robo, "guava"), [id]);
});

testSearch("search filters narrow the results, and an empty list is refused", async (gateway) => {
  let { alice, bob } = await createTrio(gateway);
  const [one, two] = [await createRoom(alice, { memberIds: ["bob"] }), await createRoom(alice, { memberIds: ["bob"] })];
  const link = await sendMessage(alice, one, "lemon https://example.com/x");
  gateway.clock.advance(86_400_000);
  [alice, bob] = [await gateway.as("alice"), await gateway.as("bob")];
  const mention = await sendMessage(bob, two, "lemon for you", { mentions: { principalIds: ["alice"] } });
  const root = await sendMessage(bob, two, "lemon root", { type: "notice" });
  const reply = await sendMessage(alice, two, "lemon reply", { threadId: root });
  assert.ok((await alice.put(`/v1/messages/${link}/reactions/👍`)).status < 300);
  assert.ok((await alice.put(`/v1/messages/${mention}/pin`)).status < 300);
  const cases: [Record<string, unknown>, string[]][] = [
    [{ roomIds: [one] }, [link]],
    [{ senderIds: ["me"] }, [link, reply]],
    [{ excludeSenderIds: ["me"] }, [mention, root]],
    [{ threadIds: [root] }, [root, reply]],
    [{ messageTypes: ["notice"] }, [root]],
    [{ has: ["link"] }, [link]],
    [{ has: ["link", "file"] }, []],
    [{ has: ["reaction"] }, [link]],
    [{ has: ["reaction", "link"], pinned: true }, []],
    [{ pinned: true }, [mention]],
    [{ mentions: ["me"] }, [mention]],
    [{ to: "2026-03-01" }, [link]],
    [{ from: "2026-03-02", senderIds: ["alice"] }, [reply]],
    [{ from: "2026-03-01T12:00:00.000Z", to: "2026-03-01T12:00:00.000Z" }, [link]],
    [{ roomIds: ["room_unknown"] }, []],
  ];
  for (const [filters, expected] of cases) {
    assert.deepEqual((await find(alice, "lemon", filters)).sort(), expected.sort(), JSON.stringify(filters));
  }
  for (const filters of [{ roomIds: [] }, { senderIds: [] }, { types: [] }]) {
    assert.equal((await alice.post("/v1/search", { query: "lemon", filters })).status, 422);
  }
  assert.equal((await alice.get("/v1/search?q=lemon&roomId=")).status, 422);
  assert.deepEqual(
    (await completeSearch(() => alice.get(`/v1/search?q=lemon&roomId=${one}&roomId=${two}&has=link`))).items.length,
    1,
  );
});

testSearch("search pages by relevance and by time without duplicates or gaps", async (gateway) => {
  const { alice, bob } = await createTrio(gateway);
  const roomId = await createRoom(alice, { memberIds: ["bob"] });
  const ids: string[] = [];
  for (let at = 0; at < 25; at++) {
    if (at % 3 === 0) gateway.clock.advance(1);
    ids.push(await sendMessage(alice, roomId, at % 5 === 0 ? `melon melon ${at}` : `watermelons and more words ${at}`));
  }
  for (const sort of ["relevance", "recent"]) {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await search(alice, { query: "melon", sort, limit: 7, ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...page.items.map((item: { message: { id: string } }) => item.message.id));
      assert.equal(page.totalEstimate, 25);
      if (cursor === undefined) {
        assert.equal(
          (await bob.post("/v1/search", { query: "melon", sort, limit: 7, cursor: page.nextCursor })).status,
          400,
        );
        assert.equal((await alice.post("/v1/search", { query: "lemon", sort, cursor: page.nextCursor })).status, 400);
      }
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    assert.deepEqual(seen.toSorted(), ids.toSorted(), sort);
    if (sort === "recent") assert.equal(seen[0], ids[24]);
    else assert.ok(seen.slice(0, 5).every((id) => ids.indexOf(id) % 5 === 0), "whole words come first");
  }
});

testSearch("search treats hostile queries as text, and refuses too long ones", async (gateway) => {
  const { alice } = await createTrio(gateway);
  const roomId = await createRoom(alice);
  await sendMessage(alice, roomId, "plain text with AND OR NOT near words, 100% sure_thing");
  const hostile = [
    '"',
    '""',
    "'; drop table message; --",
    "AND OR NOT NEAR(",
    "* %% __ \\",
    "a* OR b",
    "tokens:abc",
    "(((((",
    "^plain -text +words",
    "{}[]!@#$%^&*()",
    "….。、！",
    "🥖🥖🥖",
    "\u202e\u200b\u0301",
    '"unclosed quote',
    "plain & text | words <-> here",
    "$1 ? :name",
    "a".repeat(500),
    "字".repeat(500),
    "a b ".repeat(8).trim(),
    "\\u0000",
  ];
  for (const query of hostile) {
    await search(alice, { query });
    assert.ok([200, 422].includes((await alice.get(`/v1/search?q=${encodeURIComponent(query)}`)).status), query);
  }
  assert.deepEqual(await find(alice, "….。、！"), []);
  assert.equal((await find(alice, "sure_thing")).length, 1);
  for (const query of ["a".repeat(501), "a b ".repeat(20), "ﷺ".repeat(100), "  ", ""]) {
    assert.equal((await alice.post("/v1/search", { query })).status, 422, query);
  }
  assert.equal((await alice.post("/v1/search", { query: "x", filters: { everything: true } })).status, 422);
  const words = Array.from({ length: 33 }, (_, at) => `w${at}`).join(" ");
  const refusals = [await alice.get(`/v1/search?q=${words}`), await alice.post("/v1/search", { query: words })];
  assert.deepEqual(refusals.map(({ body }) => body.errors[0].pointer), ["/q", "/query"]);
  assert.equal((await alice.get("/v1/search?q=x&tenantId=other")).status, 400);
});

testSearch("search responds to unavailable modes by keyword, as degraded", async (gateway) => {
  const { alice } = await createTrio(gateway);
  const id = await sendMessage(alice, await createRoom(alice), "kumquat");
  for (const mode of ["semantic", "hybrid"]) {
    const answer = await search(alice, { query: "kumquat", mode });
    assert.deepEqual([answer.mode, answer.degraded, answer.items[0].message.id], ["keyword", true, id]);
  }
});

testSearch(
  "search with a backlog too large to index in time is degraded",
  async (gateway) => {
    const { alice } = await createTrio(gateway);
    const roomId = await createRoom(alice);
    const id = await sendMessage(alice, roomId, "kumquat");
    const ask = async (): Promise<unknown[]> => {
      // A busy machine may not get to it in time.
      const { items, degraded } = await search(alice, { query: "kumquat" }, []);
      return [degraded, ...items.map((item: { message: { id: string } }) => item.message.id)];
    };
    assert.deepEqual(await find(alice, "kumquat"), [id]);
    // From here on only searches index.
    await gateway.app.modules.find(({ name }) => name === "search")?.stop?.();
    const event = { tenantId: "default", stream: `room:${roomId}`, type: "message.unpinned" };
    await gateway.app.store.write(async (tx) => {
      await tx.emit(...new Array(22_000).fill({ ...event, data: { roomId, messageId: id } }));
    });
    assert.deepEqual(await ask(), [true, id]);
    assert.deepEqual(await ask(), [true, id], "a search has begun to index what it could not have ended");
  },
);

Deno.test("search switched off responds with 404, stays in the API documents and is disabled in capabilities", async () => {
  await using gateway = await openGateway({ SVC_SEARCH: "off" });
  const admin = await gateway.as("root", { role: "owner" });
  for (
    const answer of [
      await admin.get("/v1/search?q=x"),
      await admin.post("/v1/search", { query: "x" }),
      await admin.post("/v1/collaboration/search/reindex"),
    ]
  ) {
    assert.deepEqual([answer.status, answer.body.code], [404, "search_not_configured"]);
  }
  // For every question and caller; a stranger gets no more than elsewhere.
  const narrow = await gateway.as("narrow", { scope: "room.read" });
  for (
    const answer of [
      await admin.get("/v1/search"),
      await admin.get("/v1/search?q=x&unknown=1&limit=many&cursor=none"),
      await admin.post("/v1/search", "{"),
      await admin.post("/v1/search", { query: 1, limit: -1 }),
      await admin.post("/v1/search", "query=x", { "content-type": "text/plain" }),
      await admin.post("/v1/collaboration/search/reindex", { types: ["nothing"] }, { "Idempotency-Key": "é" }),
      await narrow.get("/v1/search?limit=0"),
    ]
  ) {
    assert.deepEqual([answer.status, answer.body.code], [404, "search_not_configured"]);
  }
  assert.equal((await gateway.withToken(undefined).get("/v1/search?limit=0")).status, 401);
  assert.equal((await admin.get("/v1/collaboration/search/status")).body.enabled, false);
  assert.equal((await admin.get("/v1/collaboration/capabilities")).body.modules.search.enabled, false);
  const { paths } = (await admin.get("/openapi.json")).body;
  assert.deepEqual(Object.keys(paths["/v1/search"]).sort(), ["get", "post"]);
});

testSearch(
  "search.reindex rebuilds the index while messages arrive, runs once at a time, and notifies its requester",
  async (gateway) => {
    const { alice } = await createTrio(gateway);
    const admin = await gateway.as("root", { role: "owner" });
    const roomId = await createRoom(alice);
    const ids: string[] = [];
    for (let at = 0; at < 300; at++) ids.push(await sendMessage(alice, roomId, `papaya ${at}`));
    assert.equal((await find(alice, "papaya 299")).length, 1);
    assert.equal((await alice.post("/v1/collaboration/search/reindex")).status, 403);
    const job = gateway.app.modules.flatMap(({ jobs = [] }) => jobs).find(({ kind }) => kind === "search.reindex");
    assert.ok(job !== undefined);
    const { run } = job;
    const refused = Promise.withResolvers<void>();
    job.run = async (...call) => {
      await refused.promise;
      return await run(...call);
    };
    const started = await admin.post("/v1/collaboration/search/reindex");
    assert.deepEqual([started.status, started.body.state], [202, "running"]);
    const again = await admin.post("/v1/collaboration/search/reindex").finally(() => refused.resolve());
    assert.deepEqual([again.status, again.body.code], [409, "already_running"]);
    ids.push(await sendMessage(alice, roomId, "papaya while it runs"));
    assert.equal((await search(alice, { query: "papaya", sort: "recent", limit: 100 })).totalEstimate, 301);
    await gateway.app.jobs.whenIdle();
    const status = (await admin.get("/v1/collaboration/search/status")).body;
    assert.deepEqual([status.enabled, status.documents, status.lagMs, status.lastError], [true, 301, 0, null]);
    assert.equal((await search(alice, { query: "papaya", sort: "recent", limit: 100 })).totalEstimate, 301);
    assert.equal((await admin.post("/v1/collaboration/search/reindex", { types: ["message"] })).status, 202);
    await gateway.app.jobs.whenIdle();
  },
);

testSearch(
  "search.status finds the one lagging room among many empty ones",
  async (gateway) => {
    const { alice } = await createTrio(gateway);
    const admin = await gateway.as("root", { role: "owner" });
    for (let at = 0; at < 100; at++) await createRoom(alice);
    await sendMessage(alice, await createRoom(alice), "papaya");
    assert.equal((await find(alice, "papaya")).length, 1);
    gateway.clock.advance(5000);
    await until(async () => {
      // Indexing continues in the background, and so may be done again before the question.
      await gateway.app.store.write((tx) => tx.db.deleteFrom("search_cursor").execute());
      const { pendingRoomCount, lagMs } = (await admin.get("/v1/collaboration/search/status")).body;
      return pendingRoomCount === 1 && lagMs === 5000;
    });
  },
);
