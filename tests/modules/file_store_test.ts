// The whole gateway with its files elsewhere: contents in an S3 store, rows in PostgreSQL.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Fault } from "@/core/fault.ts";
import { FileWriter } from "@/modules/file/mod.ts";
import type { Blobs } from "@/ports/blob.ts";
import { openS3Server, S3_KEYS } from "../conformance/s3.ts";
import { onPostgres } from "../engines.ts";
import { download, type FileGateway, FILES, filesIn, openFileGateway, upload } from "./file_rig.ts";
import { ok, people, refused, roomOf, say } from "./team.ts";

const MIB = 1024 * 1024;
const DAY_MS = 86_400_000;

Deno.test("files of a gateway with an S3 store live and die there, and nothing stays on its disk", async () => {
  const server = await openS3Server();
  try {
    await using rig = await openFileGateway({
      SVC_S3_ENDPOINT: server.endpoint,
      SVC_S3_BUCKET: S3_KEYS.bucket,
      SVC_S3_ACCESS_KEY_ID: S3_KEYS.accessKeyId,
      SVC_S3_SECRET_ACCESS_KEY: S3_KEYS.secretAccessKey,
    });
    const { gateway, folder } = rig;
    const { alice } = await people(gateway, "alice");
    const bytes = new Uint8Array(randomBytes(10 * MIB));
    const { id } = ok(await upload(gateway, alice, { name: "noise" }, bytes));
    assert.deepEqual((await download(gateway, alice, id)).bytes, bytes);
    const part = await download(gateway, alice, id, { Range: "bytes=9000000-9000009" });
    assert.deepEqual([part.status, part.bytes], [206, bytes.subarray(9_000_000, 9_000_010)]);
    const cut = ReadableStream.from([bytes.subarray(0, 1000)]);
    refused(await upload(gateway, alice, { name: "x" }, cut, { "content-length": "2000" }), 400, "bad_request");
    assert.deepEqual(await filesIn(folder), []);
    assert.equal((await contentsIn(server.folder)).length, 1);
    assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
    await gateway.runJobs();
    assert.deepEqual(await contentsIn(server.folder), []);
  } finally {
    await server.close();
  }
});

Deno.test("a store that failed after it had taken a content is told to forget it", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const contents = new Set<string>();
  const blobs: Blobs = {
    async put(key, content) {
      for await (const _ of content);
      contents.add(key);
      throw new Fault("unavailable", "No answer came");
    },
    get: () => Promise.resolve(undefined),
    delete: (key) => Promise.resolve(void contents.delete(key)),
  };
  const writer = new FileWriter({
    store: gateway.app.store,
    clock: gateway.clock,
    blobs,
    limits: { fileMaxBytes: MIB, tenantMaxBytes: MIB },
  });
  const owner = { tenantId: "default", principalId: "alice", kind: "human" } as const;
  const write = () => writer.write(owner, { name: "x", roomId: null }, ReadableStream.from([new Uint8Array(9)]));
  // The second finds room only if the first gave it back.
  for (let count = 0; count < 2; count++) await assert.rejects(write(), /No answer came/);
  assert.equal(contents.size, 0);
});

async function contentsIn(folder: string): Promise<string[]> {
  return (await filesIn(folder)).filter((name) => name.endsWith("_object"));
}

function onFiles(name: string, run: (rig: FileGateway) => Promise<void>): void {
  onPostgres(name, async (environment) => {
    await using rig = await openFileGateway({ ...environment, SVC_LIMIT_TENANT_FILE_BYTES: "5000" });
    await run(rig);
  });
}

onFiles("the quota holds when uploads race", async ({ gateway, folder }) => {
  const { alice } = await people(gateway, "alice");
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, at) => upload(gateway, alice, { name: `${at}` }, new Uint8Array(1000))),
  );
  assert.equal(answers.filter((answer) => answer.status === 201).length, 5);
  assert.equal((await filesIn(folder)).length, 5);
});

onFiles("a file that is shown and deleted at once is one or the other", async ({ gateway, folder }) => {
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  for (let round = 0; round < 25; round++) {
    const { id } = ok(await upload(gateway, alice, { name: "x" }, "x"));
    const [sent, gone] = await Promise.all([
      alice.post("/v1/messages", { roomId, fileIds: [id] }),
      alice.delete(`${FILES}/${id}`),
    ]);
    assert.equal(gone.status, 204);
    assert.ok([201, 422].includes(sent.status), JSON.stringify(sent.body));
    assert.equal((await bob.get(`${FILES}/${id}`)).status, sent.status === 201 ? 410 : 404);
  }
  await gateway.runJobs();
  assert.deepEqual(await filesIn(folder), []);
});

onFiles("files end with their message, with a day, and with their room", async ({ gateway, folder }) => {
  const admin = await gateway.as("root", { role: "admin" });
  ok(await admin.get("/v1/collaboration/me"));
  const roomId = await roomOf(admin, []);
  const put = async (): Promise<string> => ok(await upload(gateway, admin, { name: "x" }, new Uint8Array(1000))).id;
  const [withMessage, withDay, withRoom, avatar] = [await put(), await put(), await put(), await put()];
  ok(await admin.patch("/v1/collaboration/me", { avatarFileId: avatar }));
  const message = await say(admin, roomId, "one", { fileIds: [withMessage] });
  await say(admin, roomId, "two", { fileIds: [withRoom] });
  assert.equal((await admin.delete(`/v1/messages/${message.id}`)).status, 204);
  gateway.clock.advance(DAY_MS + DAY_MS / 12);
  await gateway.runJobs();
  const later = await gateway.as("root", { role: "admin" });
  for (const [id, status] of [[withMessage, 404], [withDay, 404], [withRoom, 200], [avatar, 200]] as const) {
    assert.equal((await later.get(`${FILES}/${id}`)).status, status, id);
  }
  assert.equal((await later.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
  await gateway.runJobs();
  assert.equal((await filesIn(folder)).length, 1);
  // What went gave its bytes back: four of five thousand are free again.
  for (let count = 0; count < 4; count++) ok(await upload(gateway, later, { name: "x" }, new Uint8Array(1000)));
});
