// Provisioning by SCIM: requests as Okta and Entra ID send them, who may provision whom, and what filters and paths are understood.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, openGateway } from "../../harness.ts";
import { FakeSocket } from "../../transport/ws_harness.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCaller, ok } from "../fixtures.ts";
import { assertError, JSON_TYPE, MESSAGES, openProvider } from "./scim_fixture.ts";

const USERS = "/scim/v2/Users";
const CORE = "urn:ietf:params:scim:schemas:core:2.0:User";
const ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const ADA = {
  schemas: [CORE],
  userName: "Ada@example.com",
  name: { givenName: "Ada", familyName: "Lovelace" },
  emails: [{ primary: true, value: "Ada@example.com", type: "work" }],
  displayName: "Ada Lovelace",
  locale: "en-GB",
  externalId: "00uada",
  groups: [],
  password: "1mz050nq",
  active: true,
};

function patch(idp: Caller, id: string, ...operations: Record<string, unknown>[]): Promise<ApiResponse> {
  const body = { schemas: [`${MESSAGES}:PatchOp`], Operations: operations };
  return idp.patch(`${USERS}/${id}`, body, JSON_TYPE);
}

async function found(idp: Caller, filter: string): Promise<string[]> {
  const { Resources, totalResults } = ok(await idp.get(`${USERS}?filter=${encodeURIComponent(filter)}`));
  assert.equal(totalResults, Resources.length);
  return Resources.map(({ id }: { id: string }) => id);
}

testOnEngines(
  "Okta provisions, renames, disables and enables a person, who is the one that signs in",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { owner, idp } = await openProvider(gateway);
    assert.deepEqual(await found(idp, 'userName eq "ada@example.com"'), []);
    const created = await idp.post(USERS, ADA, JSON_TYPE);
    assert.equal(created.status, 201);
    assert.equal(created.headers.get("etag"), created.body.meta.version);
    const { schemas, meta, ...user } = created.body;
    assert.deepEqual([schemas, meta.resourceType, meta.location], [[CORE], "User", `${USERS}/00uada`]);
    assert.deepEqual(user, {
      id: "00uada",
      externalId: "00uada",
      userName: "Ada@example.com",
      displayName: "Ada Lovelace",
      name: { givenName: "Ada", familyName: "Lovelace" },
      emails: [{ value: "Ada@example.com", type: "work", primary: true }],
      active: true,
      roles: [{ value: "member", primary: true }],
      groups: [],
    });
    assert.deepEqual(await found(idp, 'userName eq "ada@EXAMPLE.com"'), ["00uada"]);

    const ada = await createCaller(gateway, "00uada", { name: "A. Lovelace" });
    const me = ok(await ada.get("/v1/collaboration/me"));
    assert.deepEqual([me.principal.displayName, me.principal.externalId], ["Ada Lovelace", "00uada"]);
    const connection = gateway.app.hub.open(new FakeSocket(), { ip: "127.0.0.1" });
    connection.receive(JSON.stringify({ id: 1, connect: { token: ada.token } }));
    await until(() => connection.actor !== undefined);
    const off = await patch(idp, "00uada", { op: "replace", value: { active: false } });
    assert.equal(ok(off).active, false);
    await until(() => connection.isClosed);
    assertProblem(await ada.get("/v1/collaboration/me"), 401, "token_revoked");

    const back = await idp.put(`${USERS}/00uada`, { ...off.body, displayName: "Ada King", active: true }, JSON_TYPE);
    assert.deepEqual([ok(back).active, back.body.displayName], [true, "Ada King"]);
    assert.equal(ok(await ada.get("/v1/collaboration/me")).principal.displayName, "Ada King");
    const { items } = ok(await owner.get("/v1/collaboration/audit?operation=principal&resourceId=00uada"));
    assert.deepEqual(items.map(({ ip }: { ip: string }) => ip), Array(3).fill("127.0.0.1"));
    assert.deepEqual(items.map(({ operation, via, changes }: Record<string, unknown>) => [operation, via, changes]), [
      ["principal.update", "scim", { id: "00uada", displayName: null, disabled: "false" }],
      ["principal.update", "scim", { id: "00uada", disabled: "true" }],
      ["principal.create", "scim", {
        id: null,
        kind: "human",
        displayName: null,
        externalId: null,
        role: "member",
      }],
    ]);
  },
);

testOnEngines(
  "Entra ID provisions, changes and deletes a person with its own forms of a patch",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { owner, idp } = await openProvider(gateway, "owner");
    assert.deepEqual(await found(idp, 'userName eq "a-user-that-does-not-exist"'), []);
    const created = await idp.post(USERS, {
      schemas: [CORE, ENTERPRISE],
      externalId: "6a0b",
      userName: "bob@example.com",
      active: true,
      emails: [{ primary: true, type: "work", value: "bob@example.com" }],
      meta: { resourceType: "User" },
      name: { formatted: "Bob Baker", familyName: "Baker", givenName: "Bob" },
      roles: [],
      [ENTERPRISE]: { department: "Kitchen" },
    }, JSON_TYPE);
    assert.equal(created.status, 201);
    assert.equal(ok(await owner.get("/v1/collaboration/principals/6a0b")).displayName, "Bob Baker");
    const changed = ok(
      await patch(
        idp,
        "6a0b",
        { op: "Replace", path: 'emails[type eq "work"].value', value: "baker@example.com" },
        { op: "Add", path: "name.familyName", value: "Bäcker" },
        { op: "Replace", path: `${CORE}:displayName`, value: "Bob Bäcker" },
        { op: "Add", path: `${ENTERPRISE}:department`, value: "Hall" },
        { op: "Add", path: 'roles[primary eq "True"].value', value: "Admin" },
        { op: "Add", path: 'emails[type eq "home"].value', value: "bob@home.example" },
        {
          op: "Replace",
          value: { "name.givenName": "Robert", ACTIVE: "True", title: null },
        },
        { op: "Add", path: 'phoneNumbers[type eq "fax"].value', value: "1" },
        { op: "Add", path: "x509Certificates.value", value: "x" },
      ),
    );
    assert.deepEqual(changed.name, { formatted: "Bob Baker", familyName: "Bäcker", givenName: "Robert" });
    assert.deepEqual(changed.emails, [{ value: "baker@example.com", type: "work", primary: true }]);
    assert.deepEqual([changed.displayName, changed.roles[0].value], ["Bob Bäcker", "admin"]);
    const principal = ok(await owner.get("/v1/collaboration/principals/6a0b"));
    assert.deepEqual([principal.displayName, principal.role], ["Bob Bäcker", "admin"]);
    const without = ok(await patch(idp, "6a0b", { op: "Remove", path: 'roles[primary eq "True"]' }));
    assert.deepEqual([without.roles[0].value, without.active], ["member", true]);

    const off = ok(await patch(idp, "6a0b", { op: "Replace", path: "active", value: "False" }));
    assert.equal(off.active, false);
    assert.deepEqual(await found(idp, 'active eq "False"'), ["6a0b"]);
    assert.equal((await idp.delete(`${USERS}/6a0b`)).status, 204);
    assertError(await idp.get(`${USERS}/6a0b`), 404);
    assert.equal(ok(await owner.get("/v1/collaboration/principals/6a0b")).disabled, true);
    const again = await idp.post(USERS, {
      schemas: [CORE],
      externalId: "6a0b",
      userName: "bob@example.com",
      active: "True",
    });
    assert.equal(again.status, 201, "who comes back is the same person");
    assert.equal(ok(await owner.get("/v1/collaboration/principals/6a0b")).disabled, false);
  },
);

testOnEngines("who was here before is linked, and what the provider does not mention stays", async (environment) => {
  await using gateway = await openGateway(environment);
  const { owner, idp } = await openProvider(gateway, "owner");
  const carol = await createCaller(gateway, "carol", { role: "admin" });
  ok(await idp.post(USERS, { userName: "carol", displayName: "Carol" }));
  ok(await carol.patch("/v1/collaboration/me", { displayName: "Caz" }));
  const { roles, ...known } = ok(await idp.get(`${USERS}/carol`));
  assert.equal(roles[0].value, "admin");
  ok(await idp.put(`${USERS}/carol`, { ...known, emails: null }));
  const { displayName, role } = ok(await owner.get("/v1/collaboration/principals/carol"));
  assert.deepEqual([displayName, role], ["Caz", "admin"]);
  assertError(await idp.post(USERS, { userName: "CAROL", externalId: "other" }), 409, "uniqueness");
  assertError(await idp.get(`${USERS}/other`), 404);
  assert.equal((await owner.get("/v1/collaboration/principals/other")).status, 404, "nothing of it stays");
  assertError(await idp.post(USERS, { userName: "carol" }), 409, "uniqueness");
  ok(await idp.post(USERS, { userName: "dora" }));
  assertError(await patch(idp, "dora", { op: "replace", path: "userName", value: "Carol" }), 409, "uniqueness");
  assert.equal(ok(await patch(idp, "dora", { op: "replace", value: { userName: "Dora B" } })).userName, "Dora B");
  await createCaller(gateway, "robo", { kind: "agent", owner: "olga" });
  assertError(await idp.post(USERS, { userName: "robo" }), 409, "uniqueness");
  ok(await idp.put(`${USERS}/carol`, { ...known, externalId: "c-1" }));
  assert.equal(ok(await idp.put(`${USERS}/carol`, { userName: "carol" })).externalId, "c-1");
  assertError(await idp.put(`${USERS}/carol`, { ...known, externalId: "c-2" }), 400, "mutability");
});

testOnEngines(
  "a provider grants and changes only roles below its own, and the last owner stays",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { owner, idp } = await openProvider(gateway);
    const admin = [{ value: "admin" }];
    assertError(await idp.post(USERS, { userName: "eve", roles: admin }), 403);
    assert.equal((await owner.get("/v1/collaboration/principals/eve")).status, 404);
    ok(await idp.post(USERS, { userName: "eve", roles: [{ value: "guest" }] }));
    assertError(await patch(idp, "eve", { op: "replace", path: "roles", value: admin }), 403);
    assertError(
      await patch(idp, "eve", { op: "replace", path: "roles", value: [{ value: "boss" }] }),
      400,
      "invalidValue",
    );
    assertError(await idp.post(USERS, { userName: "olga" }), 403);

    const member = await createCaller(gateway, "mel");
    assertError(await member.get(USERS), 403);
    assertError(await member.post(USERS, { userName: "zoe" }), 403);
    const narrow = ok(await owner.post("/v1/collaboration/tokens", { name: "n", scopes: ["principal.manage"] }));
    assertError(await gateway.withToken(narrow.token).get(USERS), 403);
    assertError(await gateway.withToken("svcpat_unknown").get(USERS), 401);
    assertProblem(await idp.get("/v1/collaboration/principals"), 403, "scope_missing");

    const stranger = await gateway.as("sam", { role: "owner", tenant: "other" });
    assertError(await stranger.get(`${USERS}/eve`), 404);
    assert.equal(ok(await stranger.get(USERS)).totalResults, 0);
    ok(await owner.post(USERS, { userName: "olga" }));
    assertError(await owner.delete(`${USERS}/olga`), 403);
    assertError(await patch(owner, "olga", { op: "replace", value: { active: "false" } }), 403);
    assert.equal(ok(await owner.get("/v1/collaboration/me")).principal.disabled, false);
  },
);

testOnEngines("people are found by filters, in pages, with the attributes that were asked for", async (environment) => {
  await using gateway = await openGateway(environment);
  const { idp } = await openProvider(gateway);
  for (const [n, name] of ["ann", "ben", "cem_x"].entries()) {
    const emails = n === 2 ? [] : [{ value: `${name}@example.com` }];
    ok(await idp.post(USERS, { userName: `${name}@Example.com`, externalId: name, emails, active: n !== 1 }));
    gateway.clock.advance(1000);
  }
  const filters: Record<string, string[]> = {
    'externalId eq "ann"': ["ann"],
    'externalId eq "ANN"': [],
    [`${CORE}:userName eq "BEN@example.com"`]: ["ben"],
    'id eq "cem_x"': ["cem_x"],
    'emails[type eq "work"].value eq "Ann@example.com"': ["ann"],
    'emails[type eq "work" and value eq "ben@example.com"]': ["ben"],
    'emails[type eq "home"].value eq "ann@example.com"': [],
    'emails.value co "@EXAMPLE"': ["ann", "ben"],
    "not (emails pr)": ["cem_x"],
    'userName sw "A" or userName ew "m_x@example.com"': ["ann", "cem_x"],
    'userName co "_x"': ["cem_x"],
    'userName co "%"': [],
    'active eq true and not (externalId eq "ann")': ["cem_x"],
    'ACTIVE EQ "False"': ["ben"],
    'meta.lastModified ge "2026-03-01T14:00:01+02:00"': ["ben", "cem_x"],
  };
  for (const [filter, ids] of Object.entries(filters)) assert.deepEqual(await found(idp, filter), ids, filter);

  const page = ok(await idp.get(`${USERS}?startIndex=2&count=1&attributes=userName,NAME.givenName,meta`));
  assert.deepEqual([page.totalResults, page.startIndex, page.itemsPerPage], [3, 2, 1]);
  assert.deepEqual(Object.keys(page.Resources[0]).toSorted(), ["id", "meta", "schemas", "userName"]);
  assert.deepEqual(ok(await idp.get(`${USERS}?count=0&startIndex=0&sortBy=userName`)).Resources, []);
  assert.equal(ok(await idp.get(`${USERS}?count=-1`)).totalResults, 3);
  ok(await idp.post("/scim/v2/Groups", { displayName: "Design", members: [{ value: "ann" }] }));
  const search = async (path: string, body: Record<string, unknown>): Promise<unknown[]> => {
    const { totalResults, Resources } = ok(await idp.post(`/scim/v2/${path}.search`, body));
    return [totalResults, ...Resources.map(({ id, displayName }: Record<string, string>) => displayName ?? id)];
  };
  assert.deepEqual(await search("Users/", { filter: 'userName sw "b"', attributes: ["displayName"] }), [1, "ben"]);
  assert.deepEqual(await search("Groups/", {}), [1, "Design"]);
  assert.deepEqual(await search("", { startIndex: 3, count: 2, attributes: ["displayName"] }), [4, "cem_x", "Design"]);
  assert.deepEqual(
    await search("", { filter: 'displayName eq "design"' }),
    [1, "Design"],
    "of users it is no condition",
  );
  assertError(await idp.post("/scim/v2/.search", { filter: "nothing pr" }), 400, "invalidFilter");
  const less = ok(await idp.get(`${USERS}/ann?excludedAttributes=emails,${CORE}:meta`));
  assert.deepEqual([less.emails, less.meta, less.userName], [undefined, undefined, "ann@Example.com"]);
});

Deno.test("what is wrong or hostile in a request of SCIM is refused in its own form", async () => {
  await using gateway = await openGateway();
  const { idp } = await openProvider(gateway);
  const hostile = [`userName eq "${"\n".repeat(60)}`, "(".repeat(1000), `userName eq "${"a".repeat(2000)}"`];
  for (
    const filter of ["userName", 'title eq "x"', 'userName is "x"', "active eq", 'meta.lastModified gt "x"', ...hostile]
  ) {
    const answer = await idp.get(`${USERS}?filter=${encodeURIComponent(filter)}`);
    assertError(answer, 400, filter.length > 1000 ? "invalidValue" : "invalidFilter");
  }
  ok(await idp.post(USERS, { userName: "dan" }));
  const { headers } = await idp.get(`${USERS}/dan`);
  const etag = headers.get("etag") ?? "";
  const operations: [Record<string, unknown>, string][] = [
    [{ op: "remove" }, "noTarget"],
    [{ op: "replace", value: "x" }, "noTarget"],
    [{ op: "move", path: "active", value: true }, "invalidValue"],
    [{ op: "replace", path: "emails[", value: "x" }, "invalidPath"],
    [{ op: "replace", path: 'emails[type co "w"].value', value: "x" }, "invalidPath"],
    [{ op: "replace", path: "emails[type].value", value: "x" }, "invalidFilter"],
    [{ op: "replace", path: "active", value: "perhaps" }, "invalidValue"],
    [{ op: "remove", path: "userName" }, "invalidValue"],
    [{ op: "replace", path: "name", value: "x" }, "invalidValue"],
  ];
  const many = Object.fromEntries(Array.from({ length: 22 }, (_, n) => [`emails[type eq "${n}"].value`, "x"]));
  const refused = await patch(idp, "dan", { op: "add", value: many });
  assertError(refused, 400, "invalidValue");
  assert.match(refused.body.detail, /^\/Operations/, "before each of them has read all others");
  for (const [operation, type] of operations) assertError(await patch(idp, "dan", operation), 400, type);
  for (const user of [{}, [], { userName: "a b" }, { userName: "x", externalId: "me" }, { userName: "x\0" }]) {
    assertError(await idp.post(USERS, user), 400, "invalidValue");
  }
  assertError(await idp.post(USERS, "{", JSON_TYPE), 400, "invalidSyntax");
  for (const path of ["Me", "Users/dan/emails", "Users/%"]) {
    assertError(await idp.get(`/scim/v2/${path}`), 404);
  }
  assertError(await idp.post("/scim/v2/Bulk", {}), 404);
  assertError(await idp.delete(USERS), 405);
  assertError(await idp.post(USERS, ADA, { "content-type": "text/plain" }), 415);
  assertError(await idp.post(USERS, { ...ADA, title: "x".repeat(70_000) }), 413);

  assert.equal((await idp.get(`${USERS}/dan`, { "if-none-match": etag })).status, 304);
  ok(await idp.patch(`${USERS}/dan`, { Operations: [{ op: "add", path: "title", value: "x" }] }, { "if-match": etag }));
  assertError(await idp.delete(`${USERS}/dan`, { "if-match": etag }), 412);
  assert.equal((await idp.delete(`${USERS}/dan`, { "if-match": "*" })).status, 204);
});

Deno.test("a provider finds out what is supported", async () => {
  await using gateway = await openGateway();
  const { idp } = await openProvider(gateway);
  const config = ok(await idp.get("/scim/v2/ServiceProviderConfig", JSON_TYPE));
  assert.deepEqual([config.patch.supported, config.bulk.supported, config.filter.maxResults], [true, false, 200]);
  const types = ok(await idp.get("/scim/v2/ResourceTypes")).Resources;
  assert.deepEqual(types.map(({ id, endpoint }: Record<string, string>) => [id, endpoint]), [
    ["User", "/Users"],
    ["Group", "/Groups"],
  ]);
  const [schema, groups] = ok(await idp.get("/scim/v2/Schemas")).Resources;
  const shown = Object.keys(ok(await idp.post(USERS, ADA)));
  const attributes = schema.attributes.map(({ name }: Record<string, string>) => name);
  assert.deepEqual(attributes.toSorted(), shown.filter((name) => !["schemas", "id", "meta"].includes(name)).toSorted());
  const group = Object.keys(ok(await idp.post("/scim/v2/Groups", { displayName: "Design", externalId: "g1" })));
  const ofGroups = groups.attributes.map(({ name }: Record<string, string>) => name);
  assert.deepEqual(ofGroups.toSorted(), group.filter((name) => !["schemas", "id", "meta"].includes(name)).toSorted());
  for (const list of ["ResourceTypes", "Schemas"]) {
    for (const resource of ok(await idp.get(`/scim/v2/${list}`)).Resources) {
      assert.deepEqual(ok(await idp.get(resource.meta.location)), resource);
    }
    assertError(await idp.get(`/scim/v2/${list}/Robot`), 404);
  }
  const subAttributes = (name: string): Record<string, unknown>[] =>
    schema.attributes.find((attribute: Record<string, unknown>) => attribute.name === name).subAttributes;
  assert.deepEqual(subAttributes("roles")[0]?.canonicalValues, ["guest", "member", "auditor", "admin", "owner"]);
  assert.deepEqual(subAttributes("emails").map(({ mutability }) => mutability), ["readWrite", "readOnly", "readWrite"]);
});

Deno.test("the examples of requests of SCIM in the OpenAPI document work as they are", async () => {
  await using gateway = await openGateway();
  const { idp } = await openProvider(gateway);
  const { paths } = ok(await idp.get("/openapi.json"));
  const exampleOf = (operation: { requestBody: { content: Record<string, { example: unknown }> } }): unknown =>
    operation.requestBody.content["application/scim+json"]?.example;
  const created = await idp.post(USERS, exampleOf(paths[USERS].post), JSON_TYPE);
  assert.equal(created.status, 201, JSON.stringify(created.body));
  const user = `${USERS}/${created.body.id}`;
  ok(await idp.put(user, exampleOf(paths[`${USERS}/{id}`].put), JSON_TYPE));
  assert.equal(ok(await idp.patch(user, exampleOf(paths[`${USERS}/{id}`].patch), JSON_TYPE)).active, false);
  const { id } = ok(await idp.post("/scim/v2/Groups", exampleOf(paths["/scim/v2/Groups"].post), JSON_TYPE));
  const group = `/scim/v2/Groups/${id}`;
  ok(await idp.put(group, exampleOf(paths["/scim/v2/Groups/{id}"].put), JSON_TYPE));
  ok(await idp.patch(group, exampleOf(paths["/scim/v2/Groups/{id}"].patch), JSON_TYPE));
});

Deno.test("calls of SCIM count against the limits of the service", async () => {
  await using gateway = await openGateway({
    SVC_RATE_LIMIT: "on",
    SVC_LIMIT_WRITES_PER_MINUTE: "5",
    SVC_LIMIT_WRITES_BURST: "5",
    SVC_LIMIT_SERVICE_FACTOR: "1",
  });
  const { idp } = await openProvider(gateway);
  const statuses: number[] = [];
  for (let n = 0; n < 6; n++) statuses.push((await idp.post(USERS, { userName: `person-${n}` })).status);
  assert.deepEqual(statuses, [201, 201, 201, 201, 201, 429]);
});
