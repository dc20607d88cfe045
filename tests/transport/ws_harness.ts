// A hub on in-memory fakes: a log that tests write, sockets that record frames, and tokens that name their principal.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { MemoryPresence } from "@/adapters/presence/memory.ts";
import type { Actor } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/event/channel.ts";
import { createDispatch } from "@/core/dispatch.ts";
import type { EventEffect, StoredEvent, StreamPosition } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { Metrics } from "@/core/metrics.ts";
import { defineOperation } from "@/core/operation.ts";
import type { Bus } from "@/ports/bus.ts";
import { type EventLog, streamKey } from "@/ports/store.ts";
import type { Connection } from "@/transport/ws/connection.ts";
import type { SocketLike } from "@/transport/ws/outbox.ts";
import { Hub, type HubDeps } from "@/transport/ws/hub.ts";
import { WS_LIMITS, type WsLimits } from "@/transport/shared/socket_limits.ts";
import { until } from "../wait.ts";

export const TENANT = "t";

/** An in-memory log whose streams tests write. */
export class FakeLog implements EventLog {
  readonly streams = new Map<string, { epoch: string; events: StoredEvent[]; floor: number }>();
  reads = 0;
  isUnavailable = false;
  /** Awaited by every read, so that a test can act during one. */
  beforeRead: () => Promise<void> = () => Promise.resolve();

  /** Appends an event without publishing it. */
  append(stream: string, data: unknown = null, effect?: EventEffect): StoredEvent {
    const entry = this.#streamOf(TENANT, stream);
    const seq = entry.floor + entry.events.length + 1;
    const json = JSON.stringify({ id: `evt_${seq}`, type: "message.created", data });
    const event: StoredEvent = {
      tenantId: TENANT,
      stream,
      epoch: entry.epoch,
      seq,
      type: "message.created",
      json,
      ...(effect === undefined ? {} : { effect }),
    };
    entry.events.push(event);
    return event;
  }

  /** Resets a stream, as a restored backup does. */
  reset(stream: string): void {
    this.streams.set(streamKey(TENANT, stream), { epoch: crypto.randomUUID(), events: [], floor: 0 });
  }

  /** Drops all but the newest `keep` events of a stream. */
  trimTo(stream: string, keep: number): void {
    const entry = this.#streamOf(TENANT, stream);
    const dropped = entry.events.length - keep;
    entry.events.splice(0, dropped);
    entry.floor += dropped;
  }

  position(tenantId: string, stream: string): Promise<StreamPosition> {
    return Promise.resolve(positionOf(this.#streamOf(tenantId, stream)));
  }

  heads(streams: readonly { tenantId: string; stream: string }[]): Promise<Map<string, StreamPosition>> {
    const positions = streams.flatMap(({ tenantId, stream }) => {
      const entry = this.streams.get(streamKey(tenantId, stream));
      return entry === undefined ? [] : [[streamKey(tenantId, stream), positionOf(entry)] as const];
    });
    return Promise.resolve(new Map(positions));
  }

  async read(tenantId: string, stream: string, after: number, limit: number): Promise<StoredEvent[]> {
    this.reads++;
    await this.beforeRead();
    if (this.isUnavailable) throw new Error("the log is unavailable");
    return this.#streamOf(tenantId, stream).events.filter((event) => event.seq > after).slice(0, limit);
  }

  readBackward(tenantId: string, stream: string, before: number, limit: number): Promise<StoredEvent[]> {
    const events = this.#streamOf(tenantId, stream).events.filter((event) => event.seq < before);
    return Promise.resolve(events.reverse().slice(0, limit));
  }

  trim(): Promise<number> {
    return Promise.resolve(0);
  }

  trimStream(): Promise<number> {
    return Promise.resolve(0);
  }

  #streamOf(tenantId: string, stream: string): { epoch: string; events: StoredEvent[]; floor: number } {
    const key = streamKey(tenantId, stream);
    const entry = this.streams.get(key) ?? { epoch: crypto.randomUUID(), events: [], floor: 0 };
    this.streams.set(key, entry);
    return entry;
  }
}

function positionOf(entry: { epoch: string; events: StoredEvent[]; floor: number }): StreamPosition {
  return { epoch: entry.epoch, head: entry.floor + entry.events.length, floor: entry.floor };
}

/** A socket that records frames. */
export class FakeSocket implements SocketLike {
  readyState = 1;
  bufferedAmount = 0;
  /** Whether the client does not read. */
  isStalled = false;
  readonly frames: string[] = [];
  closedWith: { code: number | undefined; reason: string | undefined } | undefined;

  get isOpen(): boolean {
    return this.closedWith === undefined;
  }

  send(data: string): void {
    this.frames.push(data);
    if (this.isStalled) this.bufferedAmount += data.length;
  }

  close(code?: number, reason?: string): void {
    this.closedWith = { code, reason };
    this.readyState = 2;
  }

  /** All messages sent, parsed. */
  // deno-lint-ignore no-explicit-any -- tests read arbitrary JSON
  get messages(): any[] {
    return this.frames.flatMap((frame) => frame.split("\n")).map((line) => JSON.parse(line));
  }
}

/** Tokens: `principal`, or `principal/<ttl in seconds>`; `bad`, `expired`, `revoked` and `away` (unavailable) fail. */
export function authenticate(token: string): Promise<Actor> {
  if (token === "expired") throw new Fault("token_expired", "The token has expired");
  if (token === "revoked") throw new Fault("token_revoked", "The token was revoked");
  if (token === "away") throw new Fault("unavailable", "Try later");
  if (token === "bad" || token === "") throw new Fault("unauthenticated", "Not a token");
  const [principalId = "", ttl] = token.split("/");
  return Promise.resolve(
    {
      tenantId: TENANT,
      principalId,
      kind: "human",
      role: "member",
      displayName: principalId.toUpperCase(),
      ownerId: null,
      scopes: undefined,
      tokenId: `jti-${token}`,
      expiresAt: ttl === undefined ? undefined : Date.now() + Number(ttl) * 1000,
    } satisfies Actor,
  );
}

/** Rooms that admit all principals except `banned`, with history hidden up to `hiddenUpTo`. */
export class FakeRooms {
  readonly banned = new Set<string>();
  hiddenUpTo = 0;
  checks = 0;
  failure: Fault | undefined;
  beforeCheck: () => Promise<void> = () => Promise.resolve();

  readonly kind: ChannelKind = {
    prefix: "room",
    summary: "A room",
    isDurable: true,
    presenceMax: 3,
    authorize: async (actor, id) => {
      this.checks++;
      await this.beforeCheck();
      if (this.failure !== undefined) throw this.failure;
      if (id === "missing" || this.banned.has(actor.principalId)) throw new Fault("not_found", "No such room");
      return { hiddenUpTo: this.hiddenUpTo };
    },
    ephemeral: {
      typing: { summary: "A member types", data: z.strictObject({ typing: z.boolean() }) },
      signal: {
        summary: "For one member",
        data: z.strictObject({ to: z.string(), text: z.string().optional() }),
        maxBytes: 64,
        recipients: (data) => [z.looseObject({ to: z.string() }).parse(data).to],
      },
    },
  };
}

const runChannel: ChannelKind = {
  prefix: "run",
  summary: "Deltas",
  isDurable: false,
  presenceMax: 0,
  spansStreams: true,
  authorize: () => Promise.resolve(),
  ephemeral: {},
};

export const TEST_LIMITS: WsLimits = { ...WS_LIMITS, tickMs: 20, repairDelayMs: 1, drainMs: 25 };

/** Starts and ends of operations, in order: `start x`, `end x`. */
class Trace {
  readonly steps: string[] = [];
  readonly #open = new Map<string, () => void>();

  async run(name: string): Promise<void> {
    this.steps.push(`start ${name}`);
    await new Promise<void>((resolve) => this.#open.set(name, resolve));
    this.steps.push(`end ${name}`);
  }

  finish(name: string): void {
    this.#open.get(name)?.();
  }
}

function createOperations(trace: Trace): HubDeps["operations"] {
  const http = { method: "POST", path: "/x", status: 200 } as const;
  const named = z.strictObject({ name: z.string() });
  const all = [
    defineOperation({
      name: "test.echo",
      summary: "Return the input",
      access: { scope: "test.read" },
      http,
      input: z.strictObject({ text: z.string() }),
      output: z.object({ text: z.string() }),
      run: (_context, input) => Promise.resolve(input),
    }),
    defineOperation({
      name: "test.nothing",
      summary: "Return nothing",
      access: { scope: "test.read" },
      http: { ...http, status: 204 },
      input: z.strictObject({}),
      output: z.void(),
      run: () => Promise.resolve(),
    }),
    defineOperation({
      name: "test.fail",
      summary: "Fail with the code",
      access: { scope: "test.read" },
      http,
      input: z.strictObject({ code: z.string() }),
      output: z.void(),
      run: (_context, { code }) => {
        if (code === "bug") throw new TypeError("secret detail");
        throw new Fault(
          z.enum(["not_found", "version_mismatch", "rate_limited", "unavailable"]).parse(code),
          "As requested",
        );
      },
    }),
    ...["test.slow", "test.other"].map((name) =>
      defineOperation({
        name,
        summary: "End on finish",
        access: { scope: "test.write" },
        http,
        input: named,
        output: z.void(),
        concurrent: true,
        run: (_context, input) => trace.run(input.name),
      })
    ),
    defineOperation({
      name: "test.alone",
      summary: "End on finish, not concurrent",
      access: { scope: "test.write" },
      http,
      input: named,
      output: z.void(),
      run: (_context, input) => trace.run(input.name),
    }),
  ];
  return new Map(all.map((operation) => [operation.name, operation]));
}

export type HubHarness = {
  hub: Hub;
  log: FakeLog;
  bus: Bus;
  rooms: FakeRooms;
  metrics: Metrics;
  trace: Trace;
  /** Appends an event and publishes it. */
  emit(stream: string, data?: unknown, effect?: EventEffect): StoredEvent;
  connect(token?: string, extra?: Record<string, unknown>): Promise<{ socket: FakeSocket; connection: Connection }>;
};

/** A hub; end it with `hub.drain()`. */
export function createHubHarness(options: Partial<HubDeps> & { log?: FakeLog } = {}): HubHarness {
  const log = options.log ?? new FakeLog();
  const rooms = new FakeRooms();
  const trace = new Trace();
  const metrics = new Metrics();
  const bus = options.bus ?? new MemoryBus();
  const hub = new Hub({
    bus,
    log,
    presence: new MemoryPresence(),
    channels: [rooms.kind, runChannel],
    operations: createOperations(trace),
    dispatch: createDispatch({
      metrics,
      consumeRate: undefined,
      writeRate: { perSecond: 1, burst: 1 },
    }),
    eventFilterOf: () => undefined,
    metrics,
    clock: { now: () => Date.now() },
    limits: TEST_LIMITS,
    version: "9.9.9",
    authenticate,
    connectData: (actor) => Promise.resolve({ principal: actor.principalId }),
    ...options,
  });
  return {
    hub,
    log,
    bus,
    rooms,
    metrics,
    trace,
    emit(stream, data, effect) {
      const event = log.append(stream, data, effect);
      bus.publish(streamKey(TENANT, stream), { kind: "events", events: [event] });
      return event;
    },
    async connect(token = "alice", extra = {}) {
      const socket = new FakeSocket();
      const connection = hub.open(socket, { ip: "::1" });
      connection.receive(JSON.stringify({ id: 1, connect: { token, ...extra } }));
      await until(() => socket.frames.length > 0 || socket.closedWith !== undefined);
      return { socket, connection };
    },
  };
}

export type Peer = { socket: FakeSocket; connection: Connection };

/** A socket of a caller on the hub of a gateway, subscribed to these channels. */
export async function openPeer(
  { app: { hub } }: { app: { hub: Hub } },
  { token }: { token: string },
  ...channels: readonly string[]
): Promise<Peer> {
  const socket = new FakeSocket();
  const peer = { socket, connection: hub.open(socket, { ip: "127.0.0.1" }) };
  assert.ok((await sendCommand(peer, 1, { connect: { token } })).connect);
  for (const [n, channel] of channels.entries()) {
    assert.ok((await sendCommand(peer, 2 + n, { subscribe: { channel } })).subscribe);
  }
  return peer;
}

/** Sends a command and waits for its reply. */
export async function sendCommand(
  peer: Peer,
  id: number,
  command: Record<string, unknown>,
  // deno-lint-ignore no-explicit-any -- tests read arbitrary JSON
): Promise<any> {
  peer.connection.receive(JSON.stringify({ id, ...command }));
  await until(() => peer.socket.messages.some((message) => message.id === id) || peer.socket.closedWith !== undefined);
  return peer.socket.messages.find((message) => message.id === id);
}

/** Pushes of a kind on a channel, in order. */
// deno-lint-ignore no-explicit-any -- tests read arbitrary JSON
export function pushesOn(socket: FakeSocket, channel: string, kind = "pub"): any[] {
  return socket.messages.flatMap(({ push }) =>
    push?.channel === channel && push[kind] !== undefined ? [push[kind]] : []
  );
}

/** Offsets of the publications pushed on a channel. */
export function offsetsOn(socket: FakeSocket, channel: string): number[] {
  return pushesOn(socket, channel).flatMap((pub) => pub.offset ?? []);
}
