// The replica of an open document: it closes its subscriptions, and is the same one for all editors.
import assert from "node:assert/strict";
import { Document, type WebSocketLike } from "@hocuspocus/server";
import * as Y from "yjs";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { DocumentReplica } from "@/modules/document/collaboration/document_replica.ts";
import type { DocumentModule } from "@/modules/document/mod.ts";
import { nextTick } from "@/core/time/clock.ts";
import type { Bus } from "@/ports/bus.ts";
import { Fault } from "@/core/fault.ts";
import { allEnded, until } from "../../wait.ts";
import { authFrame, FRAME_TYPE, updateFrame } from "./document_editor.ts";
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

const SYNC_STEP_ONE = 0;

/** Opens a document on a socket without a network, so that a test decides between which two microtasks it is closed. */
async function openEditor(fixture: DocumentFixture, id: string, onAuthenticated = () => {}) {
  const { collaboration } = fixture.gateway.app.modules.find(({ name }) => name === "document") as DocumentModule;
  const received: string[] = [];
  let hasLeft = false;
  const socket: WebSocketLike = {
    get readyState() {
      return hasLeft ? WebSocket.CLOSED : WebSocket.OPEN;
    },
    send: (data) => void received.push(new TextDecoder().decode(data as Uint8Array)),
    close: () => {},
  };
  const hooks = { onAuthenticated, allowFrame: () => true, isOriginAllowed: () => true };
  const editor = await collaboration.open(socket, new Request("http://gateway.test/"), hooks);
  const send = (frame: Uint8Array<ArrayBuffer>): void => editor.receive(frame.buffer);
  send(authFrame(id, fixture.as("member").token));
  // Until then it has no document: its token is accepted before that is loaded.
  send(updateFrame(id, Y.encodeStateVector(new Y.Doc()), SYNC_STEP_ONE));
  const answer = `${id}${String.fromCharCode(FRAME_TYPE.sync)}`;
  await until(() => received.some((frame) => frame.includes(answer)), "the document is open");
  return {
    leave() {
      hasLeft = true;
      editor.onSocketClosed();
    },
    send,
    hasReceived: (words: string) => received.some((text) => text.includes(words)),
  };
}

/** Resolves when the engine has handled what happened. */
async function settle(): Promise<void> {
  for (let ticks = 0; ticks < 10; ticks++) await nextTick();
}

Deno.test("an editor that opens a document at the moment when the last one leaves it receives what others write", async () => {
  await using fixture = await DocumentFixture.open();
  const checks = await allEnded(Array.from({ length: 20 }, async (_, microtasks) => {
    const { id } = await fixture.create("");
    const last = await openEditor(fixture, id);
    const leave = (left: number): void => left > 0 ? queueMicrotask(() => leave(left - 1)) : last.leave();
    const next = await openEditor(fixture, id, () => leave(microtasks));
    await fixture.edit(id, { op: "append", text: "written by another" });
    return () => next.hasReceived("written by another");
  }));
  await until(() => checks.every((check) => check()), "all editors received it");
});

Deno.test("an editor that leaves while its update is written does not close the copy that others have opened since", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("");
  const [slow, last] = [await openEditor(fixture, id), await openEditor(fixture, id)];
  const { store } = fixture.gateway.app;
  const held = Promise.withResolvers<void>();
  const write = store.write;
  store.write = async (work) => {
    store.write = write;
    await held.promise;
    return await store.write(work);
  };
  const doc = new Y.Doc();
  doc.getText("content").insert(0, "slow ");
  slow.send(updateFrame(id, Y.encodeStateAsUpdate(doc)));
  slow.leave();
  last.leave();
  await settle();
  const next = await openEditor(fixture, id);
  held.resolve();
  await until(async () => await fixture.readText(id) === "slow ", "the update is written");
  await settle();
  const other = await openEditor(fixture, id);
  await fixture.edit(id, { op: "append", text: "written by another" });
  await until(() => [next, other].every((editor) => editor.hasReceived("written by another")), "both received it");
});
