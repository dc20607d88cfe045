// What somebody may not see is to them as what never was: the same answer, and not a word of it in any.
import assert from "node:assert/strict";
import type { Operation } from "@/core/operation.ts";
import { type ApiResponse, type Caller, openGateway } from "./harness.ts";
import { ScriptedCommands } from "./modules/command_fixture.ts";
import { createCallers, ok } from "./modules/fixtures.ts";
import { manifestOf } from "./modules/plugin_fixture.ts";
import { until } from "./wait.ts";
import { ScriptedModels } from "./scripted_models.ts";
import { acceptsValue, callOperation, exampleOf, fieldsOf } from "./operation_request.ts";

type Input = Record<string, unknown>;
/** Ids of things by their kind: the prefix of the id, or `key` for that of a task. */
type ResourceIds = Record<string, string>;
/** Where in an input something is named, and what kind of thing. */
type IdReference = { input: Input; path: readonly string[]; kind: string };

/** In every text of what is hidden. */
const SECRET = "hush";
const BASE = "/v1/collaboration";
const ID = /^([a-z]+)_[0-9a-f]{32}$/;
const KEY = /^[A-Z]+-\d+$/;
/** Fields that name something and are in few examples. */
const REFERENCE_FIELDS: Record<string, string> = {
  roomId: "room",
  roomIds: "room",
  threadId: "msg",
  replyToId: "msg",
  threadRootId: "msg",
  sourceMessageId: "msg",
  sourceMessageIds: "msg",
  triggerMessageId: "msg",
  around: "msg",
  before: "msg",
  fileIds: "file",
  runId: "run",
  supersedes: "mem",
  upToId: "ntf",
};
const PARENTS: Record<string, string> = { task: "task", document: "doc", comment: "cmt" };
/** What names things deeper within an input. */
const NESTED_INPUTS: Record<string, (own: ResourceIds) => Input> = {
  "search.query": () => ({ q: SECRET }),
  "search.structured": ({ room, msg }) => ({ query: SECRET, filters: { roomIds: [room], threadIds: [msg] } }),
  "permission.check": ({ room: id }) => ({ checks: [{ action: "room.read", resource: { type: "room", id } }] }),
};

Deno.test("every operation answers to what somebody may not see as to what is not there", async () => {
  const commands = new ScriptedCommands("toy", { name: "toy" });
  commands.respond = () => ({ kind: "accepted" });
  const models = new ScriptedModels(({ request: { messages } }) => ({
    parts: messages.at(-1)?.role === "tool" ? ["ok"] : [{ kind: "tool", callId: "1", name: "pin_list", input: "{}" }],
  }));
  const settings = {
    SVC_OUTBOUND_ALLOW: "127.0.0.1",
    SVC_AI_BASE_URL: "http://m.test/v1",
    SVC_AI_MODEL: "small",
  };
  await using gateway = await openGateway(settings, {
    models,
    modules: [() => commands.module()],
  });
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const boss = await gateway.as("boss", { role: "owner" });
  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  ok(await bob.post("/v1/rooms", { name: SECRET, memberIds: ["alice"] }));
  const hidden = await createResources(alice, SECRET);
  hidden["ntf"] = ok(await alice.get(`${BASE}/notifications`)).items[0].id;
  const { example: skill } = gateway.app.operations.get("skill.import") ?? {};
  ok(await boss.post(`${BASE}/skills`, skill));
  ok(await boss.post(`${BASE}/plugins`, { manifest: manifestOf() }));
  const imported = ok(await boss.post(`${BASE}/imports`, { kind: "slack" })).id;
  await gateway.runJobs();
  hidden["job"] = ok(await boss.get(`${BASE}/jobs`)).items[0].id;
  hidden["inv"] = ok(await boss.post(`${BASE}/invitations`, { name: SECRET })).id;
  await gateway.runJobs();
  const operations = [...gateway.app.operations.values()];
  const hiddenFrom = (operation: Operation): ResourceIds =>
    operation.name.startsWith("transfer_import.") ? { ...hidden, imp: imported } : hidden;

  let asked = 0;
  for (const [name, caller] of Object.entries({ carol, stranger })) {
    const own = await createResources(caller, "mine");
    for (const operation of operations) {
      const { method } = operation.http;
      const base = { ...withOwnIds(exampleOf(operation), own) as Input, ...NESTED_INPUTS[operation.name]?.(own) };
      if (method === "GET") assertNoLeak(await callOperation(caller, operation, base), `${operation.name} as ${name}`);
      for (const { input, path, kind } of findReferences(operation, base)) {
        if (kind === "prn" && caller === carol) continue;
        for (const one of kind === "task" ? ["task", "key"] : [kind]) {
          for (const condition of conditionsOf(operation)) {
            const ask = async (id: string): Promise<string> => {
              const answer = await callOperation(caller, operation, withId(input, path, id) as Input, condition);
              assertNoLeak(answer, label);
              return comparableResponse(answer, id);
            };
            const label = `${operation.name} ${path.join("/")} as ${name}`;
            const expected = await ask(one === "key" ? "ZZZ-1" : `${one}_${"0".repeat(32)}`);
            assert.equal(await ask(hiddenFrom(operation)[one] ?? assert.fail(`No ${one}`)), expected, label);
            if (path.join() === "id" && condition === undefined) assert.match(expected, /^40[34] /, label);
            asked++;
          }
        }
      }
    }
  }
  assert.ok(asked > 400, `${asked} questions`);
  // All of it is there, for who may see it.
  // A request of an application is sealed within its id, which no example has.
  for (
    const operation of operations.filter(({ http, name }) => http.method === "GET" && name !== "oauth_request.read")
  ) {
    // A person is not a plugin.
    if (operation.name === "plugin.read_own") continue;
    const input = withOwnIds(exampleOf(operation), hiddenFrom(operation)) as Input;
    const answer = await callOperation(operation.access.tenant === "admin" ? boss : alice, operation, input);
    assert.ok(![401, 403, 404].includes(answer.status), `${operation.name}: ${JSON.stringify(answer.body)}`);
  }
});

/** One of everything, with `word` in every text. */
async function createResources(caller: Caller, word: string): Promise<ResourceIds> {
  const post = async (path: string, body: Input) => ok(await caller.post(path, body));
  const room = (await post("/v1/rooms", { name: word, topic: word, metadata: { word } })).id;
  const here = { roomId: room };
  const upload = { "content-type": "text/plain", "content-length": String(word.length + 2) };
  // Nobody answers there, so that an attempt is listed.
  const endpoint = { url: `http://127.0.0.1:9/${word}`, roomIds: [room], description: word };
  const webhook = (await post(`${BASE}/webhooks`, endpoint)).id;
  const file = ok(await caller.call("POST", `${BASE}/files?name=${word}`, JSON.stringify(word), upload)).id;
  const msg = (await post("/v1/messages", { ...here, text: word, fileIds: [file], metadata: { word } })).id;
  const task = await post(`${BASE}/tasks`, { ...here, title: word, description: word, labels: [word] });
  const doc = (await post(`${BASE}/documents`, { ...here, title: word, text: word })).id;
  const mtg = (await post(`${BASE}/meetings`, { ...here, title: word })).id;
  const start = { dateTime: "2026-03-05T09:00:00", timeZone: "Europe/Vienna" };
  // Members see all agents, but not what they are told.
  const agent = { displayName: "Helper", instructions: word, tools: ["pin.list"], askFirst: ["pin.list"] };
  const prn = (await post(`${BASE}/agents`, agent)).id;
  ok(await caller.put(`/v1/rooms/${room}/members/${prn}`));
  const run = (await post(`${BASE}/ai/runs`, { ...here, agentId: prn, input: word, wait: 30 })).id;
  const apr = ok(await caller.get(`${BASE}/ai/approvals?roomId=${room}`)).items[0].id;
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
    imp: (await post(`${BASE}/calendar/import`, { ...here, text: calendar })).id,
    tok: (await post(`${BASE}/tokens`, { name: word, scopes: ["room.read"] })).id,
    itx: (await post(`${BASE}/commands/run`, { ...here, text: `/toy ${word}` })).id,
    mem: (await post(`${BASE}/memory/items`, { scope: { type: "room", id: room }, text: word })).id,
    exp: (await post(`${BASE}/exports`, { kind: "room", ...here })).id,
  };
}

/** Headers that could be answered before anybody looks at rights. */
function conditionsOf({ http }: Operation): (Record<string, string> | undefined)[] {
  if (http.method === "GET") return [undefined, { "If-None-Match": "*" }];
  return http.ifMatch === undefined ? [undefined] : [undefined, { "If-Match": '"99"' }];
}

/** Every place where an operation's input names a thing, or could. */
function findReferences(operation: Operation, base: Input): IdReference[] {
  const module = operation.name.slice(0, operation.name.indexOf("."));
  const could = fieldsOf(operation).filter((field) => !(field in base)).flatMap((field): IdReference[] => {
    const kind = field === "parentId" ? PARENTS[module] : REFERENCE_FIELDS[field];
    if (kind === undefined) return [];
    const isList = acceptsValue(operation, field, ["some-thing"]);
    return [{ input: { ...base, [field]: isList ? [] : "" }, path: isList ? [field, "0"] : [field], kind }];
  });
  return [...findIds(base).map((named) => ({ ...named, input: base })), ...could];
}

/** Places of ids, and kinds of what they name. */
function findIds(value: unknown, path: readonly string[] = []): { path: readonly string[]; kind: string }[] {
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

/** The value with things of these in place of those it names. */
function withOwnIds(value: unknown, things: ResourceIds): unknown {
  return findIds(value).reduce(
    (now, { path, kind }) => withId(now, path, things[kind] ?? `${kind}_${"1".repeat(32)}`),
    value,
  );
}

/** A copy with an id at a place. */
function withId(value: unknown, [name, ...rest]: readonly string[], id: string): unknown {
  if (name === undefined) return id;
  const copy = (Array.isArray(value) ? [...value] : { ...value as Input }) as Input;
  copy[name] = withId(copy[name], rest, id);
  return copy;
}

function assertNoLeak({ body, headers }: ApiResponse, label: string): void {
  assert.ok(!JSON.stringify([body, [...headers]]).includes(SECRET), label);
}

/** An answer without the id that was asked about, and what differs each time. */
function comparableResponse({ status, headers, body }: ApiResponse, id: string): string {
  const told = [...headers].filter(([name]) => name !== "x-request-id");
  const text = JSON.stringify([told, body], (name, value) => ["requestId", "tookMs"].includes(name) ? null : value);
  return `${status} ${text.replaceAll(id, "<id>")}`;
}
