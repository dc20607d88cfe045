// The replica of an open document: it closes its subscriptions, and is the same one for all editors.
import assert from "node:assert/strict";
import { Document, type WebSocketLike } from "@hocuspocus/server";
import { MemoryBus } from "@/adapters/bus_memory.ts";
import { DocumentReplica } from "@/modules/document/collaboration/document_replica.ts";
import type { DocumentModule } from "@/modules/document/mod.ts";
import { nextTick } from "@/core/clock.ts";
import type { Bus } from "@/ports/bus.ts";
import { Fault } from "@/core/fault.ts";
import { allEnded, until } from "../wait.ts";
import { authFrame } from "./document_editor.ts";
import { DocumentFixture } from "./document_fixture.ts";

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

Deno.test("an editor that opens a document at the moment when the last one leaves it receives what others write", async () => {
  await using fixture = await DocumentFixture.open();
  const { collaboration } = fixture.gateway.app.modules.find(({ name }) => name === "document") as DocumentModule;
  const token = fixture.as("member").token;

  /** A socket without a network, so that a test decides between which two microtasks it is closed. */
  async function openSocket(documentId: string, onAuthenticated: () => void) {
    const received: string[] = [];
    const socket: WebSocketLike = {
      readyState: WebSocket.OPEN,
      send: (data) => void received.push(new TextDecoder().decode(data as Uint8Array)),
      close: () => {},
    };
    const hooks = { onAuthenticated, allowFrame: () => true, isOriginAllowed: () => true };
    const editor = await collaboration.open(socket, new Request("http://gateway.test/"), hooks);
    editor.receive(authFrame(documentId, token).buffer);
    return { editor, received };
  }

  const isUpdated = await allEnded(Array.from({ length: 20 }, async (_, microtasks) => {
    const { id } = await fixture.create("");
    const last = await openSocket(id, () => {});
    await until(() => last.received.length > 0, "the document is open");
    const leave = (left: number): void =>
      left > 0 ? queueMicrotask(() => leave(left - 1)) : last.editor.onSocketClosed();
    const next = await openSocket(id, () => leave(microtasks));
    await until(() => next.received.length > 0, "it is open again");
    await fixture.edit(id, { op: "append", text: "written by another" });
    return () => next.received.some((frame) => frame.includes("written by another"));
  }));
  await until(() => isUpdated.every((check) => check()), "all editors received it");
});
