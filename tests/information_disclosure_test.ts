// What somebody may not see is to them as what never was: the same answer, and not a word of it in any.
import assert from "node:assert/strict";
import type { Operation } from "@/core/operation.ts";
import type { ApiResponse } from "./harness.ts";
import { createCallers, ok } from "./modules/fixtures.ts";
import { manifestOf } from "./modules/plugin/plugin_fixture.ts";
import {
  BASE,
  createResources,
  findIds,
  openResourceGateway,
  type ResourceIds,
  withId,
  withOwnIds,
} from "./resource_fixture.ts";
import { acceptsValue, callOperation, exampleOf, fieldsOf } from "./operation_request.ts";

type Input = Record<string, unknown>;
/** Where in an input a resource is named, and of which kind. */
type IdReference = { input: Input; path: readonly string[]; kind: string };

/** In every text of what is hidden. */
const SECRET = "hush";
/** Fields that name something and are in few examples. */
const REFERENCE_FIELDS: Record<string, string> = {
  roomId: "room",
  roomIds: "room",
  threadId: "msg",
  replyToId: "msg",
  sourceMessageId: "msg",
  sourceMessageIds: "msg",
  triggerMessageId: "msg",
  around: "msg",
  before: "msg",
  fileIds: "file",
  groupId: "grp",
  avatarFileId: "file",
  memberIds: "prn",
  agentId: "prn",
  agentIds: "prn",
  assigneeId: "prn",
  assigneeIds: "prn",
  attendeeId: "prn",
  audienceIds: "prn",
  ownerId: "prn",
  principalId: "prn",
  principalIds: "prn",
  senderId: "prn",
  subjectId: "prn",
  subjectIds: "prn",
  runId: "run",
  supersedes: "mem",
  upToId: "ntf",
};
/** What the routes besides the operations are about. */
const ROUTE_KINDS: Record<string, string> = {
  file: "file",
  run: "run",
  document: "doc",
  import: "imp",
  export: "exp",
  scim_user: "prn",
  scim_group: "grp",
};
const PARENTS: Record<string, string> = { task: "task", document: "doc", comment: "cmt" };
const SCHEDULE = { rrule: "FREQ=WEEKLY;BYDAY=MO", startAt: "2026-03-02T09:00", timeZone: "UTC", input: "Sum up" };
/** What names resources deeper within an input. */
const NESTED_INPUTS: Record<string, (own: ResourceIds) => Input> = {
  "search.query": () => ({ q: SECRET }),
  "search.structured": ({ room, msg }) => ({ query: SECRET, filters: { roomIds: [room], threadIds: [msg] } }),
  "permission.check": ({ room: id }) => ({ checks: [{ action: "room.read", resource: { type: "room", id } }] }),
  "room.create": ({ prn }) => ({ agentPolicy: { allowedAgentIds: [prn] } }),
  "room.update": ({ prn }) => ({ agentPolicy: { allowedAgentIds: [prn] } }),
  "message.send": ({ prn }) => ({ mentions: { principalIds: [prn] } }),
  "message.update": ({ prn }) => ({ mentions: { principalIds: [prn] } }),
  "event.create": ({ prn: principalId }) => ({ attendees: [{ principalId }] }),
  "event.update": ({ prn: principalId }) => ({ attendees: [{ principalId }] }),
  "agent.create": ({ room: roomId }) => ({ schedule: { ...SCHEDULE, roomId } }),
  "agent.update": ({ room: roomId }) => ({ schedule: { ...SCHEDULE, roomId } }),
};

Deno.test("every operation responds to an invisible resource as to a missing one", async () => {
  await using gateway = await openResourceGateway();
  const { alice, bob, carol, dora } = await createCallers(gateway, "alice", "bob", "carol", "dora");
  const boss = await gateway.as("boss", { role: "owner" });
  const stranger = await gateway.as("stranger", { tenant: "elsewhere", role: "owner" });
  // A guest moderates a room of Dora's, and shares none with the others.
  const guest = await gateway.as("guest", { role: "guest" });
  ok(await guest.get(`${BASE}/me`));
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
  hidden["grp"] = ok(await boss.post(`${BASE}/groups`, { name: "On call" })).id;
  hidden["hold"] = ok(await boss.post(`${BASE}/holds`, { principalId: "boss", reason: SECRET })).id;
  const erasure = { principalId: "alice", mode: "anonymize", dryRun: true };
  hidden["era"] = ok(await boss.post(`${BASE}/erasures`, erasure)).id;
  await gateway.runJobs();
  const operations = [...gateway.app.operations.values()];
  const hiddenFrom = ({ name }: { name: string }): ResourceIds =>
    name.startsWith("import.") ? { ...hidden, imp: imported } : hidden;
  const routes = gateway.app.modules.flatMap(({ routes = [] }) => routes)
    // Discovery of SCIM is the same for every tenant.
    .filter(({ auth, path, name }) => auth === "bearer" && path.includes("/:") && !name.startsWith("scim."));

  let asked = 0;
  for (const [name, caller] of Object.entries({ carol, stranger, guest })) {
    const own = await createResources(caller === guest ? dora : caller, "mine");
    if (caller === guest) ok(await dora.put(`/v1/rooms/${own["room"]}/members/guest`, { role: "moderator" }));
    for (const operation of operations) {
      const { method } = operation.http;
      const base = { ...withOwnIds(exampleOf(operation), own) as Input, ...NESTED_INPUTS[operation.name]?.(own) };
      if (method === "GET") assertNoLeak(await callOperation(caller, operation, base), `${operation.name} as ${name}`);
      for (const { input, path, kind } of findReferences(operation, base)) {
        // Members see all groups.
        if (kind === "grp" && caller === carol) continue;
        // Members see all principals but the hooks of rooms that they are not in.
        const isHook = kind === "prn" && caller === carol;
        for (const one of kind === "task" ? ["task", "key"] : isHook ? ["hook"] : [kind]) {
          for (const condition of conditionsOf(operation)) {
            const ask = async (named: string): Promise<string> => {
              const id = isHook ? `hook:${named}` : named;
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
  assert.ok(routes.length > 5);
  for (const caller of [carol, stranger, guest]) {
    for (const route of routes) {
      const { name, method, path } = route;
      const kind = ROUTE_KINDS[name.slice(0, name.indexOf("."))] ?? assert.fail(name);
      const ask = async (id: string): Promise<string> => {
        const answer = await caller.call(method, path.replace(/:\w+/, id), method === "GET" ? undefined : {});
        assertNoLeak(answer, name);
        return comparableResponse(answer, id);
      };
      assert.equal(await ask(hiddenFrom(route)[kind] ?? ""), await ask(`${kind}_${"0".repeat(32)}`), name);
    }
  }
  // All of it is there, for who may see it.
  // A request of an application is sealed within its id, which no example has.
  for (
    const operation of operations.filter(({ http, name }) => http.method === "GET" && name !== "oauth_request.read")
  ) {
    // A person is not a plugin.
    if (operation.name === "plugin.read_own") continue;
    const input = withOwnIds(exampleOf(operation), hiddenFrom(operation)) as Input;
    const answer = await callOperation(
      ["auditor", "admin", "owner"].includes(operation.access.tenant ?? "") ? boss : alice,
      operation,
      input,
    );
    assert.ok(![401, 403, 404].includes(answer.status), `${operation.name}: ${JSON.stringify(answer.body)}`);
  }
});

/** Headers that could be answered before anybody looks at rights. */
function conditionsOf({ http }: Operation): (Record<string, string> | undefined)[] {
  if (http.method === "GET") return [undefined, { "If-None-Match": "*" }];
  return http.ifMatch === undefined ? [undefined] : [undefined, { "If-Match": '"99"' }];
}

/** Every place where an operation's input names a resource, or could. */
function findReferences(operation: Operation, base: Input): IdReference[] {
  const module = operation.name.slice(0, operation.name.indexOf("."));
  const found = findIds(base);
  const others = fieldsOf(operation).filter((field) => found.every(({ path }) => path[0] !== field));
  const could = others.flatMap((field): IdReference[] => {
    const kind = field === "parentId" ? PARENTS[module] : REFERENCE_FIELDS[field];
    if (kind === undefined) return [];
    const isList = acceptsValue(operation, field, ["some-thing"]);
    return [{ input: { ...base, [field]: isList ? [] : "" }, path: isList ? [field, "0"] : [field], kind }];
  });
  return [...found.map((named) => ({ ...named, input: base })), ...could];
}

function assertNoLeak({ body, headers }: ApiResponse, label: string): void {
  assert.ok(!JSON.stringify([body, [...headers]]).includes(SECRET), label);
}

/** A response without the requested id, and what differs each time. */
function comparableResponse({ status, headers, body }: ApiResponse, id: string): string {
  const told = [...headers].filter(([name]) => name !== "x-request-id");
  const text = JSON.stringify([told, body], (name, value) => ["requestId", "tookMs"].includes(name) ? null : value);
  return `${status} ${text.replaceAll(encodeURIComponent(id), "<id>").replaceAll(id, "<id>")}`;
}
