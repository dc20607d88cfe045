// Runs of agents: what starts them, what they say, and how they end.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { captureLog } from "../../log_capture.ts";
import { eventually, until } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { assertProblem, createCaller, createRoom, ok, readRoomEvents, sendMessage } from "../fixtures.ts";

testOnEngines("a mention is answered in one message, with three events", async (environment) => {
  await using fixture = await AgentFixture.open(() => ({ parts: ["It is ", "Friday."] }), { environment });
  const asked = await fixture.mention(fixture.bob, "When is the release?");
  const run = await fixture.settled();
  assert.equal(run.trigger, "mention");
  assert.equal(run.triggerMessageId, asked.id);
  assert.deepEqual(run.askerIds, ["bob"]);
  assert.deepEqual(run.usage, { inputTokens: 10, cachedTokens: 0, outputTokens: 5, costMicros: 30 });
  const [, answer] = await fixture.messages();
  assert.equal(answer.text, "It is Friday.");
  assert.equal(answer.id, run.outputMessageId);
  assert.equal(answer.replyToId, asked.id);
  assert.equal(answer.senderId, fixture.agentId);
  assert.equal(answer.editCount, 0);
  const events = await readRoomEvents(fixture.alice, fixture.roomId, asked.seq);
  assert.deepEqual(events.map(({ type }) => type), ["run.started", "message.created", "run.finished"]);
  const [call] = fixture.models.calls;
  assert.match(JSON.stringify(call?.request.messages), /\[bob[^\]]*\] When is the release/);
});

Deno.test("a message without a mention starts nothing; a direct message, a reply and a command do", async () => {
  await using fixture = await AgentFixture.open();
  const { alice, bob, agentId, roomId, gateway } = fixture;
  await sendMessage(bob, roomId, "Good morning");
  await sendMessage(bob, roomId, "@all good morning", { mentions: { principalIds: [], room: true } });
  await gateway.runJobs();
  assert.deepEqual(await fixture.runs(), []);
  await sendMessage(bob, roomId, "/helper what is open?");
  await gateway.runJobs();
  assert.equal((await fixture.settled()).trigger, "command");
  const [, , , answer] = await fixture.messages();
  await sendMessage(bob, roomId, "Thanks", { replyToId: answer.id });
  await gateway.runJobs();
  assert.equal((await fixture.settled("succeeded", 2)).trigger, "reply");
  const direct = ok(await alice.post("/v1/rooms", { kind: "direct", memberIds: [agentId] })).id;
  await sendMessage(alice, direct, "Hi");
  await gateway.runJobs();
  assert.equal((await fixture.settled("succeeded", 1, direct)).trigger, "direct");
});

Deno.test("a response to a message in a thread is in the thread", async () => {
  await using fixture = await AgentFixture.open();
  const { bob, roomId } = fixture;
  const root = await sendMessage(bob, roomId, "The plan");
  await fixture.mention(bob, "Is it good?", { threadId: root.id });
  const run = await fixture.settled();
  assert.equal(run.threadId, root.id);
  assert.equal((await fixture.messages()).at(-1).threadId, root.id);
  assert.match(JSON.stringify(fixture.models.calls[0]?.request.messages), /The plan.*Is it good/);
});

testOnEngines("messages while the agent is busy share one further run", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "Done"] }), { environment });
  await fixture.mention(fixture.bob, "One");
  await fixture.settled("running");
  await fixture.mention(fixture.bob, "Two");
  await fixture.mention(fixture.alice, "Three");
  const [, queued] = await fixture.runs();
  assert.equal((await fixture.runs()).length, 2);
  assert.deepEqual(queued.askerIds, ["bob", "alice"]);
  gate.resolve();
  await fixture.settled("succeeded", 2);
  assert.equal((await fixture.texts()).filter((text) => text === "Done").length, 2);
  assert.match(JSON.stringify(fixture.models.calls[1]?.request.messages), /Two.*Three/);
});

testOnEngines("a cancelled run ends at once, says nothing, and the next mention is answered", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: ["Well", () => gate.promise, "no"] }), { environment });
  await fixture.mention(fixture.bob, "One");
  const { id } = await fixture.settled("running");
  await until(() => fixture.models.calls.length === 1);
  const path = `/v1/collaboration/ai/runs/${id}/cancel`;
  assertProblem(await fixture.bob.post(path, { reason: "x".repeat(301) }), 422, "validation_failed");
  const cancelled = ok(await fixture.bob.post(path, { reason: "  Wrong document " }));
  const error = { code: "cancelled", detail: "Wrong document" };
  assert.deepEqual([cancelled.status, cancelled.error], ["cancelled", error]);
  // The first one has ended it.
  assert.deepEqual(ok(await fixture.bob.post(path, { reason: "Another" })).error, error);
  const finished = (await readRoomEvents(fixture.alice, fixture.roomId)).filter(({ type }) => type === "run.finished");
  assert.deepEqual(finished.map(({ data }) => data.run.error), [error]);
  const admin = await fixture.gateway.as("root", { role: "admin" });
  const { items: entries } = ok(await admin.get(`/v1/collaboration/audit?operation=run.cancel&resourceId=${id}`));
  assert.deepEqual(entries.at(-1)?.changes, { id, reason: null });
  gate.resolve();
  fixture.answer(() => "Here");
  await fixture.mention(fixture.bob, "Two");
  await fixture.settled("succeeded", 2);
  assert.deepEqual(await fixture.texts(), ["One", "Two", "Here"]);
  assertProblem(
    await fixture.bob.post(`/v1/collaboration/ai/runs/${(await fixture.runs())[1].id}/cancel`),
    409,
    "run_finished",
  );
});

Deno.test("who asked learns of an empty response, unless the agent has sent something", async () => {
  await using fixture = await AgentFixture.open(() => "  \n", { agent: { tools: ["message.send"] } });
  await fixture.mention(fixture.bob, "Just so you know");
  const { outputMessageId } = await fixture.settled();
  const [, notice, ...more] = await fixture.messages();
  assert.deepEqual([notice.id, notice.type, more.length], [outputMessageId, "notice", 0]);
  assert.equal(notice.text, "I have nothing to say to this.");
  fixture.answer(({ last }) => last.includes("Send it") ? callTools(["message_send", { text: "Sent" }]) : "");
  await fixture.mention(fixture.bob, "Send it");
  assert.equal((await fixture.settled("succeeded", 2)).outputMessageId, null);
  assert.deepEqual((await fixture.texts()).slice(2), ["Send it", "Sent"]);
  // Nobody waits in the room for what a call starts: the caller reads the run.
  const call = { agentId: fixture.agentId, roomId: fixture.roomId, input: "Look around" };
  ok(await fixture.bob.post("/v1/collaboration/ai/runs", call));
  assert.equal((await fixture.settled("succeeded", 3)).outputMessageId, null);
  assert.equal((await fixture.texts()).length, 4);
});

Deno.test("a response that is cut by the model's limit continues, as one message", async () => {
  await using fixture = await AgentFixture.open(({ number }) => ({
    parts: [`part ${number} `],
    reason: number < 3 ? "length" : "stop",
  }));
  await fixture.mention(fixture.bob, "Tell me all");
  await fixture.settled();
  assert.deepEqual(await fixture.texts(), ["Tell me all", "part 1 part 2 part 3"]);
  // What was said is posted also if the agent may not go on.
  ok(await fixture.alice.patch(`/v1/collaboration/agents/${fixture.agentId}`, { maxSteps: 2 }));
  fixture.answer(({ number }) => ({ parts: [`part ${number} `], reason: "length" }));
  await fixture.mention(fixture.bob, "Tell me more");
  await fixture.settled("succeeded", 2);
  assert.match((await fixture.texts()).at(-1) ?? "", /^part 4 part 5 \n\n… \(cut: /);
});

Deno.test("a response of 20 000 tokens is one message with its beginning, and a file with all of it", async () => {
  const words = Array.from({ length: 20_000 }, (_, n) => `w${n % 100} `);
  await using fixture = await AgentFixture.open(() => ({ parts: words }));
  const asked = await fixture.mention(fixture.bob, "Tell me all");
  await fixture.settled();
  const [, answer, ...more] = await fixture.messages();
  assert.deepEqual([answer.editCount, more.length], [0, 0]);
  assert.match(answer.text, /^w0 w1 .*the whole text is in the file/s);
  const content = ok(await fixture.bob.get(`/v1/collaboration/files/${answer.files[0].id}/content`));
  assert.equal(content, words.join("").trim());
  const events = await readRoomEvents(fixture.alice, fixture.roomId, asked.seq);
  assert.deepEqual(events.map(({ type }) => type), ["run.started", "message.created", "run.finished"]);
});

Deno.test("a response that breaks off starts again, and is not spliced", async () => {
  await using fixture = await AgentFixture.open(({ number }) =>
    number === 1 ? { parts: ["The wrong"], error: "stream_broken" } : "The right"
  );
  await fixture.mention(fixture.bob, "Well?");
  await fixture.settled();
  assert.deepEqual(await fixture.texts(), ["Well?", "The right"]);
});

testOnEngines(
  "a text that turns out to be reasoning is none, neither while it is written nor later",
  async (environment) => {
    const [isShown, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await using fixture = await AgentFixture.open(() => ({
      parts: ["Hm, ".repeat(2000), () => isShown.promise, { kind: "reset" }, "The ", () => mayEnd.promise, "right"],
    }), { environment });
    await fixture.mention(fixture.bob, "Well?");
    const { id } = await fixture.settled("running");
    await eventually(async () => assert.match((await fixture.run(id)).text, /^Hm/));
    isShown.resolve();
    await eventually(async () => assert.doesNotMatch((await fixture.run(id)).text, /Hm/));
    mayEnd.resolve();
    await fixture.settled();
    assert.deepEqual(await fixture.texts(), ["Well?", "The right"]);
    const body = ok(
      await fixture.bob.post("/v1/collaboration/ai/completions", { messages: [{ role: "user", text: "?" }] }),
    );
    assert.equal(body.text, "The right");
  },
);

Deno.test("the failure of a model is reported to who asked, with the code in the run", async () => {
  await using fixture = await AgentFixture.open(() => ({ error: "bad_key" }));
  await fixture.mention(fixture.bob, "Well?");
  const run = await fixture.settled("failed");
  assert.deepEqual(run.error, { code: "model_failed", detail: "The model provider refused the API key (bad_key)" });
  const [, notice] = await fixture.messages();
  assert.equal(notice.type, "notice");
  assert.match(notice.text, /could not finish/);
});

testOnEngines(
  "what a provider says about a refused request is for those who may change the agent",
  async (environment) => {
    const step = { error: "request_refused", reply: "`reasoning` is not \0supported" } as const;
    await using fixture = await AgentFixture.open(() => step, { environment });
    const { bob, roomId, gateway } = fixture;
    await fixture.mention(bob, "Well?");
    const { id } = await fixture.settled("failed");
    const detailFor = async (who: Caller) => ok(await who.get(`/v1/collaboration/ai/runs/${id}`)).error.detail;
    const detail = "The model provider refused the request (request_refused)";
    assert.match(
      await detailFor(fixture.alice),
      /refused the request \(request_refused\): `reasoning` is not supported$/,
    );
    assert.equal(await detailFor(bob), detail);
    const seenByAll = [await fixture.runs(), await fixture.messages(), await readRoomEvents(fixture.alice, roomId)];
    assert.doesNotMatch(JSON.stringify(seenByAll), /reasoning/);
    gateway.clock.advance(25 * 3_600_000);
    await gateway.app.runMaintenance();
    assert.equal(await detailFor(await gateway.as("alice")), detail);
  },
);

testOnEngines("agents that mention each other in a room stop after three turns", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment });
  const { alice, roomId, gateway } = fixture;
  const { id } = ok(await alice.post("/v1/collaboration/agents", { handle: "other", displayName: "Other" }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
  fixture.answer(({ messages }) => JSON.stringify(messages[0]).includes("You are Helper") ? "@other go" : "@helper go");
  await fixture.mention(fixture.bob, "Start");
  await eventually(async () => {
    await gateway.runJobs();
    assert.deepEqual((await fixture.runs()).map(({ status }) => status), [
      "succeeded",
      "succeeded",
      "succeeded",
      "failed",
    ]);
  });
  const runs = await fixture.runs();
  assert.deepEqual(runs.map(({ chainDepth }) => chainDepth), [1, 2, 3, 4]);
  assert.equal(runs[3].error.code, "loop_stopped");
  assert.deepEqual(runs[2].askerIds, ["bob"]);
  await fixture.mention(fixture.bob, "Again");
  await eventually(async () => {
    await gateway.runJobs();
    assert.ok((await fixture.runs()).length > 4);
  });
});

testOnEngines(
  "agents that send each other messages from room to room stop after three turns, too",
  async (environment) => {
    const tools = ["message.send"];
    await using fixture = await AgentFixture.open(undefined, { environment, agent: { tools } });
    const { alice, bob, roomId, agentId, gateway } = fixture;
    const otherRoomId = await createRoom(alice, ["bob"]);
    const other = { handle: "other", displayName: "Other", tools };
    const { id: otherId } = ok(await alice.post("/v1/collaboration/agents", other));
    ok(await alice.put(`/v1/rooms/${otherRoomId}/members/${agentId}`));
    for (const id of [roomId, otherRoomId]) ok(await alice.put(`/v1/rooms/${id}/members/${otherId}`));
    fixture.answer(({ messages }) => {
      const to = JSON.stringify(messages[0]).includes("You are Helper")
        ? { roomId: otherRoomId, text: "@other over to you" }
        : { roomId, text: "@helper over to you" };
      return messages.at(-1)?.role === "tool"
        ? "Passed on"
        : callTools(["message_send", { ...to, parseMentions: true }]);
    });
    const outcomes = async (id: string) =>
      (await fixture.runs(id)).map(({ chainDepth, status, error }) => [chainDepth, error?.code ?? status]);
    await fixture.mention(bob, "Start");
    await eventually(async () => {
      await gateway.runJobs();
      assert.deepEqual(await outcomes(roomId), [[1, "succeeded"], [3, "succeeded"]]);
      assert.deepEqual(await outcomes(otherRoomId), [[2, "succeeded"], [4, "loop_stopped"]]);
    });
    await gateway.runJobs();
    assert.equal(fixture.models.calls.length, 6);
    // Nobody is asked for what all readers may see anyway.
    assert.deepEqual(ok(await alice.get(`/v1/collaboration/ai/approvals?roomId=${roomId}`)).items, []);
    await fixture.mention(bob, "Again");
    await eventually(async () => {
      await gateway.runJobs();
      assert.deepEqual((await outcomes(roomId))[2], [1, "succeeded"]);
    });
  },
);

Deno.test("a paused agent starts nothing, and what it was doing is cancelled", async () => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "late"] }));
  const { alice, agentId, roomId, bob } = fixture;
  await fixture.mention(bob, "One");
  await fixture.settled("running");
  const path = `/v1/collaboration/agents/${agentId}`;
  assertProblem(await bob.patch(path, { paused: true }), 403, "forbidden");
  ok(await alice.patch(path, { paused: true }));
  assert.equal((await fixture.settled("cancelled")).error.code, "agent_paused");
  gate.resolve();
  await fixture.mention(bob, "Two");
  assert.equal((await fixture.runs()).length, 1);
  assertProblem(await bob.post("/v1/collaboration/ai/runs", { agentId, roomId }), 409, "agent_paused");
  ok(await alice.patch(path, { paused: false }));
  fixture.answer(() => "Back");
  const run = ok(await bob.post("/v1/collaboration/ai/runs", { agentId, roomId, input: "Hi", wait: 30 }));
  assert.equal(run.status, "succeeded");
});

testOnEngines("who mentions an agent that is paused or overloaded learns that", async (environment) => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "ok"] }), { environment });
  const { gateway, alice, bob, agentId, roomId } = fixture;
  const path = `/v1/collaboration/agents/${agentId}`;
  const notices = async () => (await fixture.messages()).filter(({ type }) => type === "notice");
  ok(await alice.patch(path, { paused: true }));
  const asked = await fixture.mention(bob, "Anybody?");
  await fixture.mention(alice, "And now?");
  const thread = await fixture.mention(bob, "Here?", { threadId: asked.id });
  const [first, second] = await notices();
  assert.deepEqual((await notices()).length, 2);
  assert.deepEqual(
    [first.senderId, first.text, first.replyToId, first.threadId],
    [agentId, "I cannot respond to this: I am paused.", asked.id, null],
  );
  assert.equal(second.threadId, thread.threadId);
  gateway.clock.advance(600_000);
  await fixture.mention(bob, "Still?");
  assert.equal((await notices()).length, 3);
  assert.deepEqual(await fixture.runs(), []);

  ok(await alice.patch(path, { paused: false }));
  // Two at work and ten that wait: each thread has one of its own.
  for (let n = 0; n < 12; n++) {
    const { id } = await sendMessage(bob, roomId, `Topic ${n}`);
    await fixture.mention(bob, "Go", { threadId: id });
    if (n < 2) await eventually(async () => assert.equal((await fixture.runs()).at(-1)?.status, "running"));
  }
  await fixture.mention(bob, "One more");
  await fixture.mention(bob, "And one more");
  const said = (await notices()).slice(3);
  assert.deepEqual(said.map(({ text }) => text), [
    "I cannot respond to this: 10 requests are waiting already. Please ask again later.",
  ]);
  const failed = (await fixture.runs()).filter(({ status }) => status === "failed");
  assert.deepEqual(failed.map(({ error, outputMessageId }) => [error.code, outputMessageId]), [
    ["limit_reached", said[0]?.id],
    ["limit_reached", null],
  ]);
  gate.resolve();
});

Deno.test("who is removed or disabled while waiting for a run gets none of its text", async () => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: ["One ", () => gate.promise, "two"] }));
  const { gateway, alice, bob, roomId, agentId } = fixture;
  const boss = await gateway.as("boss", { role: "owner" });
  const bobs = bob.post("/v1/collaboration/ai/runs", { agentId, roomId, input: "Hi", wait: 30 });
  await eventually(async () => assert.equal((await fixture.runs())[0]?.text, "One "));
  const { id } = (await fixture.runs())[0];
  const alices = alice.get(`/v1/collaboration/ai/runs/${id}?wait=30`);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  ok(await boss.delete("/v1/collaboration/principals/alice"));
  gate.resolve();
  const asked = ok(await bobs);
  assert.deepEqual([asked.id, asked.text], [id, ""]);
  assertProblem(await alices, 401, "token_revoked");
});

Deno.test("runs of one agent are two at a time, of a tenant eight", async () => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "ok"] }));
  const { alice, bob, roomId, agentId } = fixture;
  for (let n = 0; n < 4; n++) {
    const root = await sendMessage(bob, roomId, `Thread ${n}`);
    ok(await alice.post("/v1/collaboration/ai/runs", { agentId, roomId, threadId: root.id }));
  }
  await until(() => fixture.models.calls.length === 2);
  assert.equal((await fixture.runs()).filter(({ status }) => status === "running").length, 2);
  gate.resolve();
  await eventually(async () => assert.ok((await fixture.runs()).every(({ status }) => status === "succeeded")));
});

Deno.test("one person does not take all runs of a tenant, however many agents they ask", async () => {
  const gate = Promise.withResolvers<void>();
  await using fixture = await AgentFixture.open(() => ({ parts: [() => gate.promise, "ok"] }));
  const { alice, bob, roomId, agentId } = fixture;
  const roots = await Promise.all(Array.from({ length: 10 }, (_, n) => sendMessage(bob, roomId, `Thread ${n}`)));
  // More wait than a node considers at once.
  for (let n = 0; n < 7; n++) {
    const { id } = ok(await alice.post("/v1/collaboration/agents", { displayName: `Agent ${n}` }));
    ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
    for (const { id: threadId } of roots) {
      ok(await alice.post("/v1/collaboration/ai/runs", { agentId: id, roomId, threadId }));
    }
  }
  await until(() => fixture.models.calls.length === 6);
  const { id } = ok(await bob.post("/v1/collaboration/ai/runs", { agentId, roomId, input: "Hi" }));
  await until(() => fixture.models.calls.length === 7);
  assert.equal((await fixture.run(id)).status, "running");
  gate.resolve();
  await eventually(async () => assert.equal((await fixture.run(id)).status, "succeeded"));
});

testOnEngines("of runs that wait, the first is of who has the fewest at work", async (environment) => {
  const gates = Array.from({ length: 8 }, () => Promise.withResolvers<void>());
  await using fixture = await AgentFixture.open(
    ({ number }) => ({ parts: [() => gates[number - 1]?.promise, "ok"] }),
    { environment },
  );
  const { alice, bob, roomId, agentId } = fixture;
  for (let n = 0; n < 5; n++) {
    const { id: threadId } = await sendMessage(alice, roomId, `Thread ${n}`);
    ok(await alice.post("/v1/collaboration/ai/runs", { agentId, roomId, threadId }));
  }
  await until(() => fixture.models.calls.length === 2);
  const { id } = ok(await bob.post("/v1/collaboration/ai/runs", { agentId, roomId, input: "Hi" }));
  gates[0]?.resolve();
  await until(() => fixture.models.calls.length === 3);
  assert.equal((await fixture.run(id)).status, "running");
  for (const gate of gates) gate.resolve();
  await eventually(async () => assert.ok((await fixture.runs()).every(({ status }) => status === "succeeded")));
});

Deno.test("outsiders and those who joined later do not see a run", async () => {
  await using fixture = await AgentFixture.open();
  const { alice, gateway, roomId } = fixture;
  ok(await alice.patch(`/v1/rooms/${roomId}`, { historyVisibility: "joined" }));
  await fixture.mention(fixture.bob, "Secret?");
  const { id } = await fixture.settled();
  const carol = await createCaller(gateway, "carol");
  assertProblem(await carol.get(`/v1/collaboration/ai/runs/${id}`), 404, "not_found");
  ok(await alice.put(`/v1/rooms/${roomId}/members/carol`));
  assertProblem(await carol.get(`/v1/collaboration/ai/runs/${id}`), 404, "not_found");
  assert.deepEqual(ok(await carol.get(`/v1/collaboration/ai/runs?roomId=${roomId}`)).items, []);
  assert.doesNotMatch(JSON.stringify(await readRoomEvents(carol, roomId)), /Secret|run_/);
});

Deno.test("a day after its end, a run has no texts any longer; after 90 days, it is deleted", async () => {
  await using fixture = await AgentFixture.open(() => "The secret is swordfish");
  const { gateway, roomId } = fixture;
  await fixture.mention(fixture.bob, "Well?");
  const { id } = await fixture.settled();
  const read = async () => await (await gateway.as("alice")).get(`/v1/collaboration/ai/runs/${id}`);
  await gateway.app.runMaintenance();
  assert.match(JSON.stringify(ok(await read()).steps), /swordfish/);
  gateway.clock.advance(25 * 3_600_000);
  await gateway.app.runMaintenance();
  const trimmed = ok(await read());
  assert.equal(trimmed.status, "succeeded");
  assert.doesNotMatch(JSON.stringify(trimmed), /swordfish/);
  gateway.clock.advance(90 * 24 * 3_600_000);
  await gateway.app.runMaintenance();
  assertProblem(await read(), 404, "not_found");
  assert.match(JSON.stringify(await (await gateway.as("alice")).get(`/v1/messages?roomId=${roomId}`)), /swordfish/);
});

Deno.test("who asked is notified when the agent waits for a decision or a reply, until there is one", async () => {
  await using fixture = await AgentFixture.open(
    ({ number }) =>
      number === 1 || number === 4
        ? callTools(["task_create", { title: "Paint" }])
        : number === 2
        ? callTools(["ask_user", { question: "Which colour?" }])
        : "Thanks",
    { agent: { tools: ["task.*"], askFirst: ["task.create"] } },
  );
  const { alice, bob, roomId } = fixture;
  // deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
  const waiting = async (who: Caller): Promise<any[]> =>
    ok(await who.get("/v1/collaboration/notifications?unread=true&kind=approval_requested&kind=question_asked"))
      .items;
  const { id: earlierId } = ok(
    await alice.post("/v1/messages", { roomId, text: "Look!", mentions: { principalIds: ["bob"] } }),
  );
  const log = await captureLog(["gateway"], async () => {
    await fixture.mention(bob, "Paint the door");
    await fixture.settled("waiting_approval");
  });
  assert.deepEqual(log.filter(({ level }) => level !== "debug" && level !== "info"), [], "nothing failed");
  const [run] = await fixture.runs();
  const [{ kind, actor, resource, ...asked }] = await waiting(bob);
  assert.deepEqual([kind, actor.id, resource.id, asked.messageId, asked.roomId], [
    "approval_requested",
    fixture.agentId,
    run.id,
    run.triggerMessageId,
    roomId,
  ]);
  assert.deepEqual(await waiting(alice), []);
  const [approval] = ok(await alice.get(`/v1/collaboration/ai/approvals?roomId=${roomId}`)).items;
  ok(await alice.post(`/v1/collaboration/ai/approvals/${approval.id}/decision`, { decision: "approve" }));
  await fixture.settled("waiting_input");
  assert.deepEqual((await waiting(bob)).map((one) => one.kind), ["question_asked"]);
  ok(await bob.post(`/v1/collaboration/ai/runs/${run.id}/reply`, { text: "Red" }));
  assert.deepEqual(await waiting(bob), []);
  await fixture.settled();
  const { items: unread } = ok(await bob.get("/v1/collaboration/notifications?unread=true"));
  assert.deepEqual(
    unread.filter(({ kind }: { kind: string }) => kind === "mention").map((one: { messageId: string }) =>
      one.messageId
    ),
    [earlierId],
    "what else is unread in the room stays so",
  );

  await fixture.mention(bob, "Paint the floor");
  await fixture.settled("waiting_approval", 2);
  const { resource: stopped } = (await waiting(bob))[0];
  ok(await alice.post(`/v1/collaboration/ai/runs/${stopped.id}/cancel`));
  assert.deepEqual(await waiting(bob), []);
});
