// An evening of a team: three people and two agents, one of which keeps tasks and the calendar, while the gateway dies once and is
// stopped once.
import assert from "node:assert/strict";
import { type ModelCall, ModelServer } from "../model_server.ts";
import type { ScriptedStep } from "../scripted_models.ts";
import { slowTest } from "../tier.ts";
import { eventually, until } from "../wait.ts";
import { openTarget, type Target } from "./target.ts";

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
class Script {
  roomId = "";
  /** Whether half of the first answer has been said; the other half does not come. */
  isHalfSaid = false;
  readonly #never = Promise.withResolvers<void>();
  #isCut = false;

  answer({ body: { messages } }: ModelCall): ScriptedStep {
    const [system] = messages;
    const asked: string = messages.findLast(({ role }: Body) => role === "user").content;
    const since = messages.slice(messages.findLastIndex(({ role }: Body) => role === "user") + 1);
    const results: Body[] = since.flatMap(({ role, content }: Body) => role === "tool" ? [JSON.parse(content)] : []);
    return system.content.includes("You are Planner") ? this.#plan(asked, results) : summarize(messages);
  }

  release(): void {
    this.#never.resolve();
  }

  #plan(asked: string, results: Body[]): ScriptedStep {
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
      return { parts: ["Noted, I th", () => this.isHalfSaid = true, () => this.#never.promise] };
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

/** The room as those see it who are in it. */
class Room {
  readonly #target: Target;
  readonly #tokens: Record<Name, string>;
  id = "";

  private constructor(target: Target, tokens: Record<Name, string>) {
    this.#target = target;
    this.#tokens = tokens;
  }

  static async open(target: Target): Promise<Room> {
    const entries = PEOPLE.map(async (name) => [name, await target.token({ sub: name.toLowerCase(), name })] as const);
    const tokens = Object.fromEntries(await Promise.all(entries)) as Record<Name, string>; // exactly these names
    const room = new Room(target, tokens);
    for (const name of PEOPLE) await room.call(name, "GET", `${API}/me`);
    room.id = (await room.call("Ann", "POST", "/v1/rooms", { name: "Release", memberIds: ["bob", "cid"] })).id;
    return room;
  }

  call(who: Name, method: string, path: string, body?: unknown): Promise<Body> {
    return this.#target.call(this.#tokens[who], method, path, body);
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

slowTest("an evening of three people and two agents reads as if the gateway had never stopped", async () => {
  await using stack = new AsyncDisposableStack();
  const script = new Script();
  const models = stack.use(new ModelServer((call) => script.answer(call)));
  const target = stack.use(
    await openTarget({ isOwn: true, environment: { SVC_AI_BASE_URL: models.url, SVC_AI_MODEL: "m" } }),
  );
  stack.defer(() => script.release());
  const gateway = target.process;
  assert.ok(gateway);
  const room = await Room.open(target);
  script.roomId = room.id;
  const tools = ["task.create", "task.list", "task.update", "event.create", "event.list"];
  await room.addAgent({ handle: "planner", displayName: "Planner", tools, askFirst: ["event.create"] });
  await room.addAgent({ handle: "scribe", displayName: "Scribe" });

  await room.say("Ann", "Good evening! The release is on Friday. Who does what?");
  await room.say("Bob", "@planner please note: I fix the login, Cid writes the release notes.");
  // The gateway dies while Planner speaks. Its tasks are there; its half answer never was a message.
  await until(() => script.isHalfSaid);
  await gateway.stop("SIGKILL");
  await gateway.start();
  await room.runs("succeeded", 1);

  await room.say("Ann", "@planner and a meeting on Thursday at nine, all of us.");
  await room.runs("waiting_approval", 1);
  // It is stopped while Planner waits for a decision, which holds nobody else up.
  await gateway.stop("SIGTERM");
  await gateway.start();
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
});
