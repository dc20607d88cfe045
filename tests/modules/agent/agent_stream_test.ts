// The stream of a run: all of it, also for those who come late or were cut off.
import assert from "node:assert/strict";
import { once } from "node:events";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { iso, nextTick, systemClock } from "@/core/time/clock.ts";
import { eventBody } from "@/core/http/event_stream.ts";
import { RunPublisher } from "@/modules/agent/run/publisher.ts";
import { RunStore } from "@/modules/agent/run/store.ts";
import { RunNotices } from "@/modules/agent/run/ui_stream.ts";
import { replace } from "../../replace.ts";
import { eventually, pause, until } from "../../wait.ts";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { createCallers, createRoom, ok } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";

type Part = { type: string; id?: string; delta?: string; [field: string]: unknown };
type Received = { id: string; part: Part };

/** Reads the stream of a run until it ends or `isEnough`. */
async function readStream(
  { alice }: AgentFixture,
  runId: string,
  { lastEventId, isEnough = () => false }: { lastEventId?: string; isEnough?: (received: Received[]) => boolean } = {},
): Promise<Received[]> {
  const headers: Record<string, string> = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  const response = await alice.open(`/v1/collaboration/ai/runs/${runId}/stream`, { headers });
  assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
  const received: Received[] = [];
  let text = "";
  for await (const chunk of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) {
      const [, id = "", data] = /^(?:id: (\S+)\n)?data: (.*)$/s.exec(event) ?? [];
      if (data !== undefined && data !== "[DONE]") received.push({ id, part: JSON.parse(data) });
    }
    if (isEnough(received)) break;
  }
  return received;
}

/** Reads a stream to its end; `seen` has what was received so far. */
function watchStream(fixture: AgentFixture, runId: string): { seen: Received[]; reading: Promise<Received[]> } {
  const seen: Received[] = [];
  const reading = readStream(fixture, runId, {
    isEnough(received) {
      seen.splice(0, Infinity, ...received);
      return false;
    },
  });
  return { seen, reading };
}

/** The texts by part, as a client puts them together. */
function textsOf(received: readonly Received[]): string[] {
  const texts = new Map<string, string>();
  for (const { part: { type, id = "", delta = "" } } of received) {
    if (type === "text-delta") texts.set(id, (texts.get(id) ?? "") + delta);
  }
  return [...texts.values()];
}

testOnEngines("a stream has the whole text once, the tools, and the end; also after it", async (environment) => {
  const gate = Promise.withResolvers<void>();
  const words = Array.from({ length: 30 }, (_, n) => `word ${n} `);
  await using fixture = await AgentFixture.open(
    ({ number }) =>
      number === 1
        ? callTools(["task_create", { roomId: fixture.roomId, title: "x" }])
        : { parts: [...words.slice(0, 10), () => gate.promise, ...words.slice(10)] },
    {
      environment,
      agent: { tools: ["task.create"] },
    },
  );
  await fixture.mention(fixture.bob, "Go");
  await until(() => fixture.models.calls.length === 2);
  const { id } = (await fixture.runs())[0];
  const reading = readStream(fixture, id);
  await until(async () => (await fixture.run(id)).text.length > 0 || true);
  gate.resolve();
  const received = await reading;
  assert.deepEqual(textsOf(received), [words.join("")]);
  const types = received.map(({ part }) => part.type).filter((type) => type !== "text-delta");
  const all = [
    "start",
    "start-step",
    "tool-input-available",
    "finish-step",
    "tool-output-available",
    "start-step",
    "text-start",
    "text-end",
    "finish-step",
    "finish",
  ];
  assert.deepEqual(types, all);
  const late = await readStream(fixture, id);
  assert.deepEqual(textsOf(late), [words.join("")]);
  assert.deepEqual(late.map(({ part }) => part.type).filter((type) => type !== "text-delta"), all);
});

testOnEngines("a client that was cut off continues where it was, on the other side of the cut", async (environment) => {
  const gate = Promise.withResolvers<void>();
  const words = Array.from({ length: 40 }, (_, n) => `word ${n} `);
  await using fixture = await AgentFixture.open(
    () => ({ parts: [...words.slice(0, 20), () => gate.promise, ...words.slice(20)] }),
    { environment },
  );
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("running");
  const isBegun = (received: Received[]) => received.some(({ part }) => part.type === "text-delta");
  const first = await readStream(fixture, id, { isEnough: isBegun });
  const rest = readStream(fixture, id, { lastEventId: first.at(-1)?.id ?? "" });
  gate.resolve();
  const second = await rest;
  assert.equal([...first, ...second].map(({ part }) => part.delta ?? "").join(""), words.join(""));
  assert.equal([...first, ...second].filter(({ part }) => part.type === "text-start").length, 1);
  assert.equal(second.at(-1)?.part.type, "finish");
});

Deno.test("a response that breaks off and starts again is announced, not spliced", async () => {
  const gate = Promise.withResolvers<void>();
  const broken = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(({ number }) =>
    number === 1
      ? { parts: ["The wrong ", () => gate.promise], error: "stream_broken" }
      : { parts: [() => broken.promise, "The right"] }
  );
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("running");
  const { seen, reading } = watchStream(fixture, id);
  await eventually(() => assert.match(JSON.stringify(seen), /The wrong/));
  gate.resolve();
  await eventually(() => assert.match(JSON.stringify(seen), /data-reset/));
  broken.resolve();
  assert.deepEqual(textsOf(await reading), ["The wrong ", "The right"]);
  // Who was cut off before it broke learns it, too.
  const before = seen.findLast(({ part }) => part.delta === "The wrong ");
  const late = await readStream(fixture, id, { lastEventId: before?.id ?? "" });
  assert.deepEqual(late.map(({ part }) => part.type).slice(0, 2), ["text-end", "data-reset"]);
  assert.deepEqual(textsOf(late), ["The right"]);
});

for (const cause of ["it breaks off", "another node takes over"]) {
  testOnEngines(
    `when watchers learn that a response starts again since ${cause}, it is not stored`,
    async (environment) => {
      const gate = Promise.withResolvers<void>();
      const stored: Promise<unknown>[] = [];
      await using fixture = await AgentFixture.open(
        ({ number }) =>
          number === 1
            ? { parts: ["The wrong ", waitFor(gate)], error: "stream_broken" }
            : { parts: [() => Promise.all(stored), "The right"] },
        { environment },
      );
      const { db } = fixture.gateway.app.store;
      const { reset } = RunPublisher.prototype;
      using _noted = replace(RunPublisher.prototype, "reset", function (this: RunPublisher, run, step) {
        stored.push(db.selectFrom("agent_run").select("text").where("id", "=", run.id).executeTakeFirst());
        reset.call(this, run, step);
      });
      await fixture.mention(fixture.bob, "Go");
      const { id } = await fixture.settled("running");
      await until(async () => (await fixture.run(id)).text === "The wrong ");
      if (cause === "it breaks off") gate.resolve();
      else await endLease(fixture, id, "The wrong ");
      await fixture.settled();
      assert.deepEqual(await Promise.all(stored), [{ text: "" }]);
    },
  );
}

testOnEngines("what was shown and not saved before another node takes over is not spliced", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(({ number }) => ({
    parts: number === 1 ? ["The wrong ", waitFor()] : ["The right response", waitFor(gate)],
  }), { environment });
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("running");
  const { seen, reading } = watchStream(fixture, id);
  await eventually(() => assert.match(JSON.stringify(seen), /The wrong/));
  await endLease(fixture, id, "");
  await eventually(() => assert.match(JSON.stringify(seen), /response/));
  gate.resolve();
  assert.deepEqual(textsOf(await reading), ["The wrong ", "The right response"]);
});

testOnEngines("what was shown when a node stops is stored, so that it is known to start again", async (environment) => {
  await using fixture = await AgentFixture.open(() => ({ parts: ["The wrong ", waitFor()] }), { environment });
  const { app } = fixture.gateway;
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("running");
  await readStream(fixture, id, { isEnough: (received) => received.some(({ part }) => part.type === "text-delta") });
  await app.drain();
  const read = app.store.db.selectFrom("agent_run").select(["status", "text"]).where("id", "=", id);
  // A node that stops waits for a limited time, whatever is slow.
  await eventually(async () =>
    assert.deepEqual(await read.executeTakeFirst(), { status: "queued", text: "The wrong " })
  );
});

/** A model says no more until the gate opens, or its call is ended. */
function waitFor(gate = Promise.withResolvers<void>()): (signal: AbortSignal) => Promise<unknown> {
  return (signal) => Promise.race([gate.promise, once(signal, "abort")]);
}

/** From now on the run belongs to a node that ended after it had saved a text: what executes it loses it, and it is claimed again. */
async function endLease({ gateway }: AgentFixture, id: string, text: string): Promise<void> {
  const { clock, app: { store } } = gateway;
  const lost = { text, lease_owner: "1:lease_gone", lease_until: iso(clock.now() - 1) };
  await store.write((tx) => tx.db.updateTable("agent_run").set(lost).where("id", "=", id).execute());
}

Deno.test("a stream of a cancelled run ends with it", async () => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: ["Well", () => gate.promise] }));
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("running");
  const reading = readStream(fixture, id);
  ok(await fixture.bob.post(`/v1/collaboration/ai/runs/${id}/cancel`));
  gate.resolve();
  assert.deepEqual((await reading).slice(-2).map(({ part }) => part.type), ["abort", "finish"]);
});

Deno.test("a tenant whose streams nobody reads leaves some of a node to the others", async () => {
  const gate = Promise.withResolvers<string>();
  await using fixture = await AgentFixture.open(() => gate.promise);
  const { gateway, alice, agentId } = fixture;
  const names = Array.from({ length: 17 }, (_, n) => `reader${n}`);
  const readers = Object.values(await createCallers(gateway, ...names));
  const start = async (who: Caller, memberIds: string[], askedId: string): Promise<string> => {
    const roomId = await createRoom(who, memberIds);
    ok(await who.put(`/v1/rooms/${roomId}/members/${askedId}`));
    return ok(await who.post("/v1/collaboration/ai/runs", { agentId: askedId, roomId, input: "Hi" })).id;
  };
  const left = new AbortController();
  const open = async (who: Caller, runId: string): Promise<number> => {
    const response = await who.open(`/v1/collaboration/ai/runs/${runId}/stream`, { signal: left.signal });
    unread.push(response);
    return response.status;
  };
  const unread: Response[] = [];
  const runId = await start(alice, names, agentId);
  const statuses: number[] = [];
  for (const reader of readers) for (let n = 0; n < 8; n++) statuses.push(await open(reader, runId));
  assert.deepEqual([statuses.indexOf(429), statuses.filter((status) => status === 429).length], [128, 8]);
  // One that is refused reads no run.
  const [, second] = readers;
  const statements = await recordQueries(async () => {
    assert.equal(second && await open(second, runId), 429);
    ok(await alice.get("/v1/rooms"));
  });
  assert.deepEqual(statements.filter(({ sql }) => sql.includes("agent_run")), []);
  const other = await gateway.as("other", { tenant: "other" });
  const { id } = ok(await other.post("/v1/collaboration/agents", { handle: "helper", displayName: "Helper" }));
  assert.equal(await open(other, await start(other, [], id)), 200);
  // Places are free again once clients have left.
  for (const { body } of unread) await body?.cancel();
  const [first] = readers;
  assert.equal(first && await open(first, runId), 200);
  await unread.at(-1)?.body?.cancel();
  gate.resolve("Hi");
});

Deno.test("streams of a caller that start at once read their runs one after the other, others have their turn in between", async () => {
  await using fixture = await AgentFixture.open(() => ({ parts: ["Hi"] }));
  await fixture.mention(fixture.bob, "Go");
  const { id } = await fixture.settled("succeeded");
  const { stepsFrom } = RunStore.prototype;
  let reads = 0;
  RunStore.prototype.stepsFrom = function (...given) {
    reads++;
    return stepsFrom.apply(this, given);
  };
  let isDone = false;
  const reading = Promise.all(Array.from({ length: 8 }, () => readStream(fixture, id))).finally(() => isDone = true);
  let most = 0;
  while (!isDone) {
    const before = reads;
    await nextTick();
    most = Math.max(most, reads - before);
  }
  RunStore.prototype.stepsFrom = stepsFrom;
  assert.equal((await reading).length, 8);
  assert.ok(reads >= 8 && most <= 2, `${most} of ${reads} in a tick`);
});

Deno.test("a client that does not read has little waiting for it: the rest is in the store", async () => {
  const bus = new MemoryBus();
  const run = { tenant_id: "t", id: "run_1", room_id: "room_1", agent_id: "robo" };
  using notices = await RunNotices.of(bus, run, { principalId: "alice", ownerId: null }, () => () => {});
  const publisher = new RunPublisher({ bus, clock: systemClock });
  const text = "x".repeat(10_000);
  const next = () => notices.next(0);
  for (let n = 0; n < 5; n++) publisher.delta(run, 0, n * text.length, text);
  assert.equal(notices.isInterrupted, false);
  assert.equal((await next()).length, 5);
  for (let n = 5; n < 100; n++) publisher.delta(run, 0, n * text.length, text);
  assert.equal(notices.isInterrupted, true);
  assert.ok((await next()).length < 10);
});

Deno.test("a change of a run while it is read ends the next wait at once", async () => {
  const run = { tenant_id: "t", id: "run_1" };
  const listeners = new Set<() => void>();
  {
    using notices = await RunNotices.of(new MemoryBus(), run, { principalId: "alice", ownerId: null }, (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    });
    notices.resume();
    for (const listener of listeners) listener();
    assert.deepEqual(await notices.next(2 ** 31 - 1), []);
    assert.equal(notices.isInterrupted, false);
  }
  assert.equal(listeners.size, 0);
});

Deno.test("a client that takes nothing is disconnected; one that waits for events is not, nor is one that takes them", async () => {
  const ended: string[] = [];
  const open = (name: string, stallMs: number, draining = new AbortController().signal) => {
    const events = (async function* (): AsyncGenerator<string, undefined> {
      try {
        for (let n = 0;; n++) {
          if (n === 1) await pause(50);
          yield `${n}`;
        }
      } finally {
        ended.push(name);
      }
    })();
    return eventBody(events, { stallMs, draining, onEnd: () => ended.push(`place of ${name}`) });
  };
  const unread = open("unread", 5);
  await until(() => ended.length === 2);
  assert.deepEqual(ended, ["place of unread", "unread"]);
  await assert.rejects(unread.getReader().read(), /takes nothing/);
  // For the second event, its client waits for longer than an event may wait for a client.
  const reader = open("read", 20).getReader();
  const texts = [await reader.read(), await reader.read()].map(({ value }) => new TextDecoder().decode(value));
  assert.deepEqual(texts, ["0", "1"]);
  await reader.cancel();
  // When the node stops, nothing waits for a client.
  const drain = new AbortController();
  const stopped = open("stopped", 60_000, drain.signal);
  await pause(0);
  drain.abort();
  await until(() => ended.length === 6);
  assert.deepEqual(ended.slice(2), ["place of read", "read", "place of stopped", "stopped"]);
  assert.equal((await Array.fromAsync(stopped)).length, 1);
});
