// The batch queue of message.send.
import assert from "node:assert/strict";
import type { Actor } from "@/core/actor.ts";
import { chargeTo, currentAccount } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { nextTick } from "@/core/time/clock.ts";
import { fnv1a } from "@/core/text/hash.ts";
import { BatchQueue } from "@/modules/message/batch_queue.ts";
import { testOnPostgres } from "../../engines.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";
import { eventually, pause, until } from "../../wait.ts";
import { createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";
import { connectNode } from "../postgres_node.ts";
import { withAdminConnection } from "../../temporary_database.ts";

/** PostgreSQL waits this long before it checks for a deadlock. */

/** Sizes of the first two batches, with one item arriving during the first and the others repeated after their results. */
async function measureBatches(clients: number, gatherRatio: number): Promise<number[]> {
  const sizes: number[] = [];
  const late = Promise.withResolvers<void>();
  const queue = new BatchQueue<number, number>(async (items) => {
    sizes.push(items.length);
    await late.promise;
    await pause(20);
    return [...items];
  }, { keyOf: String, gatherRatio });
  const client = async (id: number): Promise<void> => {
    assert.equal(await queue.push(id), id);
    await nextTick();
    assert.equal(await queue.push(id), id);
  };
  const all = Array.from({ length: clients }, (_, id) => client(id));
  while (sizes.length === 0) await nextTick();
  const last = queue.push(clients);
  late.resolve();
  await Promise.all([...all, last]);
  // Until its pause is over.
  await pause(25);
  return sizes.slice(0, 2);
}

Deno.test("BatchQueue with a gatherRatio waits under load for clients that just got results", async () => {
  // Again, where the machine stops for longer than the queue waits.
  await eventually(async () => assert.deepEqual(await measureBatches(100, 0.6), [100, 101]));
  assert.deepEqual(await measureBatches(100, 0), [100, 1]);
});

Deno.test("BatchQueue does not wait without load, whatever its gatherRatio", async () => {
  assert.deepEqual(await measureBatches(5, 0.6), [5, 1]);
});

Deno.test("a batch of BatchQueue is charged to one of those who sent its items, in turn", async () => {
  const budget = new CpuBudget({ percent: 10 });
  const payers: string[] = [];
  const queue = new BatchQueue<number, number>(async (items) => {
    await nextTick();
    payers.push(currentAccount()?.key ?? "nobody");
    return [...items];
  }, { keyOf: String });
  const push = (who: string, id: number) => chargeTo(budget.accountOfKey(who), () => queue.push(id));
  for (let n = 0; n < 10; n++) await Promise.all([push("first", 0), ...[1, 2, 3, 4].map((id) => push("many", id))]);
  assert.deepEqual(payers.filter((payer) => payer === "first").length, 2, payers.join());
});

/** More ticks of the event loop than a batch needs to start or to end. */
async function ticks(): Promise<void> {
  for (let n = 0; n < 10; n++) await nextTick();
}

/** A queue with two shards, by the first letter of the texts; the test ends its batches, in the order of their start. */
function createShardedQueue(): {
  queue: BatchQueue<string, string>;
  started: string[][];
  end: (batch: number) => Promise<void>;
} {
  const started: string[][] = [];
  const ends: (() => void)[] = [];
  const queue = new BatchQueue<string, string>(async (items) => {
    started.push([...items]);
    await new Promise<void>((resolve) => ends.push(resolve));
    return [...items];
  }, { shards: 2, keyOf: (item) => item[0] ?? "" });
  const end = async (batch: number): Promise<void> => {
    ends[batch]?.();
    await ticks();
  };
  return { queue, started, end };
}

/** Texts `a 0`, `a 1` and so on. */
const many = (key: string, count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, n) => `${key} ${from + n}`);

Deno.test("the keys of these tests belong to both shards", () => {
  assert.deepEqual([..."acbd"].map((key) => (fnv1a(key) >>> 0) % 2), [0, 0, 1, 1]);
});

Deno.test("BatchQueue combines a few items of several shards into one batch, and items arriving meanwhile into the next", async () => {
  const { queue, started, end } = createShardedQueue();
  const [first, second] = [["b1", "a1", "b2"], ["a2", "b3", "a3"]];
  const answers = first.map((item) => queue.push(item));
  await ticks();
  answers.push(...second.map((item) => queue.push(item)));
  await ticks();
  assert.deepEqual(started, [["a1", "b1", "b2"]]);
  await end(0);
  assert.deepEqual(started, [["a1", "b1", "b2"], ["a2", "a3", "b3"]]);
  await end(1);
  assert.deepEqual(await Promise.all(answers), [...first, ...second]);
});

Deno.test("BatchQueue runs a batch for each shard concurrently under load, in order within a shard", async () => {
  const { queue, started, end } = createShardedQueue();
  const push = (...items: string[]): Promise<string>[] => items.map((item) => queue.push(item));
  const answers = push(...many("a", 100), ...many("b", 100));
  await ticks();
  assert.deepEqual(started, [many("a", 100), many("b", 100)]);
  answers.push(...push(...many("a", 100, 100), ...many("b", 100, 100)));
  await ticks();
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

Deno.test("a blocked batch of BatchQueue delays only items of the same keys, and these stay in order", async () => {
  const { queue, started, end } = createShardedQueue();
  const answers = ["a1", "b1"].map((item) => queue.push(item));
  await ticks();
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

Deno.test("BatchQueue leaves heavy items and what follows them in their keys to the next batch, and no others", async () => {
  const batches: string[][] = [];
  const weightOf = (item: string): number => item.endsWith("heavy") ? 60 : 0;
  const queue = new BatchQueue<string, string>(async (items) => {
    batches.push([...items]);
    await nextTick();
    return [...items];
  }, { keyOf: (item) => item[0] ?? "", weightOf, weightMax: 100 });
  const items = ["a heavy", "b heavy", "b", "a", "c", "d heavy", "b heavy"];
  assert.deepEqual(await Promise.all(items.map((item) => queue.push(item))), items);
  assert.deepEqual(batches, [["a heavy", "a", "c"], ["b heavy", "b"], ["d heavy"], ["b heavy"]]);
});

testOnPostgres(
  "two nodes that send for several tenants concurrently do not deadlock",
  async (environment) => {
    const before = await countDeadlocks(environment);
    {
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
        const context = { actor, requestId: "test", access, operation, isReadOnly: false };
        return roomIds.map((roomId) => run(context, input.parse({ roomId, text: "x" })));
      };
      for (let round = 0; round < 100; round++) {
        await Promise.all([...sendAll(one, a), ...sendAll(one, b), ...sendAll(two, b), ...sendAll(two, a)]);
      }
    }
    // Sessions have counted what they met when they ended.
    assert.equal(await countDeadlocks(environment), before);
  },
);

/** Deadlocks in the database since it was made, which earlier tests used as well. */
async function countDeadlocks(environment: Record<string, string>): Promise<number> {
  let count = NaN;
  await withAdminConnection(environment["SVC_DATABASE_URL"] ?? "", async (admin) => {
    const [row] = await admin`select deadlocks from pg_stat_database where datname = current_database()`;
    count = Number(row?.["deadlocks"]);
  });
  return count;
}

testOnPostgres(
  "a room locked by another node delays only sends to that room, in order",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const alice = await gateway.as("alice");
    const [held = "", ...others] = await Promise.all(Array.from({ length: 7 }, () => createRoom(alice, [])));
    const send = (roomId: string): Promise<ApiResponse> => alice.post("/v1/messages", { roomId, text: "x" });
    await using node = connectNode(environment);
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
  },
);

testOnPostgres(
  "message.send leaves no gap in the stream for refused, repeated and unauthorized messages",
  async (environment) => {
    await using gateway = await openGateway({ SVC_RATE_LIMIT: "off", ...environment });
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" }));
    const send = (who: Caller, more: Record<string, unknown> = {}): Promise<ApiResponse> =>
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
      const seqs = (await readRoomEvents(alice, roomId)).map(({ seq }) => seq);
      assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, n) => n + 1));
    }
  },
);
