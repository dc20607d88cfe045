// The entry point of every operation, when its work is rolled back and runs again.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import type { Actor } from "@/core/actor.ts";
import { createDispatch, parse } from "@/core/dispatch.ts";
import { Fault, RetryTransaction } from "@/core/fault.ts";
import { Metrics } from "@/core/metrics.ts";
import { defineOperation } from "@/core/operation.ts";
import { testOnPostgres } from "../engines.ts";
import { openGateway } from "../harness.ts";
import { createCallers, createRoom } from "../modules/fixtures.ts";

const ALICE = { tenantId: "default", principalId: "alice", kind: "human", role: "member" } as Actor; // enough to call

Deno.test("work that runs again is not a failure, and is counted against the rate once", async () => {
  const metrics = new Metrics();
  const taken: string[] = [];
  const rate = { perSecond: 1, burst: 1 };
  const dispatch = createDispatch({
    metrics,
    consumeRate: (key) => Promise.resolve(void taken.push(key)),
    writeRate: rate,
  });
  let runs = 0;
  const operation = defineOperation({
    name: "test.write",
    summary: "Succeeds when it runs again",
    access: { scope: "test.write" },
    http: { method: "POST", path: "/v1/test", status: 200 },
    input: z.strictObject({}),
    output: z.strictObject({ runs: z.int() }),
    example: {},
    run() {
      return ++runs < 3 ? Promise.reject(new RetryTransaction("Batch yielded")) : Promise.resolve({ runs });
    },
  });
  const call = { actor: ALICE, input: {}, requestId: "1", via: "test" };
  await assert.rejects(dispatch(operation, call), RetryTransaction);
  await assert.rejects(dispatch(operation, call), RetryTransaction);
  assert.deepEqual((await dispatch(operation, call)).output, { runs: 3 });
  assert.equal(taken.length, 1);
  await dispatch(operation, { ...call });
  assert.equal(taken.length, 2);
  const text = await metrics.registry.metrics();
  assert.doesNotMatch(text, /^svc_operation_errors_total\{/m);
  assert.match(text, /^svc_operation_throughput_total\{.*"test.write"\} 2$/m);
});

Deno.test("the result of a slow read is returned only to a caller that may still have it", async () => {
  let current: Actor | undefined = { ...ALICE, role: "owner" };
  let isMember = true;
  const dispatch = createDispatch({
    metrics: new Metrics(),
    consumeRate: undefined,
    writeRate: { perSecond: 1, burst: 1 },
    revalidate: () => Promise.resolve(current),
  });
  const read = defineOperation({
    name: "test.read",
    summary: "Read something of a room",
    access: { scope: "test.read", tenant: "member" },
    http: { method: "GET", path: "/v1/test", status: 200 },
    input: z.strictObject({}),
    output: z.strictObject({}),
    example: {},
    run(context) {
      context.checks?.push((actor) => {
        assert.equal(actor.role, "owner", "the check has the rights of now");
        return isMember ? Promise.resolve() : Promise.reject(new Fault("not_found", "No such room"));
      });
      return Promise.resolve({});
    },
  });
  const call = { actor: ALICE, input: {}, requestId: "1", via: "test" };
  const slow = { ...call, startedAt: performance.now() - 60_000 };
  const codeOf = (started: typeof call): Promise<string> =>
    dispatch(read, started).then(() => "ok", (fault: Fault) => fault.code);
  assert.equal(await codeOf(slow), "ok");
  isMember = false;
  assert.equal(await codeOf(slow), "not_found");
  isMember = true;
  current = { ...ALICE, role: "guest" };
  assert.equal(await codeOf(slow), "forbidden");
  current = undefined;
  assert.equal(await codeOf(slow), "token_revoked");
});

testOnPostgres(
  "conflicting keyed writes are not failures, and each message is counted once",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice");
    const rooms = await Promise.all(Array.from({ length: 3 }, () => createRoom(alice, [])));
    const answers = await Promise.all(Array.from({ length: 120 }, (_, n) => {
      const headers = n % 2 === 0 ? { "idempotency-key": `key ${n}` } : {};
      return alice.post("/v1/messages", { roomId: rooms[n % 3], text: `message ${n}` }, headers);
    }));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
    const text = await (await gateway.app.fetch(new Request("http://x/metrics"), "127.0.0.1")).text();
    assert.doesNotMatch(text, /^svc_operation_errors_total\{.*\} [1-9]/m);
    assert.match(text, /^svc_messages_received_total 120$/m);
  },
);

Deno.test("parse says which values a missing field may have", () => {
  const Input = z.strictObject({
    kind: z.enum(["a", "b"]),
    one: z.literal(1),
    count: z.int(),
    list: z.array(z.string()),
    time: z.iso.datetime(),
    day: z.iso.date(),
    part: z.int(),
    either: z.union([z.string(), z.number()]),
    shape: z.discriminatedUnion("type", [z.object({ type: z.literal("x") }), z.object({ type: z.literal("y") })]),
  });
  assert.throws(() => parse(Input, { time: "noon", day: "today", part: 1.5, shape: {} }), (fault: Fault) => {
    assert.deepEqual(fault.errors.map(({ pointer, detail }) => `${pointer}: ${detail}`), [
      '/kind: required, expected "a" or "b"',
      "/one: required, expected 1",
      "/count: required, expected number",
      "/list: required, expected array",
      "/time: expected a time such as 2026-03-01T09:00:00Z",
      "/day: expected a date such as 2026-03-01",
      "/part: expected an integer",
      "/either: required, expected string",
      "/shape/type: expected 'x' | 'y'",
    ]);
    return true;
  });
  const fields = Object.fromEntries(Array.from("abcdefgh", (name) => [name, z.string().optional()]));
  assert.throws(() => parse(z.object({ many: z.object(fields) }), { many: 1 }), {
    message: "/many: expected object {a, b, c, d, e, f, …}, received number",
  });
});
