// The gateway with external file storage: contents in an S3 store, rows in PostgreSQL.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { DiskBlobs } from "@/adapters/blob/disk.ts";
import { Fault } from "@/core/fault.ts";
import { DAY_MS } from "@/core/time/clock.ts";
import { FileWriter } from "@/modules/file/writer.ts";
import type { Blobs } from "@/ports/blob.ts";
import { s3Settings, startS3Server } from "../../conformance/s3.ts";
import { testOnPostgres } from "../../engines.ts";
import { captureLog } from "../../log_capture.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { download, FILES, listFiles, upload, uploadPicture } from "./file_harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const MIB = 1024 * 1024;

Deno.test("files of a gateway with an S3 store are stored and deleted there, and nothing on its disk", async () => {
  const server = await startS3Server();
  try {
    await using gateway = await openGateway(s3Settings(server.endpoint));
    const { alice } = await createCallers(gateway, "alice");
    const bytes = new Uint8Array(randomBytes(10 * MIB));
    const { id } = ok(await upload(gateway, alice, { name: "noise" }, bytes));
    assert.deepEqual((await download(gateway, alice, id)).bytes, bytes);
    const part = await download(gateway, alice, id, { Range: "bytes=9000000-9000009" });
    assert.deepEqual([part.status, part.bytes], [206, bytes.subarray(9_000_000, 9_000_010)]);
    const cut = ReadableStream.from([bytes.subarray(0, 1000)]);
    assertProblem(await upload(gateway, alice, { name: "x" }, cut, { "content-length": "2000" }), 400, "bad_request");
    assert.deepEqual(await listFiles(gateway.folder), []);
    assert.equal((await contentsIn(server.folder)).length, 1);
    assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
    await gateway.runJobs();
    assert.deepEqual(await contentsIn(server.folder), []);
  } finally {
    await server.close();
  }
});

Deno.test("the content is deleted from a blob store that failed after storing it", async () => {
  await using gateway = await openGateway();
  const contents = new Set<string>();
  const blobs: Blobs = {
    async put(key, content) {
      for await (const _ of content);
      contents.add(key);
      throw new Fault("unavailable", "No response received");
    },
    get: () => Promise.resolve(undefined),
    delete: (key) => Promise.resolve(void contents.delete(key)),
  };
  const writer = new FileWriter({
    store: gateway.app.store,
    clock: gateway.clock,
    blobs,
    limits: { fileMaxBytes: MIB, tenantMaxBytes: MIB, memberMaxBytes: MIB },
  });
  const owner = { tenantId: "default", principalId: "alice", kind: "human" } as const;
  const write = () => writer.write(owner, { name: "x", roomId: null }, ReadableStream.from([new Uint8Array(9)]));
  // The second fits into the quota only if the first released it.
  for (let count = 0; count < 2; count++) await assert.rejects(write(), /No response received/);
  assert.equal(contents.size, 0);
});

Deno.test("a job deletes content that a failed upload could not delete, and its quota is released", async () => {
  await using gateway = await openGateway();
  const disk = new DiskBlobs(`${gateway.folder}/files`);
  const blobs: Blobs = {
    async put(key, content) {
      await disk.put(key, content);
      throw new Fault("unavailable", "No answer came");
    },
    get: (key) => disk.get(key),
    delete: () => Promise.reject(new Fault("unavailable", "No answer came")),
  };
  const limits = { fileMaxBytes: MIB, tenantMaxBytes: MIB, memberMaxBytes: MIB };
  const writer = new FileWriter({ store: gateway.app.store, clock: gateway.clock, blobs, limits });
  const owner = { tenantId: "default", principalId: "alice", kind: "human" } as const;
  const write = () => writer.write(owner, { name: "x", roomId: null }, ReadableStream.from([new Uint8Array(9)]));
  for (let count = 0; count < 2; count++) await assert.rejects(write(), /No answer came/);
  await gateway.runJobs();
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("what a process that ended had just stored of a deleted file is deleted, but not what an import stored", async () => {
  await using gateway = await openGateway();
  const { app: { store }, clock, folder } = gateway;
  const { alice } = await createCallers(gateway, "alice");
  const [late, imported] = [await uploadPicture(gateway, alice), await uploadPicture(gateway, alice)];
  for (const id of [late, imported]) assert.equal((await alice.delete(`${FILES}/${id}`)).status, 204);
  await gateway.runJobs();
  assert.deepEqual(await listFiles(folder), []);
  const blobs = new DiskBlobs(`${folder}/files`);
  for (const key of [late, `${late}_64`]) await blobs.put(key, ReadableStream.from([new Uint8Array(9)]));
  const limits = { fileMaxBytes: MIB, tenantMaxBytes: MIB, memberMaxBytes: MIB };
  const owner = { tenantId: "default", principalId: "alice", kind: "human" } as const;
  const draft = { name: "x", roomId: null, id: imported };
  await new FileWriter({ store, clock, blobs, limits }).write(owner, draft, ReadableStream.from([new Uint8Array(9)]));
  clock.advance(DAY_MS / 24);
  await gateway.runJobs();
  assert.deepEqual((await listFiles(folder)).map((path) => path.split("/").at(-1)), [imported]);
});

Deno.test("a failed rollback of an upload is logged once a minute and left to maintenance", async () => {
  await using gateway = await openGateway();
  const { app: { store }, clock } = gateway;
  let isAway = false;
  const blobs: Blobs = {
    put() {
      isAway = true;
      return Promise.reject(new Fault("unavailable", "No answer came"));
    },
    get: () => Promise.resolve(undefined),
    delete: () => Promise.resolve(),
  };
  const limits = { fileMaxBytes: MIB, tenantMaxBytes: MIB, memberMaxBytes: MIB };
  const flaky = new Proxy(store, {
    get(target, name) {
      if (name === "db" && isAway) throw new Fault("unavailable", "The database cannot be reached now");
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const writer = new FileWriter({ store: flaky, clock, blobs, limits });
  const owner = { tenantId: "default", principalId: "alice", kind: "human" } as const;
  const records = await captureLog(["gateway", "file"], async () => {
    for (let count = 0; count < 3; count++) {
      isAway = false;
      const draft = { name: "x", roomId: null };
      await assert.rejects(writer.write(owner, draft, ReadableStream.from([new Uint8Array(9)])), /No answer came/);
    }
  });
  const lines = records.map(({ level, properties }) => [level, properties["code"]]);
  assert.deepEqual(lines, [["warning", "unavailable"]]);
});

async function contentsIn(folder: string): Promise<string[]> {
  return (await listFiles(folder)).filter((name) => name.endsWith("_object"));
}

function testFilesOnPostgres(name: string, run: (gateway: Harness) => Promise<void>): void {
  testOnPostgres(name, async (environment) => {
    await using gateway = await openGateway({ ...environment, SVC_LIMIT_TENANT_FILE_BYTES: "5000" });
    await run(gateway);
  });
}

testFilesOnPostgres("concurrent uploads do not exceed the quota", async (gateway) => {
  const { alice } = await createCallers(gateway, "alice");
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, at) => upload(gateway, alice, { name: `${at}` }, new Uint8Array(1000))),
  );
  assert.equal(answers.filter((answer) => answer.status === 201).length, 5);
  assert.equal((await listFiles(gateway.folder)).length, 5);
});

testFilesOnPostgres(
  "a file that is concurrently attached and deleted is either attached or deleted",
  async (gateway) => {
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
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
    assert.deepEqual(await listFiles(gateway.folder), []);
  },
);

testFilesOnPostgres("a picture that is deleted while it is set is nobody's picture", async (gateway) => {
  const { alice } = await createCallers(gateway, "alice");
  for (let round = 0; round < 10; round++) {
    const id = await uploadPicture(gateway, alice);
    const [set, deleted] = await Promise.all([
      alice.patch("/v1/collaboration/me", { avatarFileId: id }),
      alice.delete(`${FILES}/${id}`),
    ]);
    assert.equal(deleted.status, 204);
    assert.ok([200, 422].includes(set.status), JSON.stringify(set.body));
    assert.equal(ok(await alice.get("/v1/collaboration/principals/alice")).avatarFileId, null);
  }
});

testFilesOnPostgres(
  "files are deleted with their message, after a day without one, and with their room",
  async (gateway) => {
    const admin = await createCaller(gateway, "root", { role: "admin" });
    const roomId = await createRoom(admin, []);
    const put = async (): Promise<string> => ok(await upload(gateway, admin, { name: "x" }, new Uint8Array(1000))).id;
    const [withMessage, withDay, withRoom] = [await put(), await put(), await put()];
    const avatar = await uploadPicture(gateway, admin);
    ok(await admin.patch("/v1/collaboration/me", { avatarFileId: avatar }));
    const message = await sendMessage(admin, roomId, "one", { fileIds: [withMessage] });
    await sendMessage(admin, roomId, "two", { fileIds: [withRoom] });
    assert.equal((await admin.delete(`/v1/messages/${message.id}`)).status, 204);
    gateway.clock.advance(DAY_MS + DAY_MS / 12);
    await gateway.runJobs();
    const later = await gateway.as("root", { role: "admin" });
    for (const [id, status] of [[withMessage, 404], [withDay, 404], [withRoom, 200], [avatar, 200]] as const) {
      assert.equal((await later.get(`${FILES}/${id}`)).status, status, id);
    }
    assert.equal((await later.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
    await gateway.runJobs();
    assert.equal((await listFiles(gateway.folder)).length, 1);
    // The deleted files released their quota.
    for (let count = 0; count < 4; count++) ok(await upload(gateway, later, { name: "x" }, new Uint8Array(1000)));
  },
);
