// The body of a request, however it arrives: all of it, in no more memory than it needs, and while others are served.
import assert from "node:assert/strict";
import { chargeTo } from "@/core/caller.ts";
import { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { Fault } from "@/core/fault.ts";
import { readBytes } from "@/core/http/request.ts";
import { enforceMinimumRate } from "@/modules/file/mod.ts";
import { countTicks } from "../wait.ts";

const PIECE_BYTES = 64 * 1024;
const tooLarge = () => new Fault("payload_too_large", "Too large");

type Sent = {
  request: Request;
  /** Room for each read. */
  rooms: number[];
  isCancelled: () => boolean;
};

/** A body as the runtime passes it on: each read takes what the next chunk has and there is room for. */
function send(body: Uint8Array, chunkBytes: number): Sent {
  const rooms: number[] = [];
  let [offset, isCancelled] = [0, false];
  const stream = new ReadableStream({
    type: "bytes",
    autoAllocateChunkSize: PIECE_BYTES,
    pull(controller) {
      const { byobRequest } = controller;
      const room = byobRequest?.view;
      assert.ok(byobRequest && room);
      rooms.push(room.byteLength);
      const chunk = body.subarray(offset, offset + Math.min(chunkBytes, room.byteLength));
      new Uint8Array(room.buffer, room.byteOffset, room.byteLength).set(chunk);
      offset += chunk.length;
      if (chunk.length === 0) controller.close();
      byobRequest.respond(chunk.length);
    },
    cancel: () => void (isCancelled = true),
  });
  return {
    request: new Request("http://gateway/", { method: "POST", body: stream }),
    rooms,
    isCancelled: () => isCancelled,
  };
}

function bytesOf(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, n) => n % 251);
}

Deno.test("readBytes takes chunks of one byte into one piece of memory", async () => {
  const body = bytesOf(1000);
  const { request, rooms } = send(body, 1);
  assert.deepEqual(new Uint8Array(await readBytes(request, body.length, tooLarge)), body);
  assert.deepEqual(rooms, Array.from({ length: body.length + 1 }, (_, n) => PIECE_BYTES - n));
});

Deno.test("readBytes serves others while it reads very many chunks, and charges their sender", async () => {
  const { request } = send(bytesOf(10_000), 1);
  const account = new CpuBudget({ percent: 10, now: () => 0 }).accountOfKey("alice");
  using ticks = countTicks();
  await readBytes(request, 10_000, tooLarge, { account });
  assert.ok(ticks.count > 30, `${ticks.count}`);
  assert.ok(account.consumedMs > 90, `${account.consumedMs}`);
});

Deno.test("uploads of many callers are read in turns, and their bytes are charged as what a disk takes for them", async () => {
  const budget = new CpuBudget({ percent: 10, now: () => 0 });
  const accounts = Array.from({ length: 20 }, (_, n) => budget.accountOfKey(`m${n}`));
  using ticks = countTicks();
  await Promise.all(accounts.map((account) =>
    chargeTo(account, async () => {
      const { body } = send(bytesOf(4 * PIECE_BYTES), PIECE_BYTES).request;
      assert.ok(body !== null);
      await Array.fromAsync(enforceMinimumRate(body));
    })
  ));
  for (const { consumedMs } of accounts) assert.ok(consumedMs > 4, `${consumedMs}`);
  assert.ok(ticks.count >= 10, `${ticks.count}`);
});

Deno.test("readBytes returns a body whole, whatever its chunks are", async () => {
  for (const length of [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 300_000]) {
    const body = bytesOf(length);
    for (const chunkBytes of [1000, 30_000, PIECE_BYTES, 100_000]) {
      const { request } = send(body, chunkBytes);
      assert.deepEqual(new Uint8Array(await readBytes(request, length, tooLarge)), body, `${length} by ${chunkBytes}`);
    }
    // A stream of chunks that exist already.
    const chunks = ReadableStream.from([body.subarray(0, 7), body.subarray(7)]);
    const request = new Request("http://gateway/", { method: "POST", body: chunks });
    assert.deepEqual(new Uint8Array(await readBytes(request, length, tooLarge)), body);
  }
});

Deno.test("readBytes reads no more than it may", async () => {
  const { request, rooms, isCancelled } = send(bytesOf(100), 10);
  await assert.rejects(readBytes(request, 25, tooLarge), { code: "payload_too_large" });
  assert.equal(rooms.length, 3);
  assert.ok(isCancelled());
});

Deno.test("readBytes waits for its turn once a body turns out to be large", async () => {
  const body = bytesOf(600_000);
  const { request, rooms } = send(body, PIECE_BYTES);
  const turn = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const onLarge = (): Promise<void> => {
    asked.resolve();
    return turn.promise;
  };
  const reading = readBytes(request, body.length, tooLarge, { onLarge });
  await asked.promise;
  const read = rooms.length;
  assert.equal(read, 5);
  turn.resolve();
  assert.deepEqual(new Uint8Array(await reading), body);
  assert.ok(rooms.length > read);
});

Deno.test("an upload in chunks of one byte is passed on in pieces, in no more memory than they need", async () => {
  const body = bytesOf(3000);
  const { request, rooms } = send(body, 1);
  assert.ok(request.body !== null);
  assert.deepEqual(await Array.fromAsync(enforceMinimumRate(request.body)), [body]);
  assert.deepEqual(rooms, Array.from({ length: body.length + 1 }, (_, n) => PIECE_BYTES - n));
});
