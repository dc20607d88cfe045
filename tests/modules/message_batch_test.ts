// The queue behind message.send.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { BatchQueue } from "@/modules/message/batch_queue.ts";

/** Sizes of the first two batches when one item comes during the first, and the others come again 2 ms after their answers. */
async function batches(clients: number, patience: number): Promise<number[]> {
  const sizes: number[] = [];
  const queue = new BatchQueue<number, number>(async (items) => {
    sizes.push(items.length);
    await pause(20);
    return [...items];
  }, patience);
  const client = async (id: number): Promise<void> => {
    assert.equal(await queue.push(id), id);
    await pause(2);
    assert.equal(await queue.push(id), id);
  };
  const all = Array.from({ length: clients }, (_, id) => client(id));
  await pause(5);
  await Promise.all([...all, queue.push(clients)]);
  return sizes.slice(0, 2);
}

Deno.test("under load a patient queue waits for those who were just answered", async () => {
  assert.deepEqual(await batches(100, 0.3), [100, 101]);
  assert.deepEqual(await batches(100, 0), [100, 1]);
});

Deno.test("a queue without load does not wait, however patient it is", async () => {
  assert.deepEqual(await batches(10, 0.3), [10, 1]);
});
