// What is deleted stays deleted: neither imported nor exported content is imported again once it was deleted here.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { createCallers, createRoom, ok } from "../fixtures.ts";
import { type Any, exportTenant, importArchive } from "./transfer_fixture.ts";

const prefix = "/v1/collaboration";
const start = { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" };

/** Ann's and bob's room, with one each of what leaves no trace when it is deleted: a comment, a relation, an event. */
async function createContent(gateway: Harness) {
  const { ann } = await createCallers(gateway, "ann", "bob");
  const roomId = await createRoom(ann, ["bob"]);
  const { id: documentId } = ok(await ann.post(`${prefix}/documents`, { roomId, title: "Plan", text: "one\n" }));
  const comments = `${prefix}/documents/${documentId}/comments`;
  const comment = `${comments}/${ok(await ann.post(comments, { text: "secret" })).id}`;
  const [one, two] = [
    ok(await ann.post(`${prefix}/tasks`, { roomId, title: "A" })).id,
    ok(await ann.post(`${prefix}/tasks`, { roomId, title: "B" })).id,
  ];
  const relation = `${prefix}/tasks/${one}/relations/blocks/${two}`;
  ok(await ann.put(relation));
  const { id: eventId } = ok(await ann.post(`${prefix}/calendar/events`, { roomId, title: "Call", start }));
  return { ann, roomId, comments, comment, relation, event: `${prefix}/calendar/events/${eventId}` };
}

testOnEngines(
  "imported content that was deleted or left since is not imported again, unless the whole room is deleted",
  async (engine) => {
    await using gateway = await openGateway();
    const boss = await gateway.as("boss", { role: "owner" });
    const { roomId, comment, relation, event } = await createContent(gateway);
    const out = await exportTenant(gateway, boss);
    await using other = await openGateway(engine);
    const newBoss = await other.as("boss", { role: "owner" });
    const bring = async (): Promise<Any> => {
      const { state, report, progress: { added } } = await importArchive(other, newBoss, "gateway", out);
      assert.deepEqual([state, report], ["done", []]);
      return [added.documents, added.comments, added.relations, added.events, added.members];
    };
    assert.deepEqual(await bring(), [1, 1, 1, 1, 2]);
    const newAnn = await other.as("ann", { role: "admin" });
    for (const path of [comment, relation, event]) ok(await newAnn.delete(path));
    ok(await newAnn.delete(`/v1/rooms/${roomId}/members/bob`));
    assert.deepEqual(await bring(), [0, 0, 0, 0, 0]);
    ok(await newAnn.delete(`/v1/rooms/${roomId}?purge=true`));
    await other.runJobs();
    assert.deepEqual(await bring(), [1, 1, 1, 1, 2]);
  },
);

testOnEngines(
  "exported content that was deleted or left since is not imported again either",
  async (engine) => {
    await using gateway = await openGateway(engine);
    const boss = await gateway.as("boss", { role: "owner" });
    const { ann, roomId, comments, comment, relation, event } = await createContent(gateway);
    ok(await ann.post(comments, { text: "kept" }));
    const { id: own } = ok(await ann.post(`${prefix}/calendar/events`, { title: "Dentist", start }));
    const { id: old } = ok(await ann.post(`${prefix}/documents`, { roomId, title: "Old", text: "old\n" }));
    const { id: done } = ok(await ann.post(`${prefix}/tasks`, { roomId, title: "C" }));
    const out = await exportTenant(gateway, boss);
    ok(await ann.delete(`${prefix}/documents/${old}`));
    ok(await ann.delete(`${prefix}/tasks/${done}`));
    for (const path of [comment, relation, event]) ok(await ann.delete(path));
    ok(await ann.delete(`${prefix}/calendar/events/${own}`));
    ok(await ann.delete(`/v1/rooms/${roomId}/members/bob`));
    // By then documents and tasks are purged.
    gateway.clock.advance(31 * 86_400_000);
    await gateway.runJobs();
    const later = await gateway.as("boss", { role: "owner" });
    const { state, report, progress: { added } } = await importArchive(gateway, later, "gateway", out);
    assert.deepEqual([state, report.map(({ code }: Any) => code)], ["done", ["unknown_task"]], "what happened to it");
    assert.ok(Object.values(added).every((count) => count === 0), JSON.stringify(added));
    // Elsewhere all of it is new.
    const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
    const { progress } = await importArchive(gateway, twin, "gateway", out);
    const { comments: remarks, relations, events, members } = progress.added;
    assert.deepEqual([remarks, relations, events, members], [2, 1, 2, 2]);
  },
);

testOnEngines("content imported under another id is not imported again under its own", async (engine) => {
  await using gateway = await openGateway(engine);
  const boss = await gateway.as("boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const roomId = await createRoom(ann, []);
  const { id } = ok(await ann.post(`${prefix}/documents`, { roomId, title: "Plan", text: "one\n" }));
  const comments = [
    ok(await ann.post(`${prefix}/documents/${id}/comments`, { text: "kept" })).id,
    ok(await ann.post(`${prefix}/documents/${id}/comments`, { text: "gone" })).id,
  ];
  const { id: event } = ok(await ann.post(`${prefix}/calendar/events`, { roomId, title: "Call", start }));
  const out = await exportTenant(gateway, boss);
  const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
  const bring = async (): Promise<Any> => {
    const { progress: { added } } = await importArchive(gateway, twin, "gateway", out);
    return [added.comments, added.events];
  };
  assert.deepEqual(await bring(), [2, 1]);
  const other = await gateway.as("ann", { tenant: "twin" });
  const [copy] = ok(await other.get(`${prefix}/documents?q=Plan`)).items;
  const path = `${prefix}/documents/${copy.id}/comments`;
  const gone = ok(await other.get(path)).items.find((one: Any) => one.text === "gone");
  ok(await other.delete(`${path}/${gone.id}`));
  const range = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";
  const [call] = ok(await other.get(`${prefix}/calendar/events?${range}`)).items;
  ok(await other.delete(`${prefix}/calendar/events/${call.id}`));
  for (const one of comments) ok(await ann.delete(`${prefix}/documents/${id}/comments/${one}`));
  ok(await ann.delete(`${prefix}/calendar/events/${event}`));
  assert.deepEqual(await bring(), [0, 0]);
  assert.deepEqual(ok(await other.get(path)).items.map((one: Any) => one.text), ["kept"]);
});
