// Ten thousand bad inputs over all operations: no 5xx, nothing stored by what was refused, every refusal names its fault.
import assert from "node:assert/strict";
import { isQuick } from "./tier.ts";
import fc from "npm:fast-check@4.10.2";
import { type Kysely, sql } from "kysely";
import { Fault, FAULTS } from "@/core/fault.ts";
import type { Operation } from "@/core/operation.ts";
import { FakeSocket, sendCommand } from "./transport/ws_harness.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "./harness.ts";
import { callOperation } from "./operation_request.ts";
import { ScriptedModels } from "./scripted_models.ts";
import { until } from "./wait.ts";

const INPUTS = isQuick ? 1500 : 11_000;
const RPCS = isQuick ? 300 : 1000;
const SEED = Date.now() & 0x7fffffff;

const bad = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    -1,
    0,
    1e308,
    -1e308,
    2 ** 53,
    0.1,
    "",
    " ",
    "\u0000",
    "\ud800",
    "a\udfff",
    "x".repeat(20_000),
    "__proto__",
    "constructor",
    "../../etc/passwd",
    "..%2f..",
    "%00",
    "'; DROP TABLE room;--",
    '" OR 1=1 --',
    "NEAR(a b",
    "a* AND (",
    "\u202e\u200b\ufeff",
    "e\u0301".repeat(300),
    "me",
    "NaN",
    "Infinity",
    [],
    {},
    [[]],
    [null],
    { toString: 1 },
    { length: 1e9 },
    { $ne: null },
    ["x".repeat(300)],
    "9999-99-99T99:99:99Z",
    "room_0",
    "msg_" + "0".repeat(32),
  ),
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.nat(40).map((depth) => JSON.parse("[".repeat(depth + 1) + "]".repeat(depth + 1))),
);
const mutation = fc.record({
  strategy: fc.constantFrom(
    "replace",
    "replace",
    "replace",
    "drop",
    "extra",
    "proto",
    "raw",
    "type",
    "query",
    "ifMatch",
  ),
  pick: fc.nat(1000),
  bad,
});
const RAW = [
  "{",
  "[]",
  "null",
  '"text"',
  "{}}",
  '{"a":NaN}',
  '{"__proto__":{"isAdmin":true}}',
  '{"a":"\\ud800"}',
  '{"a":"\\u0000"}',
  '{"\\u0000":1}',
  '{"constructor":{"prototype":{"x":1}}}',
  "[".repeat(5000),
  '{"a":'.repeat(40) + "1" + "}".repeat(40),
  "\ufeff{}",
  "{'a':1}",
  '{"a":1e999}',
];

/** What they say is what any operation can use: how one that fails is refused is not a matter of inputs. */
function models(): ScriptedModels {
  return new ScriptedModels(() => ({ parts: ['{"facts":[]}'] }));
}

Deno.test(`hostile inputs are refused by name and store nothing (seed ${SEED})`, async () => {
  await using gateway = await openGateway({}, { models: models() });
  const alice = await gateway.as("alice", { role: "admin" });
  const targets = await createTargets(alice);
  const operations = operationsOf(gateway);
  const each = Math.ceil(INPUTS / operations.length);
  const tally = { refused: 0, accepted: 0 };
  for (const [index, operation] of operations.entries()) {
    let before = await countStored(gateway);
    for (const one of fc.sample(mutation, { seed: SEED + index, numRuns: each })) {
      const what = `${operation.name} ${JSON.stringify(one).slice(0, 300)}`;
      const answer = await call(alice, operation, targets, one);
      if (answer === undefined) continue;
      assert.ok(answer.status < 500, `${what}: ${answer.status} ${JSON.stringify(answer.body)}`);
      if (answer.status < 400) {
        tally.accepted++;
        before = await settle(gateway, operation);
        continue;
      }
      tally.refused++;
      assertProblem(answer, what);
      const after = await countStored(gateway);
      assert.deepEqual(after, before, `${what}: refused and yet stored`);
    }
  }
  assert.equal(Object.hasOwn(Object.prototype, "isAdmin"), false);
  assert.ok(tally.refused + tally.accepted >= 0.9 * INPUTS && tally.refused > INPUTS / 2, JSON.stringify(tally));
});

/** What may be wrong with any request, whatever its path is about: query, headers, body. */
type Odd = { query?: string; headers?: Record<string, string>; body?: string };
const ODD: readonly Odd[] = [
  { query: "?zzz=1" },
  { query: "?limit=1&limit=2&name=%00" },
  { headers: { accept: "text/html" } },
  { headers: { "idempotency-key": "" } },
  { headers: { "if-match": "x" } },
  { headers: { "if-none-match": "*" } },
  { headers: { origin: "https://evil.example" } },
  { headers: { authorization: "Bearer none" } },
  { headers: { "content-type": "application/xml" }, body: "1" },
  { headers: { "content-encoding": "gzip" }, body: "1" },
  ...[" ", "[]", '{"__proto__":1}', '{"a":"\\ud800"}', `{"a":"${"x".repeat(600_000)}"}`].map((body) => ({ body })),
];

Deno.test("how any path refuses an odd request is in the document, with its problem code", async () => {
  await using gateway = await openGateway({ SVC_CORS_ALLOW_ORIGINS: "https://app.example" });
  const alice = await gateway.as("alice");
  const document = (await alice.get("/openapi.json")).body;
  let sent = 0;
  let refused = 0;
  // Past the harness, which compiles the schema of each response: what these have is known.
  const send = async (method: string, url: string, { headers, body }: Odd): Promise<[number, string | undefined]> => {
    const length = String((body ?? "").length);
    const own = {
      authorization: `Bearer ${alice.token}`,
      "content-type": "application/json",
      "content-length": length,
    };
    const init = { method, headers: { ...own, ...headers }, ...body === undefined ? {} : { body } };
    // The long bodies of one address are not all read: it is given a second to see its response.
    const address = `10.0.${sent >> 8}.${sent++ & 255}`;
    const response = await gateway.app.fetch(new Request(`http://gateway.test${url}`, init), address);
    const isProblem = response.headers.get("content-type") === "application/problem+json";
    if (isProblem) return [response.status, (await response.json()).code];
    await response.body?.cancel();
    return [response.status, undefined];
  };
  for (const [path, methods] of Object.entries<Record<string, Described>>(document.paths)) {
    for (const [method, described] of Object.entries(methods)) {
      if (described.operationId === "session.end") continue;
      const hasBody = described.requestBody !== undefined;
      for (const odd of ODD.filter(({ body }) => body === undefined || hasBody)) {
        const url = path.replaceAll(/\{[^}]+\}/g, "x0") + (odd.query ?? "");
        const [status, code] = await send(method.toUpperCase(), url, odd);
        const what = `${method} ${url} ${JSON.stringify(odd).slice(0, 100)}: ${status} ${code}`;
        assert.ok(String(status) in described.responses, what);
        if (code === undefined) continue;
        refused++;
        assert.ok(described["x-problem-codes"][status]?.includes(code), what);
      }
    }
  }
  assert.ok(refused > 1500, String(refused));
});

Deno.test(`hostile rpc input is refused by name as over HTTP, and stores nothing (seed ${SEED})`, async () => {
  await using gateway = await openGateway({}, { models: models() });
  const alice = await gateway.as("alice", { role: "admin" });
  const targets = await createTargets(alice);
  const socket = new FakeSocket();
  const peer = { socket, connection: gateway.app.hub.open(socket, { ip: "::1" }) };
  await sendCommand(peer, 1, { connect: { token: alice.token } });
  const operations = operationsOf(gateway);
  const tally = { refused: 0, compared: 0 };
  let before = await countStored(gateway);
  for (const [index, one] of fc.sample(mutation, { seed: SEED, numRuns: RPCS }).entries()) {
    const operation = operations[Math.floor(index * operations.length / RPCS)];
    assert.ok(operation !== undefined);
    const { input } = mutate(operation, targets, one);
    const what = `${operation.name} ${JSON.stringify(input).slice(0, 300)}`;
    socket.frames.length = 0;
    const { error } = await sendCommand(peer, index + 2, { rpc: { method: operation.name, data: input } });
    assert.equal(socket.closedWith, undefined, what);
    if (error === undefined) {
      before = await settle(gateway, operation);
      continue;
    }
    tally.refused++;
    // 107: the frame itself, not the input, is out of bounds.
    assert.ok(error.code === 107 || error.code >= 400 && error.code < 500, `${what}: ${JSON.stringify(error)}`);
    const [, code] = /^([a-z_ ]+): ./.exec(error.message) ?? [];
    assert.ok(code !== undefined, `${what}: ${error.message}`);
    assert.deepEqual(await countStored(gateway), before, what);
    if (error.code === 107 || !isSameOverHttp(operation, input)) continue;
    tally.compared++;
    assert.equal((await callOperation(alice, operation, input)).body.code, code, `${what}: ${error.message}`);
  }
  assert.ok(tally.refused > RPCS / 2 && tally.compared > RPCS / 10, JSON.stringify(tally));
});

/** Whether the input is one of a body and of texts in the path, which an URL does not change; a very long path is no endpoint. */
function isSameOverHttp({ http }: Operation, input: Record<string, unknown>): boolean {
  const inPath = [...http.path.matchAll(/:([A-Za-z]+)/g)].map(([, name = ""]) => input[name]);
  return (http.method === "POST" || http.method === "PUT" || http.method === "PATCH") &&
    inPath.every((value) => typeof value === "string" && /^\w{1,255}$/.test(value));
}

async function createTargets(caller: Caller): Promise<Readonly<Record<string, string>>> {
  const { body: room } = await caller.post("/v1/rooms", { name: "Target", visibility: "public" });
  const { body: sent } = await caller.post("/v1/messages", { roomId: room.id, text: "Target" });
  return { room: room.id, msg: sent.id };
}

/** The caller would have no token for the rest. */
const ENDS_CALLER: ReadonlySet<string> = new Set(["session.end", "principal.disable", "erasure.create"]);

/** What deletes comes last, so that the others meet what they are about. */
function operationsOf({ app }: Harness): Operation[] {
  return [...app.operations.values()].filter(({ name }) => !ENDS_CALLER.has(name))
    .toSorted((a, b) => Number(a.http.method === "DELETE") - Number(b.http.method === "DELETE"));
}

/** What is stored once an accepted call has had all its effects. */
async function settle(gateway: Harness, { http }: Operation): Promise<Record<string, unknown>> {
  if (http.method === "DELETE") await until(() => haveCallsEnded(gateway));
  await gateway.runJobs();
  return await countStored(gateway);
}

/** Whether there is no call in a room that was deleted: no job ends it. */
async function haveCallsEnded({ app: { store } }: Harness): Promise<boolean> {
  const { rows } = await sql`select 1 from meeting join room on room.tenant_id = meeting.tenant_id and room.id = room_id
    where room.deleted_at is not null and meeting.state in ('ringing', 'active')`.execute(store.db);
  return rows.length === 0;
}

let countStatement: string | undefined;

/**
 * Rows of every table that a call writes to, but not of what is delivered beside the calls, and how far the streams are;
 * counts of bytes written come later, together.
 */
async function countStored({ app: { store } }: Harness): Promise<Record<string, unknown>> {
  const db = store.db as unknown as Kysely<unknown>; // all tables, whatever modules there are
  // One statement, as it is asked after every input.
  countStatement ??= `select ${
    (await db.introspection.getTables()).map(({ name }) => name).filter((name) =>
      !/search|gram|job|stream|sqlite|^written$|^webhook_(?:delivery|cursor)$/.test(name)
    ).map((name) => `(select count(*) from "${name}") as "${name}"`).join()
  }`;
  const { rows: [counts = {}] } = await sql.raw<Record<string, unknown>>(countStatement).execute(db);
  return counts;
}

function assertProblem({ status, headers, body }: ApiResponse, what: string): void {
  assert.match(headers.get("content-type") ?? "", /^application\/problem\+json/, what);
  assert.equal(FAULTS[new Fault(body.code, "").code]?.status, status, what);
  assert.ok(body.detail.length > 0, what);
  if (body.code === "validation_failed" || body.code === "unknown_field") {
    assert.ok(Array.isArray(body.errors) && body.errors.length > 0, `${what}: no errors[]: ${body.detail}`);
    for (const { pointer } of body.errors) assert.match(pointer, /^(\/.*)?$/s, what);
  }
}

/** An operation of the document. */
type Described = {
  operationId: string;
  requestBody?: unknown;
  responses: Record<string, unknown>;
  "x-problem-codes": Record<string, string[]>;
};
type Mutation = { strategy: string; pick: number; bad: unknown };

/** The operation's example with one error, and the name of the field that may have it. */
function mutate(
  { example }: Operation,
  targets: Readonly<Record<string, string>>,
  { strategy, pick, bad }: Mutation,
): { input: Record<string, unknown>; name: string } {
  const input = JSON.parse(
    JSON.stringify(example ?? {}).replaceAll(
      /"(room|msg)_[0-9a-f]{32}"/g,
      (_all, kind) => JSON.stringify(targets[kind]),
    ),
  );
  const names = Object.keys(input);
  const name = names[pick % Math.max(1, names.length)] ?? "x";
  if (strategy === "replace") input[name] = bad;
  if (strategy === "drop") delete input[name];
  if (strategy === "extra") {
    input[["extra", "tenantId", "id ", "version", "constructor", "createdAt"][pick % 6] ?? "extra"] = bad;
  }
  return { input, name };
}

/** Sends it; `undefined` when that cannot be written as a request. */
async function call(
  caller: Caller,
  operation: Operation,
  targets: Readonly<Record<string, string>>,
  one: Mutation,
): Promise<ApiResponse | undefined> {
  const { http } = operation;
  const { strategy, pick, bad } = one;
  const { input, name } = mutate(operation, targets, one);
  const headers: Record<string, string> = {};
  if (strategy === "type") {
    headers["content-type"] = ["text/plain", "application/xml", "x", "application/json; charset=utf-16"][pick % 4] ??
      "x";
  }
  if (strategy === "ifMatch") headers["if-match"] = ["x", '"-1"', '"99999999999"', "W/*", '""'][pick % 5] ?? "x";
  const text = (value: unknown): string =>
    encodeURIComponent((typeof value === "string" ? value : JSON.stringify(value) ?? "").toWellFormed()).slice(0, 3000);
  const path = http.path.replaceAll(/:([A-Za-z]+)/g, (_all, param: string) => {
    const value = text(input[param]);
    delete input[param];
    return value === "" || value === "." || value === ".." ? "%20" : value;
  });
  const isBodyless = http.method === "GET" || http.method === "DELETE";
  const query = new URLSearchParams();
  if (isBodyless) { for (const [key, value] of Object.entries(input)) query.append(key, text(value)); }
  if (strategy === "query") { for (let n = 0; n < 2; n++) query.append(name, String(pick)); }
  const raw = strategy === "raw" ? RAW[pick % RAW.length] : undefined;
  const own = strategy === "proto" ? `{"__proto__":${JSON.stringify(bad) ?? "1"}}` : raw ?? JSON.stringify(input);
  const suffix = query.size === 0 ? "" : `?${query}`;
  return await caller.call(http.method, `${path}${suffix}`.slice(0, 8000), isBodyless ? undefined : own, headers);
}
