// A ban hides a room, public ones included, on every path.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { openPeer, sendCommand } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { ok, RoomFixture } from "./room_fixture.ts";
import { assertProblem, completeSearch } from "../fixtures.ts";

async function assertBanHides(environment: Record<string, string>): Promise<void> {
  await using fixture = await RoomFixture.open({ environment, room: { visibility: "public" } });
  const { roomId, gateway } = fixture;
  const room = `/v1/rooms/${roomId}`;
  const [owner, visitor] = [fixture.as("owner"), fixture.as("outsider")];
  const { id } = ok(await owner.post("/v1/messages", { roomId, text: "heartbeat" }), 201);
  const peer = await openPeer(gateway, visitor, `room:${roomId}`);
  const subscribe = { subscribe: { channel: `room:${roomId}` } };
  const found = async (): Promise<number[]> => [
    ok(await visitor.get("/v1/rooms")).items.length,
    (await completeSearch(() => visitor.get("/v1/search?q=heartbeat"))).items.length,
  ];
  assert.deepEqual(await found(), [1, 1]);

  ok(await owner.delete(`${room}/members/outsider?ban=true`), 204);
  await until(
    () => peer.socket.messages.some((line) => line.push?.unsubscribe !== undefined),
    "the end of the subscription",
  );
  assert.equal(
    (await sendCommand(peer, 3, subscribe)).error?.code,
    (await sendCommand(peer, 4, {
      subscribe: { channel: "room:nowhere" },
    })).error?.code,
  );
  assert.deepEqual(await found(), [0, 0]);
  for (
    const path of [
      room,
      `${room}/members`,
      `${room}/events?after=0`,
      `/v1/messages?roomId=${roomId}`,
      `/v1/messages/${id}`,
    ]
  ) assertProblem(await visitor.get(path), 404, "not_found");
  assertProblem(await visitor.put(`${room}/members/me`), 404, "not_found");
  assertProblem(await owner.put(`${room}/members/outsider`), 409, "banned");
  // Members are banned as well, and a mention does not reach who is.
  ok(await owner.delete(`${room}/members/member?ban=true`), 204);
  assertProblem(await fixture.as("member").get(room), 404, "not_found");
  assert.equal(
    (await owner.post("/v1/messages", {
      roomId,
      text: "x",
      mentions: { principalIds: ["member"] },
    })).status,
    422,
  );

  ok(await owner.delete(`${room}/bans/outsider`), 204);
  assert.deepEqual(await found(), [1, 1]);
  ok(await visitor.put(`${room}/members/me`), 201);
}

testOnEngines("a ban hides a public room", assertBanHides);
