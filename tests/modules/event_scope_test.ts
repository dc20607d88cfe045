// Tokens receive events only of types whose scope they have: every declared type, by every way out of the log.
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { createApp } from "@/app.ts";
import { readConfig } from "@/config/config.ts";
import { type EventType, principalStream, roomStream } from "@/core/event/event.ts";
import { type Caller, Harness, SECRET, TestClock } from "../harness.ts";
import { FakeSocket, pushesOn, sendCommand } from "../transport/ws_harness.ts";
import { allEnded, until } from "../wait.ts";
import { createRoom, ok } from "./fixtures.ts";

// deno-lint-ignore no-explicit-any -- publications of every shape
type Any = any;

/** A gateway, and a way to write events to its log that no operation makes in one test. */
async function openLog() {
  const clock = new TestClock();
  const folder = `${tmpdir()}/gateway-test-${crypto.randomUUID()}`;
  const settings: Record<string, string> = {
    SVC_DATABASE_URL: "sqlite::memory:",
    SVC_DATA_DIR: folder,
    SVC_JWT_SECRET: SECRET,
    SVC_RATE_LIMIT: "off",
    SVC_SEARCH: "off",
  };
  const config = readConfig({ get: (name) => settings[name], readFile: Deno.readTextFileSync });
  const app = await createApp(config, { clock });
  // What is written here is found by its marker and has no other content, so the contract of events is left out.
  const { onCommit } = app.store;
  const gateway = new Harness(app, clock, { folder });
  const types = app.modules.flatMap((module) => module.events ?? []);
  async function write(roomId: string): Promise<void> {
    const drafts = types.flatMap((one) =>
      kindsOf(one).map((kind) => ({
        tenantId: "default",
        stream: streamOf(kind, roomId),
        type: one.type,
        data: { roomId, marker: markerOf(one.type, kind) },
      }))
    );
    const checked = app.store.onCommit;
    app.store.onCommit = onCommit;
    await app.store.write((tx) => tx.emit(...drafts));
    app.store.onCommit = checked;
  }
  return { gateway, types, write };
}

function streamOf(kind: string, roomId: string): string {
  if (kind === "room") return roomStream(roomId);
  return kind === "principal" ? principalStream("alice") : `${kind}:example`;
}

/** Kinds of streams that the type is written to. On the reader's own, these two begin a room again: sync leaves its events out. */
function kindsOf({ type, streams = ["room"] }: EventType): readonly string[] {
  return type === "member.left" || type === "room.deleted" ? ["room"] : streams;
}

function markerOf(type: string, kind: string): string {
  return `${type} on ${kind}`;
}

/** Markers of the types that a token with all scopes but one receives on these kinds of streams, and of those it does not. */
function split(types: readonly EventType[], lacking: string, ...kinds: string[]): { seen: string[]; hidden: string[] } {
  const [seen, hidden]: [string[], string[]] = [[], []];
  for (const one of types) {
    for (const kind of kindsOf(one).filter((name) => kinds.includes(name))) {
      (one.scope === lacking ? hidden : seen).push(markerOf(one.type, kind));
    }
  }
  return { seen: seen.sort(), hidden: hidden.sort() };
}

function markersIn(events: readonly Any[]): string[] {
  return events.flatMap(({ data }) => data?.marker ?? []).sort();
}

async function connect(gateway: Harness, caller: Caller, subs: Record<string, unknown> = {}) {
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "127.0.0.1" }) };
  return { ...peer, reply: (await sendCommand(peer, 1, { connect: { token: caller.token, subs } })).connect };
}

Deno.test("every event type declares a scope that some operation takes", async () => {
  const { gateway: own, types } = await openLog();
  await using gateway = own;
  const scopes = new Set([...gateway.app.operations.values()].map(({ access }) => access.scope));
  for (const { type, scope } of types) {
    assert.ok(scopes.has(scope), `${type}: ${scope}`);
    assert.match(scope, /\.(read|manage)$/, type);
  }
});

Deno.test("a token receives no event of a type whose scope it lacks, live, recovered, in history, in lists or by sync", async (t) => {
  const { gateway: own, types, write } = await openLog();
  await using gateway = own;
  const alice = await gateway.as("alice");
  const roomId = await createRoom(alice, []);
  const [room, self] = [roomStream(roomId), principalStream("alice")];
  const scopes = [...new Set(types.map(({ scope }) => scope))];
  const tokens = await allEnded(scopes.map(async (lacking) => {
    const scope = scopes.filter((one) => one !== lacking).join(" ");
    const caller = await gateway.as("alice", { scope });
    const mayReadRooms = lacking !== "room.read" && lacking !== "message.read";
    const live = await connect(gateway, caller);
    const joined = mayReadRooms ? (await sendCommand(live, 2, { subscribe: { channel: room } })).subscribe : undefined;
    const sync = mayReadRooms ? ok(await caller.get("/v1/collaboration/sync")) : undefined;
    return { lacking, caller, mayReadRooms, live, joined, own: live.reply.subs[self], cursor: sync?.cursor };
  }));
  await write(roomId);
  for (const { lacking, caller, mayReadRooms, live, joined, own, cursor } of tokens) {
    await t.step(`without ${lacking}`, async () => {
      const expected = split(types, lacking, "principal");
      const check = (publications: readonly Any[], { seen, hidden }: { seen: string[]; hidden: string[] }) => {
        assert.deepEqual(markersIn(publications.map(({ data }) => data)), seen);
        assert.equal(publications.length, seen.length + hidden.length, "each keeps its position");
        const rest = publications.filter(({ data }) => data.data.marker === undefined);
        for (const { data } of rest) assert.deepEqual([data.type, data.data, data.actor], ["message.hidden", {}, null]);
      };
      const total = expected.seen.length + expected.hidden.length;
      await until(() => pushesOn(live.socket, self).length === total);
      check(pushesOn(live.socket, self), expected);
      const { reply } = await connect(gateway, caller, {
        [self]: { recover: true, epoch: own.epoch, offset: own.offset },
      });
      check(reply.subs[self].publications, expected);
      const past = await sendCommand(live, 3, { history: { channel: self, since: own, limit: 100 } });
      check(past.history.publications, expected);
      if (!mayReadRooms) return;

      const inRoom = split(types, lacking, "room");
      await until(() => pushesOn(live.socket, room).length === inRoom.seen.length + inRoom.hidden.length);
      check(pushesOn(live.socket, room), inRoom);
      const again = await connect(gateway, caller);
      const since = { epoch: joined.epoch, offset: joined.offset };
      const recovered = await sendCommand(again, 2, { subscribe: { channel: room, recover: true, ...since } });
      check(recovered.subscribe.publications, inRoom);
      const log = await sendCommand(again, 3, { history: { channel: room, since, limit: 100 } });
      check(log.history.publications, inRoom);
      const { events } = ok(await caller.get(`/v1/rooms/${roomId}/events?after=${joined.offset}&limit=100`));
      check(events.map((data: Any) => ({ data })), inRoom);
      const sync = ok(await caller.get(`/v1/collaboration/sync?since=${encodeURIComponent(cursor)}`));
      assert.deepEqual(markersIn(sync.events), split(types, lacking, "principal", "room").seen);
    });
  }
});

Deno.test("a token refreshed with other scopes receives what the new ones allow, from then on", async () => {
  const { gateway: own, types, write } = await openLog();
  await using gateway = own;
  const roomId = await createRoom(await gateway.as("alice"), []);
  const room = roomStream(roomId);
  const inRoom = types.filter((one) => kindsOf(one).includes("room")).length;
  const peer = await connect(gateway, await gateway.as("alice", { scope: "room.read message.read" }));
  await sendCommand(peer, 2, { subscribe: { channel: room } });
  const tasks = () => JSON.stringify(peer.socket.messages).split("task.created on room").length - 1;
  for (
    const [id, scope, expected] of [[3, "*", 1], [4, "room.read message.read", 1], [
      5,
      "task.* room.* message.*",
      2,
    ]] as const
  ) {
    const { token } = await gateway.as("alice", { scope });
    await sendCommand(peer, id, { refresh: { token } });
    const before = pushesOn(peer.socket, room).length;
    await write(roomId);
    await until(() => pushesOn(peer.socket, room).length === before + inRoom);
    assert.equal(tasks(), expected, scope);
  }
});
