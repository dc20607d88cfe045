// An upload that was begun with a right ends without a file when the right ended meanwhile.
import assert from "node:assert/strict";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { listFiles, upload } from "./file_harness.ts";
import { assertProblem, createCallers, createRoom, ok } from "../fixtures.ts";

const API = "/v1/collaboration";

/** What ends while the second half of an upload is on its way, and how the upload is answered. */
const REVOCATIONS: Readonly<
  Record<string, [number, string, (alice: Caller, roomId: string, gateway: Harness) => Promise<unknown>]>
> = {
  "the membership": [404, "not_found", (alice, roomId) => alice.delete(`/v1/rooms/${roomId}/members/bob`)],
  "the role": [403, "forbidden", (alice, roomId) => alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "observer" })],
  "the room": [409, "room_archived", (alice, roomId) => alice.patch(`/v1/rooms/${roomId}`, { state: "archived" })],
  "the token": [
    401,
    "token_revoked",
    async (_alice, _roomId, gateway) => await (await gateway.as("bob", { jti: "bobs" })).post(`${API}/auth/logout`),
  ],
  "the time of the token": [401, "token_expired", (_alice, _roomId, gateway) => {
    gateway.clock.advance(2 * 3_600_000);
    return Promise.resolve();
  }],
  "the principal": [
    401,
    "token_revoked",
    async (_alice, _roomId, gateway) =>
      await (await gateway.as("boss", { role: "owner" })).delete(`${API}/principals/bob`),
  ],
};

for (const [what, [status, code, end]] of Object.entries(REVOCATIONS)) {
  Deno.test(`an upload makes no file when ${what} ends while it comes`, async () => {
    await using gateway = await openGateway();
    const { alice } = await createCallers(gateway, "alice", "boss");
    const bob = await gateway.as("bob", { jti: "bobs" });
    ok(await bob.get(`${API}/me`));
    const roomId = await createRoom(alice, ["bob"]);
    const half = new TextEncoder().encode("half of it ");
    const more = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        controller.enqueue(half);
        begun.resolve();
        await more.promise;
        controller.enqueue(half);
        controller.close();
      },
    }, { highWaterMark: 0 });
    const headers = { "content-length": String(2 * half.length) };
    const uploading = upload(gateway, bob, { name: "a.txt", roomId }, body, headers);
    await begun.promise;
    await end(alice, roomId, gateway);
    more.resolve();
    assertProblem(await uploading, status, code);
    assert.deepEqual((await listFiles(gateway.folder)).filter((path) => path.includes("/files/")), []);
  });
}
