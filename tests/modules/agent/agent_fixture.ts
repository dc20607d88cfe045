// A room with people and an agent, whose model says what a test scripts.
import assert from "node:assert/strict";
import type { ModelMessage } from "@/ports/model.ts";
import { type Caller, type Harness, openGateway } from "../../harness.ts";
import { ScriptedModels, type ScriptedStep } from "../../scripted_models.ts";
import { eventually } from "../../wait.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const SETTINGS = {
  SVC_AI_BASE_URL: "http://models.test/v1",
  SVC_AI_MODEL: "small context=64000 input=1 output=4",
};

/** What a model is asked: its last message, all of them, and how often it was called. */
type Asked = { last: string; messages: readonly ModelMessage[]; number: number; toolNames: string[] };
type Answer = (asked: Asked) => ScriptedStep | string | Promise<ScriptedStep | string>;

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

export class AgentFixture {
  readonly gateway: Harness;
  readonly models: ScriptedModels;
  readonly alice: Caller;
  readonly bob: Caller;
  readonly roomId: string;
  readonly agentId: string;

  private constructor(
    gateway: Harness,
    models: ScriptedModels,
    { alice, bob }: { alice: Caller; bob: Caller },
    roomId: string,
    agentId: string,
  ) {
    this.gateway = gateway;
    this.models = models;
    this.alice = alice;
    this.bob = bob;
    this.roomId = roomId;
    this.agentId = agentId;
  }

  /** Alice owns the room and the agent; Bob is a member. */
  static async open(
    answer: Answer = () => "Hello",
    { environment = {}, agent = {} }: { environment?: Record<string, string>; agent?: Record<string, unknown> } = {},
  ): Promise<AgentFixture> {
    const models = new ScriptedModels();
    const gateway = await openGateway({ ...SETTINGS, ...environment }, { models });
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    const { id } = ok(
      await alice.post("/v1/collaboration/agents", { handle: "helper", displayName: "Helper", ...agent }),
    );
    ok(await alice.put(`/v1/rooms/${roomId}/members/${id}`));
    const fixture = new AgentFixture(gateway, models, { alice, bob }, roomId, id);
    fixture.answer(answer);
    return fixture;
  }

  /** What the model says from now on. */
  answer(answer: Answer): void {
    this.models.script = async ({ request, number }) => {
      const { messages } = request;
      const last = messages.at(-1);
      const said = await answer({
        last: last === undefined ? "" : last.role === "tool" ? last.result : last.text,
        messages,
        number,
        toolNames: request.tools?.map(({ name }) => name) ?? [],
      });
      return typeof said === "string" ? { parts: [said] } : said;
    };
  }

  /** Mentions the agent in a message. */
  async mention(who: Caller, text: string, more: Record<string, unknown> = {}): Promise<Body> {
    const roomId = more.roomId as string ?? this.roomId;
    const message = await sendMessage(who, roomId, text, {
      mentions: { principalIds: [this.agentId], room: false },
      ...more,
    });
    await this.gateway.runJobs();
    return message;
  }

  /** The runs in the room, oldest first. */
  async runs(roomId = this.roomId): Promise<Body[]> {
    return ok(await this.alice.get(`/v1/collaboration/ai/runs?roomId=${roomId}&limit=200`)).items.reverse();
  }

  async run(id: string): Promise<Body> {
    return ok(await this.alice.get(`/v1/collaboration/ai/runs/${id}`));
  }

  /** The newest run, once it has a status. */
  async settled(status = "succeeded", count = 1, roomId = this.roomId): Promise<Body> {
    return await eventually(async () => {
      const runs = await this.runs(roomId);
      const last = runs.at(-1);
      assert.equal(runs.length, count);
      assert.equal(last?.status, status, JSON.stringify(last));
      return await this.run(last.id);
    });
  }

  /** Texts of the room, oldest first. */
  async texts(roomId = this.roomId): Promise<string[]> {
    const { items } = ok(await this.alice.get(`/v1/messages?roomId=${roomId}&limit=200`));
    return items.map((message: Body) => message.text);
  }

  async messages(roomId = this.roomId): Promise<Body[]> {
    return ok(await this.alice.get(`/v1/messages?roomId=${roomId}&limit=200`)).items;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.gateway[Symbol.asyncDispose]();
  }
}

/** A step in which the model calls tools. */
export function callTools(...calls: [name: string, input: unknown][]): ScriptedStep {
  return {
    parts: calls.map(([name, input], n) => ({ kind: "tool", callId: `c${n}`, name, input: JSON.stringify(input) })),
  };
}
