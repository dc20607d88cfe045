// Principals and their tenant under changes at once, and what becomes of those whose owner is gone.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { principalStream } from "@/core/event.ts";
import { onPostgres } from "../engines.ts";
import { openGateway } from "../harness.ts";
import { pause } from "../wait.ts";
import { atOnce, statusesOf } from "./at_once.ts";
import { eventsOf, ok, people, refused, roomOf } from "./team.ts";

const PRINCIPALS = "/v1/collaboration/principals";
const TENANT = "/v1/collaboration/tenant";

onPostgres("of two changes of a principal that start from one version, one is refused", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, boss } = { ...await people(gateway, "alice"), boss: await gateway.as("boss", { role: "owner" }) };
  const answers = await atOnce(
    gateway,
    (tx) => tx.reserve("default", principalStream("alice"), 0),
    () => boss.patch(`${PRINCIPALS}/alice`, { displayName: "One", version: 1 }),
    () => alice.patch("/v1/collaboration/me", { timezone: "Europe/Vienna", version: 1 }),
  );
  assert.deepEqual(statusesOf(answers), [200, 412]);
});

onPostgres("of two changes of a tenant that start from one version, one is refused", async (environment) => {
  await using gateway = await openGateway(environment);
  const boss = await gateway.as("boss", { role: "owner" });
  const { version } = ok(await boss.get(TENANT));
  const answers = await atOnce(
    gateway,
    ({ db }) => db.updateTable("tenant").set({ id: "default" }).where("id", "=", "default").execute(),
    () => boss.patch(TENANT, { name: "One", version }),
    () => boss.patch(TENANT, { settings: { messageEditWindowSeconds: 60 }, version }),
  );
  assert.deepEqual(statusesOf(answers), [200, 412]);
});

onPostgres("two owners who lower each other at once leave one", async (environment) => {
  await using gateway = await openGateway(environment);
  const [ann, ben] = await Promise.all(["ann", "ben"].map(async (name) => {
    const owner = await gateway.as(name, { role: "owner" });
    ok(await owner.get(TENANT));
    return owner;
  }));
  assert.ok(ann !== undefined && ben !== undefined);
  const answers = await atOnce(
    gateway,
    async (tx) => {
      for (const name of ["ann", "ben"]) await tx.reserve("default", principalStream(name), 0);
    },
    () => ann.patch(`${PRINCIPALS}/ben`, { role: "member" }),
    () => ben.patch(`${PRINCIPALS}/ann`, { disabled: true }),
  );
  assert.deepEqual(statusesOf(answers), [200, 403]);
});

onPostgres("of two tokens at once that state a role, the newer one counts", async (environment) => {
  await using gateway = await openGateway(environment);
  const iat = gateway.clock.now() / 1000;
  ok(await (await gateway.as("alice", { role: "member", iat: iat - 90 })).get(TENANT));
  const newer = await gateway.as("alice", { role: "guest", iat: iat - 30 });
  const older = await gateway.as("alice", { role: "admin", iat: iat - 60 });
  const answers = await atOnce(
    gateway,
    async (tx) => {
      await tx.reserve("default", principalStream("alice"), 0);
      await tx.db.updateTable("principal").set({ id: "alice" }).where("id", "=", "alice").execute();
    },
    () => newer.get(TENANT),
    async () => {
      await pause(50);
      return await older.get(TENANT);
    },
  );
  assert.deepEqual(statusesOf(answers), [200, 200]);
  const { role } = ok(await (await gateway.as("alice")).get("/v1/collaboration/me")).principal;
  assert.equal(role, "guest");
});

onPostgres("tokens made at once are no more than a principal may have", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await people(gateway, "alice");
  const make = () => alice.post("/v1/collaboration/tokens", { name: "job", scopes: ["room.read"] });
  for (let made = 0; made < 49; made++) ok(await make());
  const answers = await atOnce(
    gateway,
    ({ db }) => sql`lock table api_token in share mode`.execute(db),
    ...Array.from({ length: 3 }, () => make),
  );
  assert.deepEqual(statusesOf(answers), [201, 409, 409]);
});

Deno.test("to disable somebody twice, or to change nothing, is told to nobody", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  await people(gateway, "bob");
  const told = async (): Promise<string[]> =>
    (await gateway.app.store.log.read("default", principalStream("bob"), 0, 10)).map(({ type }) => type);
  for (let time = 0; time < 2; time++) {
    assert.equal((await boss.delete(`${PRINCIPALS}/bob`)).status, 204);
    for (const nothing of [{}, { disabled: true }, { displayName: "bob" }]) {
      assert.equal(ok(await boss.patch(`${PRINCIPALS}/bob`, nothing)).version, 2);
    }
    assert.deepEqual(await told(), ["principal.disabled"]);
  }
  ok(await boss.patch(`${PRINCIPALS}/bob`, { disabled: false }));
  assert.equal((await boss.delete(`${PRINCIPALS}/bob`)).status, 204);
  assert.deepEqual(await told(), ["principal.disabled", "principal.updated", "principal.disabled"]);
});

Deno.test("the last owner does not go because an agent of theirs is an owner as well", async () => {
  await using gateway = await openGateway();
  const olga = await gateway.as("olga", { role: "owner" });
  ok(await olga.post(PRINCIPALS, { kind: "agent", displayName: "Bot", role: "owner" }));
  refused(await olga.patch(`${PRINCIPALS}/me`, { role: "member" }), 403, "forbidden");
  refused(await olga.delete(`${PRINCIPALS}/me`), 403, "forbidden");
});

Deno.test("what an agent left behind ends with its owner: feeds and messages for later", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const robo = await gateway.as("robo", { kind: "agent", owner: "bob" });
  ok(await robo.get("/v1/collaboration/me"));
  ok(await alice.put(`/v1/rooms/${roomId}/members/robo`, {}));
  const { path } = ok(await robo.post("/v1/collaboration/calendar/feeds", {}));
  const sendAt = new Date(gateway.clock.now() + 60_000).toISOString();
  ok(await robo.post("/v1/messages", { roomId, text: "later", sendAt }));
  ok(await gateway.withToken(undefined).get(path));
  ok(await (await gateway.as("boss", { role: "owner" })).delete(`${PRINCIPALS}/bob`));
  gateway.clock.advance(60_000);
  await gateway.runJobs();
  const gone = await gateway.withToken(undefined).get(path);
  refused(gone, 404, "not_found");
  assert.equal(gone.body.detail, "No such feed", "as of an address that never was one");
  assert.ok((await eventsOf(alice, roomId)).every(({ type }) => type !== "message.created"));
});

Deno.test("an agent whose owner is disabled is reminded of nothing and invited no more", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
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
  refused(await alice.post("/v1/collaboration/calendar/events", event), 422, "validation_failed");
  gateway.clock.advance(50 * 60_000);
  await gateway.runJobs();
  const reminded = await gateway.app.store.db.selectFrom("notification").select("principal_id")
    .where("kind", "=", "reminder").execute();
  assert.deepEqual(reminded, [{ principal_id: "alice" }]);
});

Deno.test("rights in another tenant are none", async () => {
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

Deno.test("the time zone of a principal has a name that knows daylight saving", async () => {
  await using gateway = await openGateway();
  const { alice } = await people(gateway, "alice");
  for (const timezone of ["+02:00", "+23:59", "PST", "Europe/Nowhere", ""]) {
    refused(await alice.patch("/v1/collaboration/me", { timezone }), 422, "validation_failed");
  }
  assert.equal(ok(await alice.patch("/v1/collaboration/me", { timezone: "Europe/Vienna" })).timezone, "Europe/Vienna");
});
