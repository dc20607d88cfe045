// Profile pictures: only an image of one's own becomes one, all who see the principal can read it, and none outlives its file.
import assert from "node:assert/strict";
import { HOUR_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { download, FILES, listFiles, pngHeader, upload, uploadPicture } from "../file/file_harness.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

const BASE = "/v1/collaboration";

async function pictureOf(who: Caller, id: string): Promise<string | null> {
  return ok(await who.get(`${BASE}/principals/${id}`)).avatarFileId;
}

/** A refusal without the id that it is about, and what differs each time. */
function comparableProblem({ status, body: { requestId: _id, ...body } }: ApiResponse, id: string): string {
  return `${status} ${JSON.stringify(body)}`.replaceAll(id, "<id>");
}

testOnEngines("me.update and hook.create accept no picture but an image of the caller", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const stranger = await gateway.as("alice", { tenant: "elsewhere" });
  const shown = await uploadPicture(gateway, bob);
  await sendMessage(bob, roomId, "look", { fileIds: [shown] });
  const bound = ok(await upload(gateway, alice, { name: "x.png", roomId }, pngHeader(8, 8))).id;
  const deleted = await uploadPicture(gateway, alice);
  ok(await alice.delete(`${FILES}/${deleted}`));
  const unusable = [shown, await uploadPicture(gateway, bob), await uploadPicture(gateway, stranger), bound, deleted];
  const text = ok(await upload(gateway, alice, { name: "me.txt" }, "me")).id;
  const huge = ok(await upload(gateway, alice, { name: "me.png" }, pngHeader(9000, 9000))).id;
  const { id: hook } = ok(await alice.post(`${BASE}/incoming`, { roomId, displayName: "CI" }));
  const calls: ((avatarFileId: string) => Promise<ApiResponse>)[] = [
    (avatarFileId) => alice.patch(`${BASE}/me`, { avatarFileId }),
    (avatarFileId) => alice.post(`${BASE}/incoming`, { roomId, displayName: "More", avatarFileId }),
    (avatarFileId) => alice.patch(`${BASE}/incoming/${hook}`, { avatarFileId }),
  ];
  for (const call of calls) {
    const none = await call("file_none");
    assertProblem(none, 422, "validation_failed");
    assert.deepEqual([none.body.errors[0].pointer, none.body.errors[0].code], ["/avatarFileId", "not_found"]);
    for (const id of unusable) {
      assert.equal(comparableProblem(await call(id), id), comparableProblem(none, "file_none"), id);
    }
    for (const id of [text, huge]) {
      const refused = await call(id);
      assertProblem(refused, 422, "validation_failed");
      assert.equal(refused.body.errors[0].code, "no_thumbnail");
    }
  }
  assert.equal(await pictureOf(bob, "alice"), null);
  assert.deepEqual(ok(await alice.get(`${BASE}/incoming?roomId=${roomId}`)).items.map(({ id }: { id: string }) => id), [
    hook,
  ]);
});

testOnEngines("all who see a principal can read its picture, for as long as it shows it", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob"]);
  const [own, ofHook] = [await uploadPicture(gateway, alice), await uploadPicture(gateway, alice)];
  ok(await alice.patch(`${BASE}/me`, { avatarFileId: own }));
  const hook = ok(await alice.post(`${BASE}/incoming`, { roomId, displayName: "CI", avatarFileId: ofHook }));
  assert.equal(hook.avatarFileId, ofHook);
  assert.equal(await pictureOf(bob, hook.principalId), ofHook);
  // Pictures stay, other uploads that nothing shows are deleted after a day.
  gateway.clock.advance(26 * HOUR_MS);
  await gateway.runJobs();
  const [bob2, carol2] = [await gateway.as("bob"), await gateway.as("carol")];
  for (const id of [own, ofHook]) assert.equal((await download(gateway, bob2, id)).status, 200);
  const linked = ok(await bob2.post(`${FILES}/links`, { ids: [own, ofHook], thumbnail: 64 })).items;
  assert.equal(linked.length, 2);
  // Carol sees Alice, but not the room of the hook.
  assert.equal((await download(gateway, carol2, own)).status, 200);
  assert.equal((await download(gateway, carol2, ofHook)).status, 404);
  assert.equal((await download(gateway, await gateway.as("eve", { tenant: "elsewhere" }), own)).status, 404);
  // Another one takes its place: the first is nobody's picture.
  const alice2 = await gateway.as("alice");
  ok(await alice2.patch(`${BASE}/me`, { avatarFileId: await uploadPicture(gateway, alice2) }));
  assert.equal((await download(gateway, bob2, own)).status, 404);
});

testOnEngines("a picture that is replaced or removed is deleted a day later", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const [first, second, ofHook, loose] = [
    await uploadPicture(gateway, alice),
    await uploadPicture(gateway, alice),
    await uploadPicture(gateway, alice),
    await uploadPicture(gateway, alice),
  ];
  ok(await alice.patch(`${BASE}/me`, { avatarFileId: first }));
  const hook = ok(await alice.post(`${BASE}/incoming`, { roomId, displayName: "CI", avatarFileId: ofHook }));
  ok(await alice.post("/v1/messages", { roomId, text: "shown", fileIds: [second] }));
  /** What is there of them, once that long has passed. */
  const remaining = async (hours: number): Promise<string[]> => {
    gateway.clock.advance(hours * HOUR_MS);
    await gateway.runJobs();
    return (await listFiles(gateway.folder)).map((path) => path.split("/").at(-1) ?? "").sort();
  };
  assert.deepEqual(await remaining(26), [first, second, ofHook].sort(), `without ${loose}`);
  const again = await gateway.as("alice");
  ok(await again.patch(`${BASE}/me`, { avatarFileId: second }));
  ok(await again.patch(`${BASE}/incoming/${hook.id}`, { avatarFileId: null }));
  assert.deepEqual(await remaining(23), [first, second, ofHook].sort());
  assert.deepEqual(await remaining(3), [second]);
});

testOnEngines("deleting a picture removes it from all who show it", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const avatarFileId = await uploadPicture(gateway, alice);
  ok(await alice.patch(`${BASE}/me`, { avatarFileId }));
  const hook = ok(await alice.post(`${BASE}/incoming`, { roomId, displayName: "CI", avatarFileId }));
  await gateway.runJobs();
  const { seq } = (await readRoomEvents(bob, roomId)).at(-1) ?? assert.fail();
  ok(await alice.delete(`${FILES}/${avatarFileId}`));
  for (const id of ["alice", hook.principalId]) assert.equal(await pictureOf(bob, id), null);
  assert.equal(ok(await alice.get(`${BASE}/incoming/${hook.id}`)).avatarFileId, null);
  await gateway.runJobs();
  const updated = (await readRoomEvents(bob, roomId, seq)).filter(({ type }) => type === "member.updated");
  assert.deepEqual(
    updated.map(({ data }) => [data.principalId, data.avatarFileId]).sort(),
    [["alice", null], [hook.principalId, null]].sort(),
  );
  // Other changes of the hook are possible as before.
  assert.equal(ok(await alice.patch(`${BASE}/incoming/${hook.id}`, { displayName: "Builds" })).avatarFileId, null);
});
