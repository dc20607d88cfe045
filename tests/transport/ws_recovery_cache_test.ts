// Cached pages of recoveries: read once, and only full pages are cached.
import assert from "node:assert/strict";
import type { StoredEvent } from "@/core/event/event.ts";
import type { EventLog } from "@/ports/store.ts";
import { RecoveryCache } from "@/transport/ws/recovery_cache.ts";

function logOf(head: number) {
  const reads: string[] = [];
  const log = {
    head,
    reads,
    failure: undefined as Error | undefined,
    read(tenantId: string, stream: string, after: number, limit: number): Promise<StoredEvent[]> {
      reads.push(`${tenantId}/${stream} ${after} ${limit}`);
      if (log.failure !== undefined) return Promise.reject(log.failure);
      const count = Math.max(0, Math.min(limit, log.head - after));
      return Promise.resolve(Array.from({ length: count }, (_, at) => ({
        tenantId,
        stream,
        epoch: "e",
        seq: after + at + 1,
        type: "note.created",
        json: `{"n":${after + at + 1}}`,
      })));
    },
  };
  return log;
}

const createCache = (log: Pick<EventLog, "read">): RecoveryCache => new RecoveryCache(log as EventLog);

Deno.test("a full page is read and encoded once per position", async () => {
  const log = logOf(100);
  const cache = createCache(log);
  const [one, two] = await Promise.all([cache.read("t", "room:1", 10, 20), cache.read("t", "room:1", 10, 20)]);
  assert.equal(log.reads.length, 1);
  assert.equal(one, two);
  const encoded = cache.encode(one);
  assert.equal(cache.encode(await cache.read("t", "room:1", 10, 20)), encoded);
  assert.equal(encoded.bytes, encoded.publications.length);
  assert.deepEqual(
    JSON.parse(`[${encoded.publications}]`).map(({ offset }: { offset: number }) => offset),
    one.map(({ seq }) => seq),
  );
});

Deno.test("pages are cached by stream, tenant, position and length", async () => {
  const log = logOf(100);
  const cache = createCache(log);
  await cache.read("t", "room:1", 10, 20);
  for (const [tenant, stream, after, limit] of [["u", "room:1", 10, 20], ["t", "room:2", 10, 20]] as const) {
    assert.deepEqual((await cache.read(tenant, stream, after, limit))[0]?.tenantId, tenant);
  }
  assert.equal((await cache.read("t", "room:1", 11, 20))[0]?.seq, 12);
  assert.equal((await cache.read("t", "room:1", 10, 21)).length, 21);
  assert.equal(log.reads.length, 5);
});

Deno.test("short and failed pages are not cached", async () => {
  const log = logOf(15);
  const cache = createCache(log);
  assert.equal((await cache.read("t", "room:1", 10, 20)).length, 5);
  log.head = 18;
  assert.equal((await cache.read("t", "room:1", 10, 20)).length, 8);
  log.failure = new Error("away");
  await assert.rejects(cache.read("t", "room:1", 0, 5), /away/);
  log.failure = undefined;
  assert.equal((await cache.read("t", "room:1", 0, 5)).length, 5);
});

Deno.test("the number of cached pages is bounded", async () => {
  const log = logOf(1000);
  const cache = createCache(log);
  for (let after = 0; after < 50; after++) await cache.read("t", "room:1", after, 5);
  log.reads.length = 0;
  await cache.read("t", "room:1", 0, 5);
  assert.equal(log.reads.length, 1);
});
