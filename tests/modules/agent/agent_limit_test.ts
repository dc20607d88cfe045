// Limits that a model sets a run: its context, the length of its response, and how often it may be called.
import assert from "node:assert/strict";
import { estimateTokens } from "@/core/text/tokens.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";
import { sendMessage } from "../fixtures.ts";

const CONTEXT_TOKENS = 8000;
const ENVIRONMENT = { SVC_AI_MODEL: `small context=${CONTEXT_TOKENS}` };

Deno.test("results of tools are cut to what the context of the model leaves, the oldest first", async () => {
  const READS = 6;
  await using fixture = await AgentFixture.open(
    ({ number }) => number <= READS ? callTools(["message_list", { limit: 10 }]) : "Done",
    { environment: ENVIRONMENT, agent: { tools: ["message.list"], maxOutputTokens: 1000 } },
  );
  for (let n = 0; n < 10; n++) await sendMessage(fixture.alice, fixture.roomId, `${n} ${"word ".repeat(100)}`);
  await fixture.mention(fixture.bob, "Read all");
  await fixture.settled();
  assert.equal((await fixture.texts()).at(-1), "Done");
  const { calls } = fixture.models;
  assert.equal(calls.length, READS + 1);
  for (const { request: { messages, tools, maxOutputTokens } } of calls) {
    const texts = messages.map((message) => message.role === "tool" ? message.result : message.text);
    const tokens = estimateTokens([JSON.stringify(tools), ...texts].join("\n")) + maxOutputTokens;
    assert.ok(tokens <= CONTEXT_TOKENS, `${tokens} tokens`);
  }
  const resultsOf = (call: typeof calls[number] | undefined) =>
    (call?.request.messages ?? []).flatMap((message) => message.role === "tool" ? [message.result] : []);
  const [first] = resultsOf(calls[1]);
  const last = resultsOf(calls.at(-1));
  assert.equal(last.length, READS);
  assert.equal(last.at(-1), first, "the newest is whole");
  assert.match(last[0] ?? "", /^\{.*… \(cut: the context of the model is full\)$/);
});

Deno.test("a model that is stopped before it says anything fails the run, which says why", async () => {
  const thought = { kind: "reasoning", text: "Hmm" } as const;
  for (
    const [reason, why] of [["length", /reached the limit/], ["filtered", /filter of the model provider/]] as const
  ) {
    await using fixture = await AgentFixture.open(() => ({ parts: [thought], reason }));
    await fixture.mention(fixture.bob, "Well?");
    const { error } = await fixture.settled("failed");
    assert.equal(error.code, "model_failed");
    assert.match(error.detail, why);
    assert.match((await fixture.texts()).at(-1) ?? "", why);
    assert.equal(fixture.models.calls.length, 1, "the same request again would cost the same");
  }
});

Deno.test("a response that the provider's filter or the model's limit ends is posted as not whole", async () => {
  await using fixture = await AgentFixture.open(() => ({ parts: ["The first half"], reason: "filtered" }));
  await fixture.mention(fixture.bob, "Well?");
  await fixture.settled();
  assert.match((await fixture.texts()).at(-1) ?? "", /^The first half\n\n… \(cut by the filter/);
  const thought = { kind: "reasoning", text: "Hmm" } as const;
  fixture.answer(({ number }) => ({ parts: number === 2 ? ["A part"] : [thought], reason: "length" }));
  await fixture.mention(fixture.bob, "And?");
  await fixture.settled("succeeded", 2);
  assert.match((await fixture.texts()).at(-1) ?? "", /^A part\n\n… \(cut: the limit/);
  assert.equal(fixture.models.calls.length, 3);
});

Deno.test("a tool whose arguments the limit of the response cut is not called, and the model learns why", async () => {
  const call = (input: string) => ({ kind: "tool", callId: "c", name: "task_list", input }) as const;
  for (const [reason, cut] of [["length", ""], ["length", '{"room'], ["filtered", ""]] as const) {
    await using fixture = await AgentFixture.open(
      ({ number }) => number === 1 ? { parts: [call("{}"), call(cut)], reason } : "Done",
      { agent: { tools: ["task.list"] } },
    );
    await fixture.mention(fixture.bob, "Well?");
    await fixture.settled();
    const { messages } = fixture.models.calls[1]?.request ?? { messages: [] };
    const [whole, refused] = messages.flatMap((message) => message.role === "tool" ? [message.result] : []);
    assert.match(whole ?? "", /"items":\[\]/);
    assert.match(refused ?? "", /ended within the arguments, so nothing was called/);
  }
});

Deno.test("a run waits as long as its provider asks, also where that is too long for who waits for a request", async () => {
  await using fixture = await AgentFixture.open(({ number }) =>
    number <= 4 ? { error: "rate_limited", retryAfterMs: 1 } : "Here"
  );
  await fixture.mention(fixture.bob, "Well?");
  await fixture.settled();
  assert.equal((await fixture.texts()).at(-1), "Here");
  assert.equal(fixture.models.calls.length, 5);
});

Deno.test("roles of a prompt alternate from a user's on, also in a thread below a message of the agent", async () => {
  await using fixture = await AgentFixture.open(() => "Here is the plan");
  await fixture.mention(fixture.bob, "Plan it");
  const { outputMessageId } = await fixture.settled();
  await fixture.mention(fixture.bob, "Shorter, please", { threadId: outputMessageId });
  await fixture.settled("succeeded", 2);
  const { messages = [] } = fixture.models.calls[1]?.request ?? {};
  // Templates of many open models refuse any other order.
  assert.deepEqual(messages.map(({ role }) => role), ["system", "user", "assistant", "user"]);
});

Deno.test("calls have ids that every model takes, and each its own", async () => {
  await using fixture = await AgentFixture.open(
    ({ number }) => number <= 2 ? callTools(["member_list", {}], ["member_list", {}]) : "Done",
    { agent: { tools: ["member.list"] } },
  );
  await fixture.mention(fixture.bob, "Who is here?");
  await fixture.settled();
  const { messages = [] } = fixture.models.calls.at(-1)?.request ?? {};
  const ids = messages.flatMap((message) => message.role === "tool" ? [message.callId] : []);
  assert.equal(new Set(ids).size, 4);
  // Mistral refuses all others.
  assert.ok(ids.every((id) => /^[a-zA-Z0-9]{9}$/.test(id)), ids.join());
});
