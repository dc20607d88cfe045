// The stream of a run in the AI SDK's own client, the core of its `useChat`: cut off, and attached again.
import assert from "node:assert/strict";
import { AbstractChat, type ChatState, type ChatStatus, DefaultChatTransport, type UIMessage } from "npm:ai@7.0.173";
import { until } from "../../wait.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";

const RUNS = "http://gateway.test/v1/collaboration/ai/runs";
const WORDS = Array.from({ length: 40 }, (_, n) => `word ${n} `);

class State implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined;
  messages: UIMessage[] = [];

  pushMessage(message: UIMessage): void {
    this.messages = [...this.messages, message];
  }

  popMessage(): void {
    this.messages = this.messages.slice(0, -1);
  }

  replaceMessage(index: number, message: UIMessage): void {
    this.messages = this.messages.with(index, message);
  }

  snapshot<Thing>(thing: Thing): Thing {
    return structuredClone(thing);
  }
}

class Chat extends AbstractChat<UIMessage> {
  /** `network` is asked for each response. */
  constructor(id: string, token: string, { network, isReplay }: { network: typeof fetch; isReplay: boolean }) {
    super({
      id,
      state: new State(),
      transport: new DefaultChatTransport({
        api: RUNS,
        headers: { authorization: `Bearer ${token}` },
        fetch: network,
        resumeStreamIsReplay: isReplay,
      }),
    });
  }

  get text(): string {
    return this.messages.flatMap(({ parts }) => parts).map((part) => part.type === "text" ? part.text : "").join("");
  }
}

/** A network whose first response ends in the middle; the next one continues after its last event, if it shall. */
class CutNetwork {
  readonly #fixture: AgentFixture;
  readonly #isContinued: boolean;
  #lastEventId = "";
  responses = 0;

  constructor(fixture: AgentFixture, { isContinued }: { isContinued: boolean }) {
    this.#fixture = fixture;
    this.#isContinued = isContinued;
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    if (this.responses++ > 0 && this.#isContinued) request.headers.set("last-event-id", this.#lastEventId);
    const response = await this.#fixture.gateway.app.fetch(request, "127.0.0.1");
    return this.responses > 1 ? response : new Response(this.#beginning(response), response);
  };

  /** Up to the first text. */
  #beginning({ body }: Response): ReadableStream<Uint8Array> {
    const reader = (body ?? new ReadableStream()).getReader();
    let seen = "";
    return new ReadableStream({
      pull: async (stream) => {
        if (seen.includes(`"type":"text-delta"`)) {
          await reader.cancel();
          return stream.error(new TypeError("network error"));
        }
        const { value = new Uint8Array() } = await reader.read();
        seen += new TextDecoder().decode(value);
        this.#lastEventId = [...seen.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1] ?? "";
        stream.enqueue(value);
      },
    });
  }
}

for (const isReplay of [true, false]) {
  const how = isReplay ? "from the beginning" : "after the last event";
  Deno.test(`the AI SDK's client that is cut off and reads on ${how} has all of a run, once`, async () => {
    const gate = Promise.withResolvers<void>();
    await using fixture = await AgentFixture.open(
      ({ number }) =>
        number === 1
          ? callTools(["task_create", { roomId: fixture.roomId, title: "x" }])
          : { parts: [...WORDS.slice(0, 20), () => gate.promise, ...WORDS.slice(20)] },
      {
        agent: { tools: ["task.create"] },
      },
    );
    await fixture.mention(fixture.bob, "Go");
    await until(() => fixture.models.calls.length === 2);
    const { id } = await fixture.settled("running");
    const network = new CutNetwork(fixture, { isContinued: !isReplay });
    const chat = new Chat(id, fixture.alice.token, { network: network.fetch, isReplay });
    await chat.resumeStream();
    assert.equal(chat.status, "error");
    assert.match(chat.text, /^word 0 /);
    assert.ok(!chat.text.includes("word 39"));
    const reading = chat.resumeStream();
    await until(() => network.responses === 2);
    gate.resolve();
    await reading;
    assert.equal(chat.status, "ready", String(chat.error));
    assert.equal(chat.text, WORDS.join(""));
    assert.deepEqual(chat.messages.map(({ id, role }) => [id, role]), [[id, "assistant"]]);
    const tools = chat.messages.flatMap(({ parts }) => parts).filter(({ type }) => type === "dynamic-tool");
    assert.deepEqual(tools.map((part) => "state" in part && part.state), ["output-available"]);
    // A page that is opened later reads the same.
    const whole: typeof fetch = async (input, init) =>
      await fixture.gateway.app.fetch(new Request(input, init), "127.0.0.1");
    const late = new Chat(id, fixture.alice.token, { network: whole, isReplay: true });
    await late.resumeStream();
    assert.equal(late.text, WORDS.join(""));
  });
}
