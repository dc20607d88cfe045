// The queue behind message.send.
import assert from "node:assert/strict";
import type { Actor } from "@/core/actor.ts";
import { nextTurn } from "@/core/clock.ts";
import { fnv1a } from "@/core/hash.ts";
import { BatchQueue } from "@/modules/message/batch_queue.ts";
import { onPostgres } from "../engines.ts";
import { type Harness, openGateway } from "../harness.ts";
import { pause, until } from "../wait.ts";
import { ok } from "./team.ts";

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
  }, { patience });
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
  return sizes.slice(0, 2);
}

Deno.test("under load a patient queue waits for those who were just answered", async () => {
  assert.deepEqual(await batches(100, 0.6), [100, 101]);
  assert.deepEqual(await batches(100, 0), [100, 1]);
});

Deno.test("a queue without load does not wait, however patient it is", async () => {
  assert.deepEqual(await batches(5, 0.6), [5, 1]);
});

/** A queue of two shards, even and odd numbers, whose batches end when told, by the order in which they started. */
function halves(): { queue: BatchQueue<number, number>; started: number[][]; end: (batch: number) => Promise<void> } {
  const started: number[][] = [];
  const ends: (() => void)[] = [];
  const queue = new BatchQueue<number, number>(async (items) => {
    started.push([...items]);
    await new Promise<void>((resolve) => ends.push(resolve));
    return [...items];
  }, { shards: 2, shardOf: (item) => item % 2 });
  const end = async (batch: number): Promise<void> => {
    ends[batch]?.();
    await pause(5);
  };
  return { queue, started, end };
}

const numbers = (count: number, from = 0): number[] => Array.from({ length: count }, (_, n) => from + n);

Deno.test("little in several shards is one batch, and what comes during it the next", async () => {
  const { queue, started, end } = halves();
  const first = [1, 2, 3].map((item) => queue.push(item));
  await pause(5);
  const second = [4, 6, 5].map((item) => queue.push(item));
  await pause(5);
  assert.deepEqual(started, [[2, 1, 3]]);
  await end(0);
  assert.deepEqual(started, [[2, 1, 3], [4, 6, 5]]);
  await end(1);
  assert.deepEqual(await Promise.all([...first, ...second]), [1, 2, 3, 4, 6, 5]);
});

Deno.test("much in several shards is a batch for each, side by side, and none overtakes what is before it in its shard", async () => {
  const { queue, started, end } = halves();
  const all = numbers(200).map((item) => queue.push(item));
  await pause(5);
  const [even, odd] = [numbers(200).filter((item) => item % 2 === 0), numbers(200).filter((item) => item % 2 === 1)];
  assert.deepEqual(started, [even, odd]);
  const late = numbers(200, 200).map((item) => queue.push(item));
  await pause(5);
  assert.equal(started.length, 2);
  await end(1);
  assert.deepEqual(started[2], odd.map((item) => item + 200));
  await end(0);
  assert.deepEqual(started[3], even.map((item) => item + 200));
  await end(2);
  await end(3);
  assert.deepEqual(await Promise.all([...all, ...late]), numbers(400));
});

Deno.test("nobody waits for a batch of another shard that is held up", async () => {
  const { queue, started, end } = halves();
  const held = queue.push(2);
  await pause(5);
  const [same, other] = [queue.push(4), queue.push(1)];
  await until(() => started.length === 2, "the other shard's batch");
  assert.deepEqual(started, [[2], [1]]);
  await end(1);
  assert.equal(await other, 1);
  assert.equal(started.length, 2);
  await end(0);
  await end(2);
  assert.deepEqual(await Promise.all([held, same]), [2, 4]);
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
