// One of everything, for tests that ask each operation about it.
import { type Caller, type Harness, openGateway } from "./harness.ts";
import { ScriptedCommands } from "./modules/command/command_fixture.ts";
import { ok } from "./modules/fixtures.ts";
import { ScriptedModels } from "./scripted_models.ts";
import { until } from "./wait.ts";

type Input = Record<string, unknown>;
/** Ids of resources by their kind: the prefix of the id, or `key` for that of a task. */
export type ResourceIds = Record<string, string>;

export const BASE = "/v1/collaboration";
const ID = /^([a-z]+)_[0-9a-f]{32}$/;
const KEY = /^[A-Z]+-\d+$/;

/** A gateway with a command and a model, which some of it needs. */
export function openResourceGateway(environment: Record<string, string> = {}): Promise<Harness> {
  const commands = new ScriptedCommands("toy", { name: "toy" });
  commands.respond = () => ({ kind: "accepted" });
  const models = new ScriptedModels(({ request: { messages } }) => ({
    parts: messages.at(-1)?.role === "tool" ? ["ok"] : [{ kind: "tool", callId: "1", name: "pin_list", input: "{}" }],
  }));
  const settings = {
    SVC_OUTBOUND_ALLOW: "127.0.0.1",
    SVC_PUSH_CONTACT: "mailto:ops@example.com",
    SVC_AI_BASE_URL: "http://m.test/v1",
    SVC_AI_MODEL: "small",
    ...environment,
  };
  return openGateway(settings, { models, modules: [() => commands.module()] });
}

/** A browser that has subscribed. */
const PUSH_EXAMPLE = {
  keys: {
    p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    auth: "BTBZMqHH6r4Tts7J_aSIgg",
  },
};

/** One of everything, with `word` in every text. */
export async function createResources(caller: Caller, word: string): Promise<ResourceIds> {
  const post = async (path: string, body: Input) => ok(await caller.post(path, body));
  const room = (await post("/v1/rooms", { name: word, topic: word, metadata: { word } })).id;
  const here = { roomId: room };
  const upload = { "content-type": "text/plain", "content-length": String(word.length + 2) };
  // Nothing responds there, so that an attempt is listed.
  const endpoint = { url: `http://127.0.0.1:9/${word}`, roomIds: [room], description: word };
  const webhook = (await post(`${BASE}/webhooks`, endpoint)).id;
  const file = ok(await caller.call("POST", `${BASE}/files?name=${word}`, JSON.stringify(word), upload)).id;
  const msg = (await post("/v1/messages", { ...here, text: word, fileIds: [file], metadata: { word } })).id;
  const task = await post(`${BASE}/tasks`, { ...here, title: word, description: word, labels: [word] });
  const doc = (await post(`${BASE}/documents`, { ...here, title: word, text: word })).id;
  const mtg = (await post(`${BASE}/meetings`, { ...here, title: word })).id;
  const start = { dateTime: "2026-03-05T09:00:00", timeZone: "Europe/Vienna" };
  // Members see all agents, but not their instructions.
  const agent = { displayName: "Helper", instructions: word, tools: ["pin.list"], askFirst: ["pin.list"] };
  const prn = (await post(`${BASE}/agents`, agent)).id;
  ok(await caller.put(`/v1/rooms/${room}/members/${prn}`));
  const run = (await post(`${BASE}/ai/runs`, { ...here, agentId: prn, input: word, wait: 30 })).id;
  // The call waits for half a minute at most, which a busy machine may need for more than the start of a run.
  const asked = async () => ok(await caller.get(`${BASE}/ai/approvals?roomId=${room}`)).items;
  await until(async () => (await asked()).length > 0);
  const apr = (await asked())[0].id;
  await post(`${BASE}/ai/approvals/${apr}/decision`, { decision: "deny", remember: "room", comment: word });
  const grant = ok(await caller.get(`${BASE}/ai/grants?roomId=${room}`)).items[0].id;
  const calendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n";
  const attempts = async () => ok(await caller.get(`${BASE}/webhooks/${webhook}/deliveries`)).items;
  await until(async () => (await attempts()).length > 0);
  return {
    room,
    webhook,
    slash: (await post(`${BASE}/slash-commands`, {
      ...here,
      name: word,
      description: word,
      displayName: word,
      url: endpoint.url,
    })).id,
    hook: (await post(`${BASE}/incoming`, { ...here, displayName: word, description: word })).id,
    dlv: (await attempts())[0].id,
    file,
    msg,
    task: task.id,
    key: task.key,
    doc,
    mtg,
    sch: (await post("/v1/messages", { ...here, text: word, sendAt: "2026-03-02T12:00:00Z" })).id,
    cmt: (await post(`${BASE}/documents/${doc}/comments`, { text: word })).id,
    cal: (await post(`${BASE}/calendar/events`, { ...here, title: word, location: word, start })).id,
    part: (await post(`${BASE}/meetings/${mtg}/join`, { deviceId: word })).participantId,
    prn,
    run,
    apr,
    grant,
    feed: (await post(`${BASE}/calendar/feeds`, { ...here, name: word })).id,
    psh: (await post(`${BASE}/push-subscriptions`, {
      ...PUSH_EXAMPLE,
      name: word,
      endpoint: `https://push.apple.com/${crypto.randomUUID()}`,
    })).id,
    imp: (await post(`${BASE}/calendar/import`, { ...here, text: calendar })).id,
    tok: (await post(`${BASE}/tokens`, { name: word, scopes: ["room.read"] })).id,
    itx: (await post(`${BASE}/commands/run`, { ...here, text: `/toy ${word}` })).id,
    mem: (await post(`${BASE}/memory/items`, { scope: { type: "room", id: room }, text: word })).id,
    exp: (await post(`${BASE}/exports`, { kind: "room", ...here })).id,
  };
}

/** Places of ids, and kinds of what they name. */
export function findIds(value: unknown, path: readonly string[] = []): { path: readonly string[]; kind: string }[] {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([name, part]) => findIds(part, [...path, name]));
  }
  const kind = kindOf(value);
  return kind === undefined ? [] : [{ path, kind }];
}

function kindOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  return KEY.test(value) ? "task" : ID.exec(value)?.[1];
}

/** The value with these resources in place of those it names. */
export function withOwnIds(value: unknown, things: ResourceIds): unknown {
  return findIds(value).reduce(
    (now, { path, kind }) => withId(now, path, things[kind] ?? `${kind}_${"1".repeat(32)}`),
    value,
  );
}

/** A copy with an id at a place. */
export function withId(value: unknown, [name, ...rest]: readonly string[], id: string): unknown {
  if (name === undefined) return id;
  const copy = (Array.isArray(value) ? [...value] : { ...value as Input }) as Input;
  copy[name] = withId(copy[name], rest, id);
  return copy;
}
