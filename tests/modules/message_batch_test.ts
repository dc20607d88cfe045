// The queue behind message.send.
import assert from "node:assert/strict";
import postgres from "postgres";
import type { Actor } from "@/core/actor.ts";
import { nextTurn } from "@/core/clock.ts";
import { fnv1a } from "@/core/hash.ts";
import { BatchQueue } from "@/modules/message/batch_queue.ts";
import { onPostgres } from "../engines.ts";
import { type Answer, type Caller, type Harness, openGateway } from "../harness.ts";
import { pause, until } from "../wait.ts";
import { eventsOf, ok, people, roomOf } from "./team.ts";

/** PostgreSQL waits for so long before it looks for a ring. */
const DEADLOCK_MS = 1000;

/** Sizes of the first two batches when one item comes during the first, and the others come again right after their answers. */
async function batches(clients: number, patience: number): Promise<number[]> {
  const sizes: number[] = [];
  const late = Promise.withResolvers<void>();
  const queue = new BatchQueue<number, number>(async (items) => {
    sizes.push(items.length);
    await late.promise;
    await pause(20);
    return [...items];
  }, { keyOf: String, patience });
  const client = async (id: number): Promise<void> => {
    assert.equal(await queue.push(id), id);
    await nextTurn();
    assert.equal(await queue.push(id), id);
  };
  const all = Array.from({ length: clients }, (_, id) => client(id));
  while (sizes.length === 0) await nextTurn();
  const last = queue.push(clients);
  late.resolve();
  await Promise.all([...all, last]);
  // Until its rest is over.
  await pause(25);
  return sizes.slice(0, 2);
}

Deno.test("under load a patient queue waits for those who were just answered", async () => {
  assert.deepEqual(await batches(100, 0.6), [100, 101]);
  assert.deepEqual(await batches(100, 0), [100, 1]);
});

Deno.test("a queue without load does not wait, however patient it is", async () => {
  assert.deepEqual(await batches(5, 0.6), [5, 1]);
});

/** A queue of texts of two shards, by their first letter, whose batches end when told, by the order in which they started. */
function halves(): { queue: BatchQueue<string, string>; started: string[][]; end: (batch: number) => Promise<void> } {
  const started: string[][] = [];
  const ends: (() => void)[] = [];
  const queue = new BatchQueue<string, string>(async (items) => {
    started.push([...items]);
    await new Promise<void>((resolve) => ends.push(resolve));
    return [...items];
  }, { shards: 2, keyOf: (item) => item[0] ?? "" });
  const end = async (batch: number): Promise<void> => {
    ends[batch]?.();
    await pause(5);
  };
  return { queue, started, end };
}

/** Texts `a 0`, `a 1` and so on. */
const many = (key: string, count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, n) => `${key} ${from + n}`);

Deno.test("the keys of these tests are of both shards", () => {
  assert.deepEqual([..."acbd"].map((key) => (fnv1a(key) >>> 0) % 2), [0, 0, 1, 1]);
});

Deno.test("little in several shards is one batch, and what comes during it the next", async () => {
  const { queue, started, end } = halves();
  const [first, second] = [["b1", "a1", "b2"], ["a2", "b3", "a3"]];
  const answers = first.map((item) => queue.push(item));
  await pause(5);
  answers.push(...second.map((item) => queue.push(item)));
  await pause(5);
  assert.deepEqual(started, [["a1", "b1", "b2"]]);
  await end(0);
  assert.deepEqual(started, [["a1", "b1", "b2"], ["a2", "a3", "b3"]]);
  await end(1);
  assert.deepEqual(await Promise.all(answers), [...first, ...second]);
});

Deno.test("much in several shards is a batch for each, side by side, and nothing overtakes within a shard", async () => {
  const { queue, started, end } = halves();
  const push = (...items: string[]): Promise<string>[] => items.map((item) => queue.push(item));
  const answers = push(...many("a", 100), ...many("b", 100));
  await pause(5);
  assert.deepEqual(started, [many("a", 100), many("b", 100)]);
  answers.push(...push(...many("a", 100, 100), ...many("b", 100, 100)));
  await pause(5);
  assert.equal(started.length, 2);
  await end(1);
  assert.deepEqual(started[2], many("b", 100, 100));
  await end(0);
  assert.deepEqual(started[3], many("a", 100, 100));
  await end(2);
  await end(3);
  assert.deepEqual(await Promise.all(answers), [
    ...started[0] ?? [],
    ...started[1] ?? [],
    ...many("a", 100, 100),
    ...many("b", 100, 100),
  ]);
});

Deno.test("who is held up keeps nobody waiting but those of the same key, and these in their order", async () => {
  const { queue, started, end } = halves();
  const answers = ["a1", "b1"].map((item) => queue.push(item));
  await pause(5);
  answers.push(...["a2", "c1", "b2", "d1", "a3"].map((item) => queue.push(item)));
  await until(() => started.length === 2, "a batch beside the one that is held up");
  assert.deepEqual(started, [["a1", "b1"], ["c1", "d1"]]);
  answers.push(...["a4", "d2"].map((item) => queue.push(item)));
  await end(1);
  assert.deepEqual(started[2], ["d2"]);
  await end(0);
  await end(2);
  assert.deepEqual(started[3], ["a2", "a3", "a4", "b2"]);
  await end(3);
  assert.deepEqual(await Promise.all(answers), ["a1", "b1", "a2", "c1", "b2", "d1", "a3", "a4", "d2"]);
});

onPostgres(
  "two nodes that send for several tenants at once do not wait for each other in a ring",
  async (environment) => {
    await using one = await openGateway(environment);
    await using two = await openGateway(environment);
    const send = one.app.operations.get("message.send");
    assert.ok(send);
    /** Rooms of a tenant that share a queue with those of the other. */
    const open = async (tenantId: string): Promise<{ actor: Actor; roomIds: string[] }> => {
      const alice = await one.as("alice", { tenant: tenantId });
      const roomIds: string[] = [];
      while (roomIds.length < 5) {
        const { id } = ok(await alice.post("/v1/rooms", { name: "x" }));
        if (fnv1a(id) % 2 === 0) roomIds.push(id);
      }
      const [principalId, kind, role, displayName, ownerId] = ["alice", "human", "member", "Alice", null] as const;
      const token = { scopes: undefined, tokenId: undefined, expiresAt: undefined };
      return { actor: { tenantId, principalId, kind, role, displayName, ownerId, ...token }, roomIds };
    };
    const [a, b] = [await open("a"), await open("b")];
    const sendAll = (gateway: Harness, { actor, roomIds }: typeof a): Promise<unknown>[] => {
      const { access, name: operation, input, run } = gateway.app.operations.get("message.send") ?? send;
      const context = { actor, requestId: "test", access, operation, isRead: false };
      return roomIds.map((roomId) => run(context, input.parse({ roomId, text: "x" })));
    };
    let longest = 0;
    for (let round = 0; round < 100; round++) {
      const startedAt = performance.now();
      await Promise.all([...sendAll(one, a), ...sendAll(one, b), ...sendAll(two, b), ...sendAll(two, a)]);
      longest = Math.max(longest, performance.now() - startedAt);
    }
    assert.ok(longest < DEADLOCK_MS, `${longest} ms`);
  },
);

onPostgres(
  "what another node holds keeps sends to that room waiting, in their order, and to no other",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const alice = await gateway.as("alice");
    const [held = "", ...others] = await Promise.all(Array.from({ length: 7 }, () => roomOf(alice, [])));
    const send = (roomId: string): Promise<Answer> => alice.post("/v1/messages", { roomId, text: "x" });
    const node = postgres(environment["SVC_DATABASE_URL"] ?? "", { max: 1, onnotice: () => {} });
    try {
      const { waiting } = await node.begin(async (sql) => {
        await sql`select from stream where name = ${`room:${held}`} for update`;
        const first = send(held);
        await pause(50);
        const waiting = [first, send(held), send(held)];
        const statuses: number[] = [];
        for (const roomId of [...others, ...others]) void send(roomId).then(({ status }) => statuses.push(status));
        await until(() => statuses.length === 2 * others.length, "the answers of the other rooms");
        assert.deepEqual(new Set(statuses), new Set([201]));
        return { waiting };
      });
      const seqs = (await Promise.all(waiting)).map((answer) => ok(answer).seq);
      assert.deepEqual(seqs, seqs.toSorted((a, b) => a - b));
    } finally {
      await node.end();
    }
  },
);

onPostgres("what is refused, repeated or for no room of theirs leaves no gap in the line", async (environment) => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" }));
  const send = (who: Caller, more: Record<string, unknown> = {}): Promise<Answer> =>
    who.post("/v1/messages", { roomId, text: "x", ...more });
  for (let round = 0; round < 5; round++) {
    const answers = await Promise.all([
      send(bob),
      send(alice, { clientMessageId: `same ${round}` }),
      send(alice, { replyToId: "msg_none" }),
      send(alice, { roomId: "room_none" }),
      send(alice),
      send(alice, { clientMessageId: `same ${round}` }),
      send(bob),
      send(alice),
      send(alice, { replyToId: "msg_none" }),
    ]);
    assert.deepEqual(answers.map(({ status }) => status), [403, 201, 422, 404, 201, 200, 403, 201, 422]);
    const seqs = (await eventsOf(alice, roomId)).map(({ seq }) => seq);
    assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, n) => n + 1));
  }
});
