// Errors disclose nothing about rooms that the caller cannot see; and what a token created ends with it.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, openGateway } from "../../harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok } from "../fixtures.ts";

const CALENDAR = "/v1/collaboration/calendar";
const EVENTS = `${CALENDAR}/events`;
const FEEDS = `${CALENDAR}/feeds`;
const TASKS = "/v1/collaboration/tasks";
const SOON = { start: { dateTime: "2026-03-10T08:00:00", timeZone: "UTC" }, durationMinutes: 60 };
const RANGE = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";

Deno.test("a slug discloses nothing about private rooms, and belongs to one public room at a time", async () => {
  await using gateway = await openGateway();
  const { alice, eve } = await createCallers(gateway, "alice", "eve");
  const secret = await createRoom(alice, [], { name: "Merger", slug: "merger" });
  for (const visibility of ["private", "public"]) {
    const probe = await eve.post("/v1/rooms", { name: "Probe", slug: "merger", visibility });
    assert.deepEqual([probe.status, probe.body.slug], [201, "merger"], visibility);
  }
  const other = await createRoom(eve, [], { name: "Other" });
  assert.equal(ok(await eve.patch(`/v1/rooms/${other}`, { slug: "merger" })).slug, "merger");
  // Among public rooms, which all may see, it is taken by now.
  assertProblem(await alice.patch(`/v1/rooms/${secret}`, { visibility: "public" }), 409, "slug_taken");
  assertProblem(await alice.post("/v1/rooms", { name: "x", slug: "merger", visibility: "public" }), 409, "slug_taken");
  assert.equal(ok(await alice.get(`/v1/rooms/${secret}`)).slug, "merger");
  const opened = ok(await alice.patch(`/v1/rooms/${secret}`, { visibility: "public", slug: "merger-2" }));
  assert.deepEqual([opened.slug, opened.visibility], ["merger-2", "public"]);
  assert.equal(ok(await alice.patch(`/v1/rooms/${secret}`, { visibility: "private" })).slug, "merger-2");
  ok(await eve.post("/v1/rooms", { name: "x", slug: "merger-2", visibility: "public" }));
  ok(await alice.delete(`/v1/rooms/${secret}`));
  assert.equal(ok(await alice.post(`/v1/rooms/${secret}/restore`)).slug, "merger-2");
});

Deno.test("a task of a hidden room does not exist for others, by key and by id", async () => {
  await using gateway = await openGateway();
  const { alice, eve } = await createCallers(gateway, "alice", "eve");
  const roomId = await createRoom(alice, [], { name: "Ops" });
  const { id, key } = ok(await alice.post("/v1/collaboration/tasks", { roomId, title: "Secret" }));
  const own = ok(await eve.post("/v1/collaboration/tasks", { roomId: await createRoom(eve, []), title: "Own" })).id;
  const path = "/v1/collaboration/tasks";
  for (const [there, absent] of [[key, "OPS-99"], [id, "task_none"]] as const) {
    const answers = await Promise.all([there, absent].map(async (ref) => [
      await eve.get(`${path}/${ref}`),
      await eve.patch(`${path}/${ref}`, { title: "x" }),
      await eve.put(`${path}/${own}/relations/blocks/${ref}`),
      await eve.patch(`${path}/${own}`, { parentId: ref }),
      await eve.get(`${path}?parentId=${ref}`),
    ]));
    const [known, unknown] = answers.map((all) =>
      all.map((
        { status, body },
      ) => [status, body.code, body.detail?.replaceAll(there, "").replaceAll(absent, ""), body.items])
    );
    assert.deepEqual(known, unknown);
  }
});

testOnEngines("tasks of a hidden room do not change responses about other tasks", async (environment) => {
  await using gateway = await openGateway(environment);
  const answersOf = async (name: string) => {
    const { [name]: eve } = await createCallers(gateway, name);
    assert.ok(eve !== undefined);
    const answers: ApiResponse[] = [];
    const record = async (answer: Promise<ApiResponse>) => {
      answers.push(await answer);
      return answers.at(-1)?.body;
    };
    const roomId = await createRoom(eve, [], { name: "Ops" });
    const { key } = await record(eve.post(TASKS, { roomId, title: "Mine" }));
    await record(eve.post(TASKS, { roomId: await createRoom(eve, [], { name: "Ops" }), title: "Other" }));
    for (const ref of [key, "OPS-1", "OPS-2", "ops-3", "OPS2-1", "OPS3-1"]) {
      const path = `${TASKS}/${ref}`;
      await record(eve.get(path));
      await record(eve.get(`${path}/activity`));
      await record(eve.get(`${TASKS}?parentId=${ref}`));
      await record(eve.get(`${TASKS}?q=${ref}`));
      await record(eve.post(TASKS, { roomId, title: "Below", parentId: ref }));
      await record(eve.patch(`${TASKS}/${key}`, { position: { after: ref } }));
      await record(eve.put(`${TASKS}/${key}/relations/blocks/${ref}`));
      await record(eve.delete(`${TASKS}/${key}/relations/blocks/${ref}`));
      await record(eve.post(`${TASKS}/bulk`, { ids: [ref], patch: { title: "Bulk" } }));
      await record(eve.delete(path));
      await record(eve.post(`${path}/restore`));
    }
    await record(eve.get(TASKS));
    await record(eve.get(`/v1/rooms/${roomId}/events?after=0&limit=300`));
    return shapeOf(answers, name);
  };
  const alone = await answersOf("eva");
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, [], { name: "Ops" });
  for (const title of ["one", "two", "three"]) ok(await alice.post(TASKS, { roomId, title }));
  assert.deepEqual(await answersOf("eve"), alone);
});

testOnEngines("a key that fits two visible rooms names neither task without the room", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, eve } = await createCallers(gateway, "alice", "eve");
  const make = async (by: typeof eve, roomId: string, title: string) => ok(await by.post(TASKS, { roomId, title }));
  const hidden = await make(alice, await createRoom(alice, [], { name: "Ops" }), "Hidden");
  const room = await createRoom(eve, ["alice"], { name: "Ops" });
  const [mine, next] = [await make(eve, room, "Mine"), await make(eve, room, "Next")];
  assert.deepEqual([hidden.key, mine.key, next.key], ["OPS-1", "OPS-1", "OPS-2"]);
  for (const path of [`${TASKS}/OPS-1`, `${TASKS}/ops-1/activity`, `${TASKS}?parentId=OPS-1`]) {
    const answer = await alice.get(path);
    assertProblem(answer, 409, "conflict");
    assert.match(answer.body.detail, /use the task's id/);
  }
  const { results } = ok(await alice.post(`${TASKS}/bulk`, { ids: ["OPS-1"], patch: { title: "x" } }));
  assert.equal(results[0].error.code, "conflict");
  assert.equal(ok(await alice.get(`${TASKS}/${hidden.id}`)).title, "Hidden");
  assert.equal(ok(await alice.get(`${TASKS}/OPS-2`)).title, "Next");
  assert.equal(ok(await eve.get(`${TASKS}/OPS-1`)).title, "Mine");
  // Where the room is known, so is the task.
  assert.equal(ok(await alice.patch(`${TASKS}/OPS-2`, { parentId: "OPS-1" })).parentId, mine.id);
  ok(await alice.patch(`${TASKS}/OPS-2`, { parentId: null, position: { before: "OPS-1" } }));
  // What is deleted makes way.
  ok(await alice.delete(`${TASKS}/${hidden.id}`));
  assert.equal(ok(await alice.get(`${TASKS}/OPS-1`)).title, "Mine");
  // Who sees a room with the prefix gets another prefix for new rooms.
  assert.equal((await make(alice, await createRoom(alice, [], { name: "Ops" }), "Third")).key, "OPS2-1");
});

testOnEngines(
  "a cycle of relations is rejected where the caller can see it, not for hidden tasks",
  async (environment) => {
    await using gateway = await openGateway(environment);
    const { alice, eve } = await createCallers(gateway, "alice", "eve");
    const make = async (roomId: string) => ok(await alice.post(TASKS, { roomId, title: "x" })).id;
    const shared = await createRoom(alice, ["eve"], { name: "Shared" });
    const [first, last, hidden] = [await make(shared), await make(shared), await make(await createRoom(alice, []))];
    for (const [one, other] of [[first, hidden], [hidden, last]]) {
      ok(await alice.put(`${TASKS}/${one}/relations/blocks/${other}`));
    }
    assertProblem(await alice.put(`${TASKS}/${last}/relations/blocks/${first}`), 409, "cycle");
    ok(await eve.put(`${TASKS}/${last}/relations/blocks/${first}`));
    assertProblem(await eve.put(`${TASKS}/${first}/relations/blocks/${last}`), 409, "cycle");
  },
);

testOnEngines("a hidden event does not reserve its uid for others", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const answersOf = async (name: string, taken: string) => {
    const { [name]: eve } = await createCallers(gateway, name);
    assert.ok(eve !== undefined);
    const roomId = await createRoom(alice, [name]);
    for (const visibility of ["private", "busy_only"]) {
      ok(await alice.post(EVENTS, { roomId, title: "Secret", uid: `${visibility}${taken}`, visibility, ...SOON }));
    }
    const answers: ApiResponse[] = [];
    for (const uid of ["private", "busy_only"]) {
      answers.push(await eve.post(`${CALENDAR}/import`, { roomId, text: fileOf(uid, `${uid}-own`) }));
      await gateway.runJobs();
      answers.push(await eve.get(`${CALENDAR}/import/${answers.at(-1)?.body.id}`));
      for (const visibility of ["room", "private"]) {
        const { body } = await eve.post(EVENTS, {
          roomId,
          title: "x",
          uid: `${uid}-${visibility}`,
          visibility,
          ...SOON,
        });
        for (const seen of ["private", "room"]) {
          answers.push(await eve.patch(`${EVENTS}/${body.id}`, { visibility: seen }));
        }
        answers.push(await eve.post(EVENTS, { roomId, title: "x", uid, visibility, ...SOON }));
      }
    }
    answers.push(await eve.get(`${EVENTS}?roomId=${roomId}&${RANGE}`));
    answers.push(await eve.get(`/v1/rooms/${roomId}/events?after=0&limit=300`));
    return shapeOf(answers, name);
  };
  assert.deepEqual(await answersOf("eve", ""), await answersOf("eva", "-other"));
});

testOnEngines("a uid is taken for everyone who can see its event", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, eve } = await createCallers(gateway, "alice", "bob", "eve");
  const roomId = await createRoom(alice, ["bob", "eve"]);
  const make = (by: typeof eve, uid: string, visibility: string, more: Record<string, unknown> = {}) =>
    by.post(EVENTS, { roomId, title: "x", uid, visibility, ...SOON, ...more });
  const importBy = async (by: typeof eve, uid: string) => {
    const { id } = ok(await by.post(`${CALENDAR}/import`, { roomId, text: fileOf(uid) }));
    await gateway.runJobs();
    return ok(await by.get(`${CALENDAR}/import/${id}`)).report;
  };
  const secret = ok(await make(alice, "u", "private", { attendees: [{ principalId: "bob" }] }));
  for (const visibility of ["private", "busy_only", "room"]) {
    for (const by of [alice, bob]) assertProblem(await make(by, "u", visibility), 409, "conflict");
  }
  assert.equal((await importBy(bob, "u")).problems[0].detail, "An event of another principal has this uid");
  // What eve makes is nothing to alice's, until that is shown to all as well.
  const shown = ok(await make(eve, "u", "room"));
  assertProblem(await alice.patch(`${EVENTS}/${secret.id}`, { visibility: "room" }), 409, "conflict");
  assert.equal((await importBy(alice, "u")).updated, 1);
  assert.deepEqual(
    [ok(await alice.get(`${EVENTS}/${secret.id}`)).title, ok(await eve.get(`${EVENTS}/${shown.id}`)).title],
    ["From a file", "x"],
  );
  ok(await eve.patch(`${EVENTS}/${shown.id}`, { visibility: "busy_only" }));
  ok(await alice.patch(`${EVENTS}/${secret.id}`, { visibility: "room" }));
  assertProblem(await eve.patch(`${EVENTS}/${shown.id}`, { visibility: "room" }), 409, "conflict");
  ok(await eve.delete(`${EVENTS}/${shown.id}`));
  assert.equal((await importBy(bob, "u")).unchanged, 1);
  assertProblem(await make(eve, "u", "private"), 409, "conflict");
});

/** Responses line by line, with ids by their order; the epoch of a stream is drawn. */
function shapeOf(answers: readonly ApiResponse[], name: string): string[] {
  const ids = new Map<string, string>();
  const text = JSON.stringify(answers.map(({ status, body }) => ({ status, body })), null, 1);
  return text.replaceAll(name, "eve").replace(/"epoch": .*/g, "").replace(/\b(?=[\w-]*\d)[\w-]{24,}/g, (id) => {
    ids.set(id, ids.get(id) ?? `id ${ids.size}`);
    return ids.get(id) ?? "";
  }).split("\n");
}

function fileOf(...uids: string[]): string {
  const events = uids.flatMap((uid) => [
    "BEGIN:VEVENT",
    `UID:${uid}`,
    "DTSTART:20260310T080000Z",
    "DTEND:20260310T090000Z",
    "SUMMARY:From a file",
    "END:VEVENT",
  ]);
  return ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", ...events, "END:VCALENDAR", ""].join("\r\n");
}

testOnEngines("exports of a room that an admin cannot see do not name it", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const roomId = await createRoom(alice, []);
  const EXPORTS = "/v1/collaboration/exports";
  const { id } = ok(await alice.post(EXPORTS, { kind: "room", roomId }));
  await gateway.runJobs();
  const shownTo = async (who: typeof alice): Promise<(string | null)[]> => {
    const { items } = ok(await who.get(EXPORTS));
    return [items.find((one: { id: string }) => one.id === id).roomId, ok(await who.get(`${EXPORTS}/${id}`)).roomId];
  };
  assert.deepEqual(await shownTo(boss), [null, null]);
  assert.deepEqual(await shownTo(alice), [roomId, roomId]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/boss`, { role: "owner" }));
  assert.deepEqual(await shownTo(boss), [roomId, roomId]);
  // Who asked for it chose the room.
  ok(await boss.delete(`/v1/rooms/${roomId}/members/alice`));
  assert.deepEqual(await shownTo(alice), [roomId, roomId]);
});

Deno.test("a calendar feed ends with the token that created it, and with the rights of its creator", async () => {
  await using gateway = await openGateway();
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const anyone = gateway.withToken(undefined);
  const feedBy = async (caller: typeof boss) => ok(await caller.post(FEEDS, {})).path;

  const alice = await gateway.as("alice", { jti: "session-1" });
  const bySession = await feedBy(alice);
  const again = await gateway.as("alice", { jti: "session-2" });
  const byOther = await feedBy(again);
  ok(await anyone.get(bySession));
  ok(await alice.post("/v1/collaboration/auth/logout"));
  assertProblem(await anyone.get(bySession), 404, "not_found");
  await gateway.runJobs();
  assert.equal(ok(await again.get(FEEDS)).items.length, 1);
  // Neither does it come back when the revocation is forgotten.
  gateway.clock.advance(2 * 3_600_000);
  assertProblem(await anyone.get(bySession), 404, "not_found");
  ok(await anyone.get(byOther));

  const made = ok(
    await (await gateway.as("alice")).post("/v1/collaboration/tokens", {
      name: "calendar",
      scopes: ["calendar.read", "calendar.write"],
    }),
  );
  const byToken = await feedBy(gateway.withToken(made.token));
  ok(await anyone.get(byToken));
  ok(await (await gateway.as("alice")).delete(`/v1/collaboration/tokens/${made.id}`));
  assertProblem(await anyone.get(byToken), 404, "not_found");

  ok(await (await gateway.as("boss", { role: "owner" })).delete("/v1/collaboration/principals/alice"));
  assertProblem(await anyone.get(byOther), 404, "not_found");
});
