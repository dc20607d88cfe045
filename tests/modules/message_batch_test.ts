// The queue behind message.send.
import assert from "node:assert/strict";
import { BatchQueue } from "@/modules/message/batch_queue.ts";

/** Sizes of the batches of a queue whose work takes 20 ms, when each of `clients` sends again 2 ms after its answer. */
async function batches(clients: number, patience: number): Promise<number[]> {
  const sizes: number[] = [];
  const queue = new BatchQueue<number, number>(async (items) => {
    sizes.push(items.length);
    await pause(20);
    return [...items];
  }, patience);
  const client = async (id: number): Promise<void> => {
    for (let sent = 0; sent < 3; sent++) {
      assert.equal(await queue.push(id), id);
      await pause(2);
    }
  };
  const first = Array.from({ length: clients }, (_, id) => client(id));
  // One that comes while the first batch runs has the next one wait, or start without the others.
  await pause(5);
  await Promise.all([...first, queue.push(clients)]);
  return sizes;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

Deno.test("under load a patient queue waits for those who were just answered", async () => {
  assert.deepEqual(await batches(100, 0.3), [100, 101, 100]);
  assert.deepEqual(await batches(100, 0), [100, 1, 100, 100]);
});

Deno.test("a queue without load does not wait, however patient it is", async () => {
  assert.deepEqual(await batches(10, 0.3), [10, 1, 10, 10]);
});
