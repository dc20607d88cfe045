// The queue behind message.send.
import assert from "node:assert/strict";
import type { Actor } from "@/core/actor.ts";
import { nextTurn } from "@/core/clock.ts";
import { fnv1a } from "@/core/hash.ts";
import { BatchQueue } from "@/modules/message/batch_queue.ts";
import { onPostgres } from "../engines.ts";
import { type Harness, openGateway } from "../harness.ts";
import { pause } from "../wait.ts";
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
  }, patience);
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
  assert.deepEqual(await batches(100, 0.3), [100, 101]);
  assert.deepEqual(await batches(100, 0), [100, 1]);
});

Deno.test("a queue without load does not wait, however patient it is", async () => {
  assert.deepEqual(await batches(10, 0.3), [10, 1]);
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
