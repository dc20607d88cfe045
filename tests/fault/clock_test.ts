// The machine's clock jumps: the order of events does not care, tokens are judged by it, and nobody is thrown out for no reason.
import assert from "node:assert/strict";
import { openGateway } from "../harness.ts";
import { ask, FakeSocket, offsets } from "../transport/ws_rig.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

Deno.test("a clock that jumps back and forth leaves the line whole and ends only what has expired", async () => {
  await using gateway = await openGateway();
  const { app, clock } = gateway;
  const ann = await gateway.as("ann", { exp: Math.floor(clock.now() / 1000) + 3600 });
  const { body: room } = await ann.post("/v1/rooms", { name: "clock" });
  const socket = new FakeSocket();
  const peer = { socket, connection: app.hub.open(socket, { ip: "::1" }) };
  await ask(peer, 1, { connect: { token: ann.token } });
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: `room:${room.id}` } });
  const placed: number[] = [];
  for (const jump of [0, -DAY, 60_000, -HOUR, DAY + HOUR - 90_000, 0]) {
    clock.advance(jump);
    app.hub.tick();
    const sent = await ann.post("/v1/messages", { roomId: room.id, text: `after ${jump}` });
    assert.equal(sent.status, 201, JSON.stringify(sent.body));
    placed.push(sent.body.seq);
    await gateway.runJobs();
  }
  const first = (subscribe.offset ?? 0) + 1;
  assert.deepEqual(placed, placed.map((_, at) => first + at));
  await ask(peer, 3, { presence: { channel: `room:${room.id}` } });
  assert.deepEqual(offsets(socket, `room:${room.id}`).slice(0, placed.length), placed);
  assert.equal(socket.closedWith, undefined);

  clock.advance(2 * HOUR);
  app.hub.tick();
  const { closedWith } = socket as FakeSocket; // the check above narrowed it, the tick since has changed it
  assert.equal(closedWith?.code, 3005);
  assert.equal((await ann.get("/v1/rooms")).body.code, "token_expired");
  const later = await gateway.as("ann");
  const sent = await later.post("/v1/messages", { roomId: room.id, text: "after all" });
  assert.equal(sent.body.seq, (placed.at(-1) ?? 0) + 1);
  clock.advance(-3 * HOUR);
  assert.equal((await ann.get("/v1/rooms")).status, 200, "by the clock, the first token is good again");
  await app.drain();
});
