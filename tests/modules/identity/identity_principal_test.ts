// Concurrent changes of principals and tenants, and agents whose owner is disabled.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { principalStream } from "@/core/event/event.ts";
import { testOnPostgres } from "../../engines.ts";
import { openGateway } from "../../harness.ts";
import { pause } from "../../wait.ts";
import { callConcurrently, sortedStatuses } from "../concurrency.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";
import { recordQueries } from "../query_log.ts";

const PRINCIPALS = "/v1/collaboration/principals";
const TENANT = "/v1/collaboration/tenant";

testOnPostgres("of two changes of a principal that are based on one version, one is rejected", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, boss } = {
    ...await createCallers(gateway, "alice"),
    boss: await gateway.as("boss", { role: "owner" }),
  };
  const answers = await callConcurrently(
    gateway,
    (tx) => tx.lock("default", principalStream("alice")),
    () => boss.patch(`${PRINCIPALS}/alice`, { displayName: "One", version: 1 }),
    () => alice.patch("/v1/collaboration/me", { timeZone: "Europe/Vienna", version: 1 }),
  );
  assert.deepEqual(sortedStatuses(answers), [200, 412]);
});

testOnPostgres("of two changes of a tenant that are based on one version, one is rejected", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  const { version } = ok(await boss.get(TENANT));
  const answers = await callConcurrently(
    gateway,
    ({ db }) => db.updateTable("tenant").set({ id: "default" }).where("id", "=", "default").execute(),
    () => boss.patch(TENANT, { name: "One", version }),
    () => boss.patch(TENANT, { settings: { messageEditWindowSeconds: 60 }, version }),
  );
  assert.deepEqual(sortedStatuses(answers), [200, 412]);
});

testOnPostgres("of two owners who lower each other concurrently, one remains", async (environment) => {
  await using gateway = await openGateway(environment);
  const [ann, ben] = await Promise.all(["ann", "ben"].map(async (name) => {
    const owner = await gateway.as(name, { role: "owner" });
    ok(await owner.get(TENANT));
    return owner;
  }));
  assert.ok(ann !== undefined && ben !== undefined);
  const answers = await callConcurrently(
    gateway,
    async (tx) => {
      for (const name of ["ann", "ben"]) await tx.lock("default", principalStream(name));
    },
    () => ann.patch(`${PRINCIPALS}/ben`, { role: "member" }),
    () => ben.patch(`${PRINCIPALS}/ann`, { disabled: true }),
  );
  // The second one is disabled by then, or no longer an owner.
  const [first, second = 0] = sortedStatuses(answers);
  assert.ok(first === 200 && [401, 403].includes(second), `${first} ${second}`);
});

testOnPostgres("of two concurrent tokens with a role, the newer one wins", async (environment) => {
  await using gateway = await openGateway(environment);
  const iat = gateway.clock.now() / 1000;
  ok(await (await gateway.as("alice", { role: "member", iat: iat - 90 })).get(TENANT));
  const newer = await gateway.as("alice", { role: "guest", iat: iat - 30 });
  const older = await gateway.as("alice", { role: "admin", iat: iat - 60 });
  const answers = await callConcurrently(
    gateway,
    async (tx) => {
      await tx.lock("default", principalStream("alice"));
      await tx.db.updateTable("principal").set({ id: "alice" }).where("id", "=", "alice").execute();
    },
    () => newer.get(TENANT),
    async () => {
      await pause(50);
      return await older.get(TENANT);
    },
  );
  assert.deepEqual(sortedStatuses(answers), [200, 200]);
  const { role } = ok(await (await gateway.as("alice")).get("/v1/collaboration/me")).principal;
  assert.equal(role, "guest");
});

testOnPostgres("concurrent creations of tokens do not exceed the limit of a principal", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const make = () => alice.post("/v1/collaboration/tokens", { name: "job", scopes: ["room.read"] });
  for (let made = 0; made < 49; made++) ok(await make());
  const answers = await callConcurrently(
    gateway,
    ({ db }) => sql`lock table api_token in share mode`.execute(db),
    ...Array.from({ length: 3 }, () => make),
  );
  assert.deepEqual(sortedStatuses(answers), [201, 409, 409]);
});

Deno.test("disabling twice, or changing nothing, publishes nothing", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  await createCallers(gateway, "bob");
  const eventTypes = async (): Promise<string[]> =>
    (await gateway.app.store.log.read("default", principalStream("bob"), 0, 10)).map(({ type }) => type);
  for (let time = 0; time < 2; time++) {
    assert.equal((await boss.delete(`${PRINCIPALS}/bob`)).status, 204);
    for (const nothing of [{}, { disabled: true }, { displayName: "bob" }]) {
      assert.equal(ok(await boss.patch(`${PRINCIPALS}/bob`, nothing)).version, 2);
    }
    assert.deepEqual(await eventTypes(), ["principal.disabled"]);
  }
  ok(await boss.patch(`${PRINCIPALS}/bob`, { disabled: false }));
  assert.equal((await boss.delete(`${PRINCIPALS}/bob`)).status, 204);
  assert.deepEqual(await eventTypes(), ["principal.disabled", "principal.updated", "principal.disabled"]);
});

Deno.test("the last owner cannot be removed even if an agent of theirs is an owner as well", async () => {
  await using gateway = await openGateway();
  const olga = await gateway.as("olga", { role: "owner" });
  ok(await olga.post(PRINCIPALS, { kind: "agent", displayName: "Bot", role: "owner" }));
  assertProblem(await olga.patch(`${PRINCIPALS}/me`, { role: "member" }), 403, "forbidden");
  assertProblem(await olga.delete(`${PRINCIPALS}/me`), 403, "forbidden");
});

Deno.test("feeds and scheduled messages of an agent end with its owner", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const robo = await createCaller(gateway, "robo", { kind: "agent", owner: "bob" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, {}));
  const { path } = ok(await robo.post("/v1/collaboration/calendar/feeds", {}));
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  ok(await robo.post("/v1/messages", { roomId, text: "later", sendAt }));
  ok(await gateway.withToken(undefined).get(path));
  ok(await (await gateway.as("boss", { role: "owner" })).delete(`${PRINCIPALS}/bob`));
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  const deleted = await gateway.withToken(undefined).get(path);
  assertProblem(deleted, 404, "not_found");
  assert.equal(deleted.body.detail, "No such feed", "like an unknown address");
  assert.ok((await readRoomEvents(alice, roomId)).every(({ type }) => type !== "message.created"));
});

Deno.test("an agent whose owner is disabled gets neither reminders nor invitations", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  ok(await (await gateway.as("robo", { kind: "agent", owner: "bob" })).get(TENANT));
  const event = {
    roomId,
    title: "Stand-up",
    start: { dateTime: "2026-03-01T13:00:00", timeZone: "UTC" },
    durationMinutes: 30,
    attendees: [{ principalId: "robo" }],
    reminders: [{ minutesBefore: 10 }],
  };
  ok(await alice.post("/v1/collaboration/calendar/events", event));
  ok(await (await gateway.as("boss", { role: "owner" })).delete(`${PRINCIPALS}/bob`));
  assertProblem(await alice.post("/v1/collaboration/calendar/events", event), 422, "validation_failed");
  gateway.clock.advance(50 * 60_000);
  await gateway.runJobs();
  const reminded = await gateway.app.store.db.selectFrom("notification").select("principal_id")
    .where("kind", "=", "reminder").execute();
  assert.deepEqual(reminded, [{ principal_id: "alice" }]);
});

Deno.test("a token grants no rights in another tenant", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const ask = async (id: string) => {
    const checks = [{ action: "tenant.update", resource: { type: "tenant", id } }];
    return ok(await boss.post("/v1/collaboration/permissions/check", { checks })).results[0];
  };
  assert.equal((await ask("default")).allowed, true);
  const { allowed, reason } = await ask("elsewhere");
  assert.deepEqual([allowed, reason], [false, "not_found"]);
});

Deno.test("the time zone of a principal is a named zone, not an offset", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  for (const timeZone of ["+02:00", "+23:59", "PST", "Europe/Nowhere", ""]) {
    assertProblem(await alice.patch("/v1/collaboration/me", { timeZone }), 422, "validation_failed");
  }
  assert.equal(ok(await alice.patch("/v1/collaboration/me", { timeZone: "europe/vienna" })).timeZone, "Europe/Vienna");
});

Deno.test("SQLite looks for a few of very many principals in slices, between which others are served", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const { db } = gateway.app.store;
  const row = await db.selectFrom("principal").selectAll().where("id", "=", "alice").executeTakeFirstOrThrow();
  const others = Array.from({ length: 4100 }, (_, n) => ({
    ...row,
    id: `prn_${String(n).padStart(4, "0")}`,
    handle: `other${n}`,
    display_name: n % 1500 === 7 ? "A needle" : "Other",
  }));
  await gateway.app.store.write((tx) => tx.insertMany("principal", others));
  const statements = await recordQueries(async () => {
    const found: string[] = [];
    for (let cursor = ""; cursor !== "end";) {
      const { items, nextCursor } = ok(await alice.get(`${PRINCIPALS}?q=needle&limit=2${cursor}`));
      found.push(...items.map(({ id }: { id: string }) => id));
      cursor = nextCursor === null ? "end" : `&cursor=${nextCursor}`;
    }
    assert.deepEqual(found, ["prn_0007", "prn_1507", "prn_3007"]);
  });
  const pieces = statements.filter(({ sql }) => sql.includes("fold_case"));
  assert.equal(pieces.length, 4, "two for the first page, as many for the next");
  assert.equal(pieces.filter(({ sql }) => sql.includes('"id" <= ')).length, 3);
});
