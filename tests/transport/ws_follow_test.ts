// Recoveries that are more than one reply holds: the rest follows from the log, whole, in order, once, at the reader's pace.
import assert from "node:assert/strict";
import * as fc from "npm:fast-check@4.10.2";
import { ask, offsets, pushes, rig, settle, SMALL, until } from "./ws_rig.ts";

const room = "room:a";
const limits = { ...SMALL, replyMaxEvents: 3, replyMaxBytes: 2000 };

function line(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, at) => from + at);
}

Deno.test("the rest of a long recovery follows the reply, and what is published meanwhile comes after it", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 400 }),
      fc.nat(400),
      fc.array(fc.boolean(), { maxLength: 40 }),
      async (count, offset, during) => {
        const { hub, connect, log, emit } = rig({ limits });
        for (let i = 0; i < count; i++) log.append(room, i);
        const after = Math.min(offset, count);
        const peer = await connect();
        const asked = ask(peer, 2, { subscribe: { channel: room, recover: true, offset: after } });
        for (const isTold of during) {
          // Of what the bus loses, the next message tells.
          if (isTold) emit(room);
          else log.append(room);
          await settle(0);
        }
        const { subscribe } = await asked;
        emit(room);
        const head = count + during.length + 1;
        assert.equal(subscribe.recovered, true);
        assert.equal(subscribe.offset ?? 0, after);
        const seen = () => [
          ...(subscribe.publications ?? []).map((pub: { offset: number }) => pub.offset),
          ...offsets(peer.socket, room),
        ];
        await until(() => seen().at(-1) === head, "everything");
        assert.deepEqual(seen(), line(after + 1, head));
        await hub.drain();
      },
    ),
    { numRuns: 60 },
  );
});

Deno.test("what follows a long recovery is as empty of the hidden past as the recovery itself", async () => {
  const { hub, connect, log, rooms } = rig({ limits });
  rooms.hiddenUpTo = 5;
  for (let i = 1; i <= 40; i++) {
    log.append(room, `event ${i}`, i > 5 ? { kind: "about", seq: i % 2 === 0 ? 5 : 6 } : undefined);
  }
  const peer = await connect();
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  const seen = () => [...subscribe.publications, ...pushes(peer.socket, room)];
  await until(() => seen().at(-1).offset === 40, "everything");
  assert.deepEqual(
    seen().map(({ offset, data }) => [offset, data.type === "message.hidden", data.data]),
    line(6, 40).map((seq) => seq % 2 === 0 ? [seq, true, {}] : [seq, false, `event ${seq}`]),
  );
  await hub.drain();
});

Deno.test("a reader that is behind gets the rest of its recovery only as it reads", async () => {
  const { hub, connect, log } = rig({ limits: { ...limits, outboxMaxBytes: 20_000 } });
  for (let i = 0; i < 300; i++) log.append(room, "x".repeat(1000));
  const peer = await connect();
  peer.socket.isStuck = true;
  await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  let most = 0;
  for (let rounds = 0; offsets(peer.socket, room).at(-1) !== 300; rounds++) {
    assert.ok(rounds < 200, "it goes on");
    await settle(25);
    most = Math.max(most, peer.socket.bufferedAmount);
    peer.socket.bufferedAmount = 0;
  }
  assert.ok(most <= 20_000, `${most} bytes waited`);
  assert.equal(peer.socket.closedWith, undefined);
  await hub.drain();
});

Deno.test("a recovery that is overtaken by trimming ends with 2500, so that the client hears it cannot have it whole", async () => {
  const { hub, connect, log } = rig({ limits });
  for (let i = 0; i < 300; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => {
    if (log.reads === 2) log.trimTo(room, 10);
    return Promise.resolve();
  };
  const { subscribe } = await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  assert.equal(subscribe.recovered, true);
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  assert.equal(pushes(peer.socket, room, "unsubscribe")[0].code, 2500);
  assert.deepEqual(offsets(peer.socket, room), []);
  const again = await ask(peer, 3, { subscribe: { channel: room, recover: true, offset: 3 } });
  assert.equal(again.subscribe.recovered, undefined);
  await hub.drain();
});

Deno.test("a member removed while the rest of its recovery is on its way hears no more of it", async () => {
  const { hub, connect, log, emit } = rig({ limits });
  for (let i = 0; i < 300; i++) log.append(room, i);
  const peer = await connect();
  log.beforeRead = () => {
    if (log.reads === 3) {
      emit(room, "bye", { kind: "evict", principalIds: ["alice"], reason: "removed" });
    }
    return Promise.resolve();
  };
  await ask(peer, 2, { subscribe: { channel: room, recover: true, offset: 0 } });
  await until(() => pushes(peer.socket, room, "unsubscribe").length === 1);
  const heard = offsets(peer.socket, room);
  await settle(20);
  assert.deepEqual(heard, line(4, 103));
  assert.deepEqual(offsets(peer.socket, room), heard);
  await hub.drain();
});
