// A small gateway with sample operations for the tests of the HTTP transport: in memory, without port and store.
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { createDispatch } from "@/core/dispatch.ts";
import { Fault } from "@/core/fault.ts";
import type { RunOnce, StoredResponse } from "@/core/http/idempotency.ts";
import { Metrics } from "@/core/metrics.ts";
import { defineOperation, type Operation, Outcome } from "@/core/operation.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { createHttpHandler, type HttpDeps } from "@/transport/http/server.ts";
import { MemoryGuard } from "@/transport/shared/memory_guard.ts";
import { memberOf } from "../tokens.ts";

const Id = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
const Kind = z.enum(["public", "private"]);
const Room = z.strictObject({
  id: Id,
  name: z.string().min(1).max(120),
  kind: Kind,
  tags: z.array(z.string()).default([]),
  version: z.int(),
}).meta({ id: "Room", description: "A room" });
type Room = z.output<typeof Room>;

/** The state of the sample, for tests to inspect. */
type SampleState = {
  rooms: Map<string, Room>;
  inputs: unknown[];
  signals: AbortSignal[];
  runs: number;
};

/** Operations on `sample`, with every kind of binding. */
function createSampleOperations(sample: SampleState): Operation[] {
  const roomOf = (id: string): Room => {
    const room = sample.rooms.get(id);
    if (room === undefined) throw new Fault("not_found", "No such room");
    return room;
  };
  return [
    defineOperation({
      name: "room.create",
      summary: "Create a room",
      access: { scope: "room.write" },
      http: { method: "POST", path: "/v1/rooms", status: 201, otherStatuses: [200], hasLocation: true },
      input: z.strictObject({
        name: Room.shape.name,
        kind: Kind.default("public"),
        tags: z.array(z.string()).default([]),
        isDraft: z.boolean().optional(),
      }),
      output: Room,
      faults: ["slug_taken"],
      example: { name: "Launch" },
      run(_context, input) {
        sample.runs++;
        sample.inputs.push(input);
        if (input.name === "taken") throw new Fault("slug_taken", "There is a room of that name");
        if (input.name === "busy") throw new Fault("rate_limited", "Slow down", { retryAfterMs: 2500 });
        if (input.name === "bug") throw new TypeError("secret detail");
        const room = {
          id: `room_${sample.rooms.size + 1}`,
          name: input.name,
          kind: input.kind,
          tags: input.tags,
          version: 1,
        };
        sample.rooms.set(room.id, room);
        return Promise.resolve(new Outcome(room, { location: `/v1/rooms/${room.id}` }));
      },
    }),
    defineOperation({
      name: "room.list",
      summary: "List rooms",
      access: { scope: "room.read" },
      http: { method: "GET", path: "/v1/rooms", status: 200 },
      input: z.strictObject({
        ...pageInput,
        kind: Kind.optional(),
        ids: z.array(Id).optional(),
        sizes: z.array(z.int()).optional(),
        isArchived: z.boolean().optional(),
        since: z.union([z.literal("start"), z.string()]).optional(),
      }),
      output: pageSchema(Room),
      run(_context, input) {
        sample.inputs.push(input);
        return Promise.resolve({ items: [...sample.rooms.values()], nextCursor: null, hasMore: false });
      },
    }),
    defineOperation({
      name: "room.get",
      summary: "Read a room",
      access: { scope: "room.read" },
      http: { method: "GET", path: "/v1/rooms/:roomId", status: 200 },
      input: z.strictObject({ roomId: Id }),
      output: Room,
      example: { roomId: "room_1" },
      run: (_context, { roomId }) => Promise.resolve(roomOf(roomId)),
    }),
    defineOperation({
      name: "room.unread",
      summary: "Rooms with something unread",
      access: { scope: "room.read" },
      http: { method: "GET", path: "/v1/rooms/unread", status: 200 },
      input: z.strictObject({}),
      output: z.object({ count: z.int() }),
      run: () => Promise.resolve({ count: 7 }),
    }),
    defineOperation({
      name: "room.update",
      summary: "Change a room",
      access: { scope: "room.write" },
      http: { method: "PATCH", path: "/v1/rooms/:roomId", status: 200, ifMatch: "version" },
      input: z.strictObject({ roomId: Id, name: Room.shape.name.optional(), version: z.int().optional() }),
      output: Room,
      example: { roomId: "room_1", name: "Renamed" },
      run(_context, { roomId, name, version }) {
        const room = roomOf(roomId);
        if (version !== undefined && version !== room.version) throw new Fault("version_mismatch", "It has changed");
        const changed = { ...room, name: name ?? room.name, version: room.version + 1 };
        sample.rooms.set(roomId, changed);
        return Promise.resolve(changed);
      },
    }),
    defineOperation({
      name: "room.delete",
      summary: "Delete a room",
      access: { scope: "room.manage", tenant: "member" },
      http: { method: "DELETE", path: "/v1/rooms/:roomId", status: 204 },
      input: z.strictObject({ roomId: Id, force: z.boolean().optional() }),
      output: z.undefined(),
      run(_context, { roomId }) {
        roomOf(roomId);
        sample.rooms.delete(roomId);
        return Promise.resolve(undefined);
      },
    }),
    defineOperation({
      name: "room.import",
      summary: "Import a small file of rooms",
      access: { scope: "room.write" },
      http: { method: "PUT", path: "/v1/rooms/:roomId/import", status: 202, bodyMaxBytes: 100 },
      input: z.strictObject({ roomId: Id, dry: z.boolean().optional(), lines: z.array(Room).or(z.array(z.string())) }),
      output: z.object({ count: z.int() }),
      run(_context, input) {
        sample.inputs.push(input);
        return Promise.resolve({ count: input.lines.length });
      },
    }),
    defineOperation({
      name: "sync.poll",
      summary: "Wait for something new",
      access: { scope: "room.read" },
      http: { method: "GET", path: "/v1/collaboration/sync", status: 200 },
      input: z.strictObject({ wait: z.int().min(0).max(60).default(0) }),
      output: z.object({ waited: z.boolean() }),
      run: (context) => waitOrAbort(sample, context.signal, 80),
    }),
    defineOperation({
      name: "sync.slow",
      summary: "Takes too long",
      access: { scope: "room.read" },
      http: { method: "GET", path: "/v1/collaboration/slow", status: 200 },
      input: z.strictObject({}),
      output: z.object({ waited: z.boolean() }),
      run: (context) => waitOrAbort(sample, context.signal, 80),
    }),
  ];
}

async function waitOrAbort(
  sample: SampleState,
  signal: AbortSignal | undefined,
  ms: number,
): Promise<{ waited: boolean }> {
  if (signal !== undefined) sample.signals.push(signal);
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("The operation was aborted", "AbortError"));
    });
  });
  return { waited: true };
}

export const ALICE = memberOf("acme", "alice");

/** Tokens `alice` and `reader`; `old` has expired. */
function authenticate(token: string): Promise<Actor> {
  if (token === "alice") return Promise.resolve(ALICE);
  if (token === "reader") return Promise.resolve({ ...ALICE, scopes: new Set(["room.read"]) });
  return Promise.reject(new Fault(token === "old" ? "token_expired" : "unauthenticated", "The token is not valid"));
}

/** `RunOnce` in memory. */
function createMemoryRunOnce(): RunOnce {
  const entries = new Map<string, { fingerprint: string; response: StoredResponse | undefined }>();
  return async (scope, fingerprint, work) => {
    const id = JSON.stringify(scope);
    const entry = entries.get(id);
    if (entry !== undefined && entry.fingerprint !== fingerprint) {
      throw new Fault("idempotency_key_reused", "The key belongs to another request");
    }
    if (entry !== undefined) {
      if (entry.response === undefined) throw new Fault("idempotency_in_flight", "The first request is still running");
      return { response: entry.response, isReplay: true };
    }
    entries.set(id, { fingerprint, response: undefined });
    try {
      const response = await work();
      entries.set(id, { fingerprint, response: response });
      return { response, isReplay: false };
    } catch (error) {
      entries.delete(id);
      throw error;
    }
  };
}

type Call = (path: string, init?: RequestInit & { ip?: string; token?: string | null }) => Promise<Response>;

/** A gateway of the sample; `call` authenticates as alice by default. */
export function createSampleGateway(
  overrides: Partial<HttpDeps> = {},
): { call: Call; sample: SampleState; metrics: Metrics; deps: HttpDeps } {
  const sample: SampleState = { rooms: new Map(), inputs: [], signals: [], runs: 0 };
  sample.rooms.set("room_1", { id: "room_1", name: "One", kind: "public", tags: [], version: 3 });
  const metrics = overrides.metrics ?? new Metrics();
  const deps: HttpDeps = {
    operations: createSampleOperations(sample),
    dispatch: createDispatch({
      metrics,
      consumeRate: undefined,
      writeRate: { perSecond: 1, burst: 1 },
    }),
    authenticate,
    runOnce: createMemoryRunOnce(),
    metrics,
    checkReadiness: () => Promise.resolve({ ready: true, checks: { store: true } }),
    version: "0.1.0",
    guard: new MemoryGuard({ budgetBytes: Infinity, metrics }),
    ...overrides,
  };
  const http = createHttpHandler(deps);
  const call: Call = (path, { ip = "192.0.2.1", token = "alice", headers, ...init } = {}) => {
    const all = new Headers(headers);
    if (token !== null && !all.has("Authorization")) all.set("Authorization", `Bearer ${token}`);
    return http(new Request(new URL(path, "http://gateway.test"), { ...init, headers: all }), ip);
  };
  return { call, sample, metrics, deps };
}

/** A JSON body with its content type. */
export function jsonRequest(value: unknown, method = "POST", headers: Record<string, string> = {}): RequestInit {
  return {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    body: typeof value === "string" ? value : JSON.stringify(value),
  };
}
