// Facts with an embedding model: found by meaning, with the same rights, and deleted with their vectors.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { completeSearch, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { inRoom, ITEMS, remember } from "./memory_fixture.ts";
import { countVectors, embedAll, openVectorGateway, search } from "../vector/vector_fixture.ts";

testOnEngines(
  "facts are recalled with vectors, superseded and erased ones never, and their vectors are deleted",
  async (environment) => {
    await using fixture = await openVectorGateway(environment);
    const { gateway } = fixture;
    const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
    const boss = await createCaller(gateway, "boss", { role: "admin" });
    const roomId = await createRoom(alice, ["bob", "boss"]);
    const message = await sendMessage(alice, roomId, "source");
    const old = await remember(alice, inRoom(roomId), "The server room is on the first floor");
    const fact = await remember(alice, inRoom(roomId), "The server room is on the second floor", {
      supersedes: old.id,
    });
    const sourced = await remember(boss, { type: "tenant" }, "The server room key is with Nina", {
      sourceMessageIds: [message.id],
    });
    const own = await remember(eve, { type: "principal" }, "The server room is cold");
    await embedAll(gateway, alice);
    assert.ok(await countVectors(gateway, fact.id) > 0);
    assert.equal(await countVectors(gateway, old.id), 0);
    const found = async (who: typeof alice, mode?: string): Promise<string[]> => {
      const query = "where is the server room";
      const body = mode === undefined
        ? await completeSearch(() => who.post("/v1/collaboration/memory/search", { query }))
        : await search(who, query, { mode, filters: { types: ["memory"] } });
      assert.equal(body.degraded, false, JSON.stringify(body));
      return body.items.map(({ memory }: { memory: { id: string } }) => memory.id).sort();
    };
    for (const mode of [undefined, "semantic", "hybrid"]) {
      assert.deepEqual(await found(bob, mode), [fact.id, sourced.id].sort(), String(mode));
      assert.deepEqual(await found(eve, mode), [own.id], String(mode));
    }
    ok(await alice.delete(`/v1/messages/${message.id}`));
    assert.deepEqual(await found(bob, "semantic"), [fact.id], "before any job has run");
    ok(await alice.delete(`${ITEMS}/${fact.id}`));
    await gateway.runJobs();
    for (const id of [sourced.id, fact.id]) assert.equal(await countVectors(gateway, id), 0);
    assert.deepEqual(await found(bob), []);
  },
);
