// The replica of an open document closes its subscriptions.
import assert from "node:assert/strict";
import { Document } from "@hocuspocus/server";
import { MemoryBus } from "@/adapters/bus_memory.ts";
import { DocumentReplica } from "@/modules/document/collaboration/document_replica.ts";
import { nextTick } from "@/core/clock.ts";
import type { Bus } from "@/ports/bus.ts";
import { Fault } from "@/core/fault.ts";

for (const failing of ["document:", "room:"]) {
  Deno.test(`a replica whose subscription to ${failing}… fails leaves no other behind`, async () => {
    const open = new Set<string>();
    const bus: Bus = Object.assign(new MemoryBus(), {
      async subscribe(topic: string) {
        await nextTick();
        if (topic.includes(failing)) throw new Fault("unavailable", "The bus cannot be reached");
        open.add(topic);
        return { close: () => open.delete(topic) };
      },
    });
    const document = new Document("doc_1");
    const replica = new DocumentReplica(
      {
        bus,
        log: { updatesSince: () => Promise.resolve({ updates: [], revision: 1 }) },
        node: "node_1",
        onRoomEvent: () => {},
        verify: () => undefined,
      },
      document,
      { tenant_id: "acme", room_id: "room_1", kind: "text", fragment: null },
    );
    await assert.rejects(replica.load(), { code: "unavailable" });
    document.destroy();
    await nextTick();
    assert.deepEqual([...open], []);
  });
}
