// Pages that many recoveries share: read once, never wrong, and not kept where there may be more.
import assert from "node:assert/strict";
import type { StoredEvent } from "@/core/event.ts";
import type { EventLog } from "@/ports/store.ts";
import { Pages } from "@/transport/ws/pages.ts";

function logOf(head: number) {
  const asked: string[] = [];
  const log = {
    head,
    asked,
    failure: undefined as Error | undefined,
    read(tenantId: string, stream: string, after: number, limit: number): Promise<StoredEvent[]> {
      asked.push(`${tenantId}/${stream} ${after} ${limit}`);
      if (log.failure !== undefined) return Promise.reject(log.failure);
      const count = Math.max(0, Math.min(limit, log.head - after));
      return Promise.resolve(Array.from({ length: count }, (_, at) => ({
        tenantId,
        stream,
        epoch: "e",
        seq: after + at + 1,
        type: "note.made",
        json: `{"n":${after + at + 1}}`,
      })));
    },
  };
  return log;
}

const pagesOn = (log: Pick<EventLog, "read">): Pages => new Pages(log as EventLog);

Deno.test("a full page is read and encoded once for all who come back to the same place", async () => {
  const log = logOf(100);
  const pages = pagesOn(log);
  const [one, two] = await Promise.all([pages.read("t", "room:1", 10, 20), pages.read("t", "room:1", 10, 20)]);
  assert.equal(log.asked.length, 1);
  assert.equal(one, two);
  const encoded = pages.encoded(one);
  assert.equal(pages.encoded(await pages.read("t", "room:1", 10, 20)), encoded);
  assert.equal(encoded.bytes, encoded.publications.length);
  assert.deepEqual(
    JSON.parse(`[${encoded.publications}]`).map(({ offset }: { offset: number }) => offset),
    one.map(({ seq }) => seq),
  );
});

Deno.test("pages of other streams, tenants, places and lengths are other pages", async () => {
  const log = logOf(100);
  const pages = pagesOn(log);
  await pages.read("t", "room:1", 10, 20);
  for (const [tenant, stream, after, limit] of [["u", "room:1", 10, 20], ["t", "room:2", 10, 20]] as const) {
    assert.deepEqual((await pages.read(tenant, stream, after, limit))[0]?.tenantId, tenant);
  }
  assert.equal((await pages.read("t", "room:1", 11, 20))[0]?.seq, 12);
  assert.equal((await pages.read("t", "room:1", 10, 21)).length, 21);
  assert.equal(log.asked.length, 5);
});

Deno.test("a page that is short, or failed, is read again", async () => {
  const log = logOf(15);
  const pages = pagesOn(log);
  assert.equal((await pages.read("t", "room:1", 10, 20)).length, 5);
  log.head = 18;
  assert.equal((await pages.read("t", "room:1", 10, 20)).length, 8);
  log.failure = new Error("away");
  await assert.rejects(pages.read("t", "room:1", 0, 5), /away/);
  log.failure = undefined;
  assert.equal((await pages.read("t", "room:1", 0, 5)).length, 5);
});

Deno.test("no more than some pages are kept", async () => {
  const log = logOf(1000);
  const pages = pagesOn(log);
  for (let after = 0; after < 50; after++) await pages.read("t", "room:1", after, 5);
  log.asked.length = 0;
  await pages.read("t", "room:1", 0, 5);
  assert.equal(log.asked.length, 1);
});
