// Groups by SCIM: requests as Okta and Entra ID send them, what is found, and what is refused.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { writesOn } from "../query_log.ts";
import { createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { assertError, JSON_TYPE, MESSAGES, openProvider } from "./scim_fixture.ts";

const GROUPS = "/scim/v2/Groups";
const CORE = "urn:ietf:params:scim:schemas:core:2.0:Group";

type Value = { value: string };

function patch(idp: Caller, path: string, ...operations: Record<string, unknown>[]): Promise<ApiResponse> {
  const body = { schemas: [`${MESSAGES}:PatchOp`], Operations: operations };
  return idp.patch(`${GROUPS}/${path}`, body, JSON_TYPE);
}

async function membersOf(idp: Caller, id: string): Promise<string[]> {
  return ok(await idp.get(`${GROUPS}/${id}`)).members.map(({ value }: Value) => value);
}

async function found(idp: Caller, filter: string): Promise<string[]> {
  const { Resources } = ok(await idp.get(`${GROUPS}?filter=${encodeURIComponent(filter)}&excludedAttributes=members`));
  return Resources.map((group: { displayName: string; members?: unknown }) => {
    assert.equal(group.members, undefined);
    return group.displayName;
  });
}

testOnEngines("Okta pushes a group: it is created, renamed, and its members change", async (environment) => {
  await using gateway = await openGateway(environment);
  const { owner, idp } = await openProvider(gateway);
  for (const userName of ["ann", "ben"]) ok(await idp.post("/scim/v2/Users", { userName }));
  const members = [{ value: "ann", display: "ann@example.com" }];
  const created = await idp.post(GROUPS, { schemas: [CORE], displayName: "Design", members }, JSON_TYPE);
  assert.equal(created.status, 201);
  const { id, meta, ...group } = created.body;
  assert.deepEqual(group, {
    schemas: [CORE],
    displayName: "Design",
    members: [{ value: "ann", $ref: "/scim/v2/Users/ann", display: "ann", type: "User" }],
  });
  assert.deepEqual([meta.location, created.headers.get("etag")], [`${GROUPS}/${id}`, meta.version]);
  assertError(await idp.post(GROUPS, { displayName: "DESIGN" }), 409, "uniqueness");
  for (const [value, detail] of [["nobody", '"nobody": no person nobody'], ["", '"": expected']] as const) {
    const refused = await idp.post(GROUPS, { displayName: "Other", members: [{ value: "ann" }, { value }] });
    assertError(refused, 400, "invalidValue");
    assert.ok(refused.body.detail.startsWith(`/members: ${detail}`), refused.body.detail);
  }
  assert.deepEqual(await found(idp, 'displayName eq "other"'), [], "nothing of it stays");

  const renamed = await patch(idp, id, { op: "replace", value: { id, displayName: "Design team" } });
  assert.equal(renamed.status, 204);
  const added = { op: "add", path: "members", value: [{ value: "ben", display: "ben@example.com" }] };
  ok(await patch(idp, id, { op: "remove", path: 'members[value eq "ann"]' }, added));
  assert.deepEqual(await membersOf(idp, id), ["ben"]);
  const user = ok(await idp.get("/scim/v2/Users/ben"));
  assert.deepEqual(user.groups, [{ value: id, $ref: `${GROUPS}/${id}`, display: "Design team" }]);
  ok(await patch(idp, id, { op: "replace", path: "members", value: [{ value: "ann" }, { value: "olga" }] }));
  assert.deepEqual(await membersOf(idp, id), ["ann", "olga"]);

  const ann = await createCaller(gateway, "ann");
  const roomId = await createRoom(owner, ["ann"]);
  assert.deepEqual((await sendMessage(owner, roomId, "@design", { parseMentions: true })).mentions.principalIds, [
    "ann",
  ]);
  assert.equal(ok(await ann.get(`/v1/collaboration/groups/${id}`)).name, "Design team");
  const { items } = ok(await owner.get("/v1/collaboration/audit?operation=group"));
  assert.deepEqual(items.map(({ operation, via }: Record<string, string>) => [operation, via]), [
    ["group.update", "scim"],
    ["group.create", "scim"],
  ]);
  assertError(await idp.delete(`${GROUPS}/${id}`, { "if-match": meta.version }), 412);
  assert.equal((await idp.delete(`${GROUPS}/${id}`)).status, 204);
  assertError(await idp.get(`${GROUPS}/${id}`), 404);
  assert.deepEqual(ok(await idp.get("/scim/v2/Users/ann")).groups, []);
});

testOnEngines("Entra ID provisions a group with its own forms of a patch", async (environment) => {
  await using gateway = await openGateway(environment);
  const { idp } = await openProvider(gateway);
  await createCallers(gateway, "a1", "b2", "c3");
  const group = { schemas: [CORE], externalId: "8aa1", displayName: "On call", meta: { resourceType: "Group" } };
  const { id, members } = ok(await idp.post(GROUPS, group, JSON_TYPE));
  assert.deepEqual(members, []);
  const many = ["a1", "b2"].map((value) => ({ $ref: null, value }));
  ok(await patch(idp, id, { op: "Add", path: "members", value: many }));
  ok(await patch(idp, id, { op: "Add", path: "members", value: [{ value: "a1" }] }));
  ok(await patch(idp, id, { op: "Remove", path: "members", value: [{ $ref: null, value: "a1" }] }));
  assert.deepEqual(await membersOf(idp, id), ["b2"]);
  const shown = await patch(
    idp,
    `${id}?attributes=members,externalId`,
    { op: "Replace", path: `${CORE}:displayName`, value: "On-call" },
    { op: "Replace", path: "externalId", value: "8aa2" },
    { op: "Add", value: { members: [{ value: "c3" }], unknown: 1 } },
    { op: "Remove", path: 'members[value eq "b2" or value eq "nobody"]' },
  );
  assert.deepEqual(Object.keys(ok(shown)).toSorted(), ["externalId", "id", "members", "schemas"]);
  assert.deepEqual([shown.body.externalId, shown.body.members.map(({ value }: Value) => value)], ["8aa2", ["c3"]]);
  ok(await patch(idp, id, { op: "Remove", path: "members" }, { op: "Add", path: "members", value: { value: "b2" } }));
  assert.deepEqual(await membersOf(idp, id), ["b2"]);
  const put = ok(await idp.put(`${GROUPS}/${id}`, { displayName: "On-call", members: ["a1", "c3"] }));
  assert.deepEqual([put.externalId, put.members.map(({ value }: Value) => value)], ["8aa2", ["a1", "c3"]]);
  ok(await idp.put(`${GROUPS}/${id}`, { displayName: "On-call" }));
  assert.deepEqual(await membersOf(idp, id), []);
});

testOnEngines("groups are found by filters, in pages; what is wrong or too much is refused", async (environment) => {
  await using gateway = await openGateway(environment);
  const { idp } = await openProvider(gateway);
  await createCallers(gateway, "ann", "ben");
  for (const [n, displayName] of ["Art", "Ban_d", "Café"].entries()) {
    ok(await idp.post(GROUPS, { displayName, externalId: `x${n}`, members: n === 0 ? ["ann", "ben"] : [] }));
  }
  const filters: Record<string, string[]> = {
    'displayName eq "ART"': ["Art"],
    'externalId eq "x1"': ["Ban_d"],
    'externalId eq "X1"': [],
    [`${CORE}:displayName sw "b" or displayName co "é"`]: ["Ban_d", "Café"],
    'members eq "ann"': ["Art"],
    'members[value eq "ben"]': ["Art"],
    'not (members.value eq "ann") and displayName co "_"': ["Ban_d"],
    'members.value eq "olga"': [],
  };
  for (const [filter, names] of Object.entries(filters)) assert.deepEqual(await found(idp, filter), names, filter);
  const page = ok(await idp.get(`${GROUPS}?startIndex=2&count=1`));
  assert.deepEqual([page.totalResults, page.startIndex, page.Resources[0].displayName], [3, 2, "Ban_d"]);

  const [{ id }] = ok(await idp.get(`${GROUPS}?count=1`)).Resources;
  for (
    const [operation, type] of [
      [{ op: "remove", path: "displayName" }, "invalidValue"],
      [{ op: "add", path: 'members[display eq "x"]', value: [] }, "invalidPath"],
      [{ op: "add", path: "members[", value: [] }, "invalidPath"],
      [{ op: "add", path: "members", value: [{}] }, "invalidValue"],
      [{ op: "add", path: "members", value: Array(1001).fill("ann") }, "invalidValue"],
      [{ op: "add", path: "members", value: ["nobody"] }, "invalidValue"],
      [{ op: "replace", path: "displayName", value: "\u200b" }, "invalidValue"],
      [{ op: "remove" }, "noTarget"],
    ] as const
  ) assertError(await patch(idp, id, operation), 400, type);
  for (const filter of ['title eq "x"', `displayName eq "${"\n".repeat(60)}`]) {
    assertError(await idp.get(`${GROUPS}?filter=${encodeURIComponent(filter)}`), 400, "invalidFilter");
  }
  assertError(await idp.post(GROUPS, { displayName: "x".repeat(300_000) }), 413);
  const member = await createCaller(gateway, "mel");
  assertError(await member.get(GROUPS), 403);
  assertError(await (await gateway.as("sam", { role: "owner", tenant: "other" })).get(`${GROUPS}/${id}`), 404);
  const queries = await writesOn(environment)(() => patch(idp, id, { op: "add", path: "members", value: ["ann"] }));
  assert.ok(!queries.some(({ sql }) => /display_name/.test(sql)), "members are read only to be shown");
});
