// An evening of a team: three people and two agents, one of which keeps tasks and the calendar, while a node of the gateway dies and
// one is stopped: the only one, or one of two.
import assert from "node:assert/strict";
import { type ModelCall, ModelServer } from "../model_server.ts";
import type { ScriptedStep } from "../scripted_models.ts";
import { Cluster, type ClusterOptions, hasServers } from "../fault/cluster.ts";
import { isQuick } from "../tier.ts";
import { eventually } from "../wait.ts";

const API = "/v1/collaboration";
const PEOPLE = ["Ann", "Bob", "Cid"] as const;
const MEETING = { dateTime: "2027-03-18T09:00:00", timeZone: "Europe/Vienna" };
type Name = (typeof PEOPLE)[number];

// deno-lint-ignore no-explicit-any -- bodies of every shape, as in the harness
type Body = any;

const callTools = (...calls: [name: string, input: unknown][]): ScriptedStep => ({
  parts: calls.map(([name, input], n) => ({ kind: "tool", callId: `c${n}`, name, input: JSON.stringify(input) })),
});

/** The two models. What they say is made of what they read: the conversation, and the results of their tools. */
class Script implements Disposable {
  roomId = "";
  /** The node that has received half of the first response; the other half does not come. */
  readonly halfSaid: Promise<number>;
  readonly #half = Promise.withResolvers<number>();
  readonly #never = Promise.withResolvers<void>();
  #isCut = false;

  constructor() {
    this.halfSaid = this.#half.promise;
  }

  answer({ path, body: { messages } }: ModelCall): ScriptedStep {
    const [system] = messages;
    const asked: string = messages.findLast(({ role }: Body) => role === "user").content;
    const since = messages.slice(messages.findLastIndex(({ role }: Body) => role === "user") + 1);
    const results: Body[] = since.flatMap(({ role, content }: Body) => role === "tool" ? [JSON.parse(content)] : []);
    return system.content.includes("You are Planner") ? this.#plan(asked, results, nodeOf(path)) : summarize(messages);
  }

  [Symbol.dispose](): void {
    this.#never.resolve();
  }

  #plan(asked: string, results: Body[], node: number): ScriptedStep {
    const { roomId } = this;
    const order = asked.slice(asked.lastIndexOf("@planner"));
    if (order.includes("please note")) {
      const create = (title: string, who: string) => ["task_create", { roomId, title, assigneeIds: [who] }] as const;
      if (results.length === 0) {
        return callTools([...create("Fix the login", "bob")], [...create("Write the release notes", "cid")]);
      }
      const noted = results.map(({ title, assigneeIds }) => `- ${title} (${assigneeIds.join()})`);
      if (this.#isCut) return { parts: ["Noted:\n", noted.join("\n")] };
      this.#isCut = true;
      return { parts: ["Noted, I th", () => this.#half.resolve(node), () => this.#never.promise] };
    }
    if (order.includes("meeting")) {
      const attendees = PEOPLE.map((name) => ({ principalId: name.toLowerCase() }));
      const event = { roomId, title: "Release meeting", start: MEETING, durationMinutes: 30, attendees };
      if (results.length === 0) return callTools(["event_create", event]);
      const [{ title, start: { dateTime } }] = results;
      return { parts: [`${title} on ${dateTime.slice(0, 10)} at ${dateTime.slice(11, 16)}, all of you are invited.`] };
    }
    if (results.length === 0) return callTools(["task_list", { roomId: [roomId] }]);
    const notes = results[0].items.find(({ title }: Body) => title.includes("notes"));
    if (results.length === 1) return callTools(["task_update", { id: notes.id, status: "done" }]);
    const open = results[0].items.filter(({ id }: Body) => id !== notes.id).map(({ title }: Body) => title);
    return { parts: [`Done: ${results[1].title}. Still open: ${open.join(", ")}.`] };
  }
}

/** What the other agent said before it was asked. */
function summarize(messages: Body[]): ScriptedStep {
  const texts: string[] = messages.slice(1).map(({ content }: Body) => content);
  const said = texts.join("\n\n").split(/\n\n(?=\[)/).flatMap((text) =>
    /^\[Planner[^\]]*\] (.*)$/s.exec(text)?.[1] ?? []
  );
  return { parts: [said.length === 0 ? "Planner has said nothing yet." : `Planner said:\n${said.join("\n")}`] };
}

/** Each node has the model at an address of its own. */
function optionsOf({ port }: ModelServer): ClusterOptions {
  return {
    nodeEnvironment: (node) => ({
      SVC_AI_BASE_URL: `http://127.0.0.1:${port}/${node}/v1`,
      SVC_AI_MODEL: "m",
      SVC_OUTBOUND_ALLOW: "127.0.0.1",
    }),
  };
}

function nodeOf(path: string): number {
  return Number(path.split("/")[1]);
}

/** The room as those see it who are in it. */
class Room {
  /** That serves all of them. */
  node = 0;
  readonly #cluster: Cluster;
  id = "";

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  static async open(cluster: Cluster): Promise<Room> {
    const room = new Room(cluster);
    for (const name of PEOPLE) await room.call(name, "PATCH", `${API}/me`, { displayName: name });
    room.id = (await room.call("Ann", "POST", "/v1/rooms", { name: "Release", memberIds: ["bob", "cid"] })).id;
    return room;
  }

  call(who: Name, method: string, path: string, body?: unknown): Promise<Body> {
    return this.#cluster.call(this.node, who.toLowerCase(), method, path, body);
  }

  /** A node ends and comes again; all go on with the other one, if there is one. */
  async lose(node: number, signal: Deno.Signal): Promise<void> {
    await this.#cluster.node(node).stop(signal);
    await this.#cluster.node(node).start();
    this.node = (node + 1) % this.#cluster.nodes.length;
  }

  async addAgent(agent: Record<string, unknown>): Promise<string> {
    const { id } = await this.call("Ann", "POST", `${API}/agents`, agent);
    await this.call("Ann", "PUT", `/v1/rooms/${this.id}/members/${id}`, {});
    return id;
  }

  async say(who: Name, text: string): Promise<void> {
    await this.call(who, "POST", "/v1/messages", { roomId: this.id, text, parseMentions: true });
  }

  /** Oldest first, once there are so many of a status. */
  async runs(status: string, count: number): Promise<Body[]> {
    return await eventually(async () => {
      const { items } = await this.call("Bob", "GET", `${API}/ai/runs?roomId=${this.id}`);
      const found = items.filter((run: Body) => run.status === status).reverse();
      assert.equal(found.length, count, JSON.stringify(items));
      return found;
    });
  }

  async transcript(who: Name): Promise<string[]> {
    const { items, senders } = await this.call(who, "GET", `/v1/messages?roomId=${this.id}&include=senders&limit=100`);
    const names = new Map(senders.map(({ id, displayName }: Body) => [id, displayName]));
    return items.map(({ senderId, text }: Body) => `${names.get(senderId)}: ${text}`);
  }
}

async function spend(script: Script, cluster: Cluster): Promise<void> {
  const room = await Room.open(cluster);
  script.roomId = room.id;
  const tools = ["task.create", "task.list", "task.update", "event.create", "event.list"];
  await room.addAgent({ handle: "planner", displayName: "Planner", tools, askFirst: ["event.create"] });
  await room.addAgent({ handle: "scribe", displayName: "Scribe" });

  await room.say("Ann", "Good evening! The release is on Friday. Who does what?");
  await room.say("Bob", "@planner please note: I fix the login, Cid writes the release notes.");
  // The node dies while Planner speaks. Its tasks are there; its half answer never was a message.
  await room.lose(await script.halfSaid, "SIGKILL");
  await room.runs("succeeded", 1);

  await room.say("Ann", "@planner and a meeting on Thursday at nine, all of us.");
  await room.runs("waiting_approval", 1);
  // One is stopped while Planner waits for a decision, which holds nobody else up.
  await room.lose(room.node, "SIGTERM");
  await room.say("Cid", "@scribe what did I miss?");
  await room.runs("succeeded", 2);
  const { items: [approval] } = await room.call("Ann", "GET", `${API}/ai/approvals?roomId=${room.id}&status=pending`);
  assert.equal(approval.tool, "event.create");
  assert.deepEqual(JSON.parse(approval.input).start, MEETING);
  await assert.rejects(
    room.call("Cid", "POST", `${API}/ai/approvals/${approval.id}/decision`, { decision: "approve" }),
  );
  await room.call("Ann", "POST", `${API}/ai/approvals/${approval.id}/decision`, { decision: "approve" });
  await room.runs("succeeded", 3);

  await room.say("Cid", "@planner I have finished the notes.");
  await room.runs("succeeded", 4);
  await room.say("Bob", "Good night, all.");

  const transcript = await room.transcript("Bob");
  assert.deepEqual(transcript, [
    "Ann: Good evening! The release is on Friday. Who does what?",
    "Bob: @planner please note: I fix the login, Cid writes the release notes.",
    "Planner: Noted:\n- Fix the login (bob)\n- Write the release notes (cid)",
    "Ann: @planner and a meeting on Thursday at nine, all of us.",
    "Cid: @scribe what did I miss?",
    "Scribe: Planner said:\nNoted:\n- Fix the login (bob)\n- Write the release notes (cid)",
    "Planner: Release meeting on 2027-03-18 at 09:00, all of you are invited.",
    "Cid: @planner I have finished the notes.",
    "Planner: Done: Write the release notes. Still open: Fix the login.",
    "Bob: Good night, all.",
  ]);
  for (const name of PEOPLE) assert.deepEqual(await room.transcript(name), transcript);
  const { items: tasks } = await room.call("Cid", "GET", `${API}/tasks?roomId=${room.id}`);
  assert.deepEqual(
    tasks.map(({ title, status, assigneeIds }: Body) => [title, status, assigneeIds]).sort(),
    [["Fix the login", "todo", ["bob"]], ["Write the release notes", "done", ["cid"]]],
  );
  const march = "from=2027-03-01T00:00:00Z&to=2027-04-01T00:00:00Z";
  const { items: events } = await room.call("Bob", "GET", `${API}/calendar/events?${march}&roomId=${room.id}`);
  assert.deepEqual(events.map(({ title }: Body) => title), ["Release meeting"]);
  const everyone = await room.runs("succeeded", 4);
  assert.equal((await room.call("Bob", "GET", `${API}/ai/runs?roomId=${room.id}`)).items.length, everyone.length);
  assert.ok(everyone.every(({ error, outputMessageId }) => error === null && outputMessageId !== null));
}

const EVENING = "an evening of three people and two agents reads as if the gateway had never stopped";

Deno.test({
  name: `${EVENING}, on one node`,
  ignore: isQuick,
  async fn() {
    const script = new Script();
    await using models = new ModelServer((call) => script.answer(call));
    await using cluster = await Cluster.openSingle(optionsOf(models));
    using _ = script;
    await spend(script, cluster);
  },
});

Deno.test({
  name: `${EVENING}, on two nodes`,
  ignore: isQuick || !hasServers,
  async fn() {
    const script = new Script();
    await using models = new ModelServer((call) => script.answer(call));
    await using cluster = await Cluster.openShared(optionsOf(models));
    using _ = script;
    await spend(script, cluster);
  },
});
