// Tasks over REST: creation, updates, lists, deletion, access and events.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { nextKey } from "@/modules/task/key.ts";
import { openTaskFixture, PATH } from "./task_fixture.ts";
import { testOnEngines } from "../../engines.ts";
import { assertProblem, completeSearch, ok } from "../fixtures.ts";
import { memberOf } from "../../tokens.ts";

Deno.test("task.create numbers tasks within the room and returns every field", async () => {
  await using fixture = await openTaskFixture();
  const first = await fixture.create("Renew the certificate", {
    description: "Before *May*",
    status: "in_progress",
    priority: "urgent",
    assigneeIds: ["me", "owner", "owner"],
    labels: ["tls", "ops", "tls"],
    startAt: "2026-03-02T09:00:00Z",
    dueAt: "2026-03-09T09:00:00Z",
    timeZone: "europe/vienna",
    metadata: { ticket: 7 },
  });
  assert.match(first.id, /^task_[0-9a-f]{32}$/);
  assert.equal(first.key, "OPS-1");
  assert.deepEqual(first.assigneeIds, ["member", "owner"]);
  assert.deepEqual(first.labels, ["tls", "ops"]);
  assert.equal(first.dueAt, "2026-03-09T09:00:00.000Z");
  assert.equal(first.timeZone, "Europe/Vienna");
  assert.equal(first.priority, "urgent");
  const second = await fixture.create("Another");
  assert.equal(second.key, "OPS-2");
  const { relations, subtaskCount, ...task } = await fixture.read("ops-1");
  assert.deepEqual(task, first);
  assert.deepEqual([relations, subtaskCount], [[], 0]);
});

testOnEngines("a purged task leaves no relation, and its key is never used again in its room", async (environment) => {
  await using fixture = await openTaskFixture({}, environment);
  const { id } = await fixture.create("one");
  for (const kind of ["blocks", "related"]) {
    ok(await fixture.member.put(`${PATH}/${id}/relations/${kind}/${(await fixture.create(kind)).id}`));
  }
  assert.equal((await fixture.member.delete(`${PATH}/${id}`)).status, 204);
  fixture.gateway.clock.advance(31 * 86_400_000);
  await fixture.gateway.runJobs();
  assert.deepEqual((await sql`select * from task_relation`.execute(fixture.gateway.app.store.db)).rows, []);
  const owner = await fixture.gateway.as("owner");
  const again = await owner.post(PATH, { roomId: fixture.roomId, title: "two" });
  assert.equal(again.body.key, "OPS-4");
  assertProblem(await owner.get(`${PATH}/OPS-1`), 404, "not_found");
});

Deno.test("the prefix of a purged room can be used again and does not disclose the room", async () => {
  await using fixture = await openTaskFixture();
  await fixture.create("one");
  const keyIn = async (name: string): Promise<string> => {
    const owner = await fixture.gateway.as("owner");
    const { body: room } = await owner.post("/v1/rooms", { name });
    return (await owner.post(PATH, { roomId: room.id, title: "x" })).body.key;
  };
  assert.equal(await keyIn("Ops"), "OPS2-1");
  assert.equal((await fixture.owner.delete(`/v1/rooms/${fixture.roomId}`)).status, 204);
  assert.equal(await keyIn("Ops"), "OPS-1");
  fixture.gateway.clock.advance(31 * 86_400_000);
  await fixture.gateway.runJobs();
  assert.equal(await keyIn("Ops"), "OPS3-1");
});

Deno.test("prefixes derive from slug or name and are unique among visible rooms", async () => {
  await using fixture = await openTaskFixture();
  const cases: [string, string][] = [
    ["Customer support", "CS"],
    ["Climate science", "CS2"],
    ["Engineering", "ENG"],
    ["Über Öl", "UO"],
    ["Łódź Ørsted", "LO"],
    ["作業", "T"],
    ["42", "T2"],
    ["A very long name of many words", "AVLNO"],
  ];
  for (const [name, prefix] of cases) {
    const { body: room } = await fixture.owner.post("/v1/rooms", { name });
    const { body: task } = await fixture.owner.post(PATH, { roomId: room.id, title: "x" });
    assert.equal(task.key, `${prefix}-1`, name);
  }
});

Deno.test("concurrent task.create allocates numbers without gaps or duplicates", async () => {
  await using fixture = await openTaskFixture();
  const tasks = await Promise.all(Array.from({ length: 40 }, (_, index) => fixture.create(`task ${index}`)));
  const numbers = tasks.map((task) => Number(task.key.split("-")[1])).sort((a, b) => a - b);
  assert.deepEqual(numbers, Array.from({ length: 40 }, (_, index) => index + 1));
  assert.equal(new Set(tasks.map((task) => task.position)).size, 40);
});

Deno.test("a refused task leaves no gap in the numbers", async () => {
  await using fixture = await openTaskFixture();
  await fixture.create("one");
  assertProblem(
    await fixture.member.post(PATH, { roomId: fixture.roomId, title: "no", assigneeIds: ["outsider"] }),
    422,
    "validation_failed",
  );
  assert.equal((await fixture.create("two")).key, "OPS-2");
});

Deno.test("task.update merges a patch, clears by null, and increments the version on changes only", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one", { description: "text", dueAt: "2026-04-01T10:00:00Z", labels: ["a"] });
  const changed = await fixture.update(id, { title: "uno", description: null, labels: ["b"] });
  assert.deepEqual([changed.title, changed.description, changed.labels, changed.version], ["uno", null, ["b"], 2]);
  assert.equal(changed.dueAt, "2026-04-01T10:00:00.000Z");
  assert.equal((await fixture.update(id, { title: "uno" })).version, 2);
  assertProblem(
    await fixture.member.patch(`${PATH}/${id}`, { title: "x" }, { "if-match": '"1"' }),
    412,
    "version_mismatch",
  );
  assert.equal((await fixture.member.patch(`${PATH}/${id}`, { title: "x" }, { "if-match": '"2"' })).status, 200);
  const done = await fixture.update(id, { status: "done" });
  assert.equal(done.completedAt, "2026-03-01T12:00:00.000Z");
  assert.equal((await fixture.update(id, { status: "todo" })).completedAt, null);
});

Deno.test("a time in any form of RFC 3339 is stored and compared as UTC", async () => {
  await using fixture = await openTaskFixture();
  const dates = { startAt: "2026-04-01T09:30:00.123456+00:00", dueAt: "2026-04-01T12:00:00+02:00" };
  const { id, startAt, dueAt } = await fixture.create("one", dates);
  assert.deepEqual([startAt, dueAt], ["2026-04-01T09:30:00.123Z", "2026-04-01T10:00:00.000Z"]);
  assert.equal((await fixture.update(id, { dueAt: "2026-04-01T05:00:00-05:00" })).version, 1);
  const listed = async (bounds: Record<string, string>): Promise<number> =>
    ok(await fixture.member.get(`${PATH}?${new URLSearchParams(bounds)}`)).items.length;
  assert.equal(await listed({ dueAfter: "2026-04-01T11:00:00+01:00", dueBefore: "2026-04-01T10:00:01Z" }), 1);
  assert.equal(await listed({ dueBefore: "2026-04-01T12:00:00+02:00" }), 0);
  assertProblem(
    await fixture.member.patch(`${PATH}/${id}`, { dueAt: "2026-04-01T10:00:00" }),
    422,
    "validation_failed",
  );
});

Deno.test("of two concurrent updates of one version, one fails with 412", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const responses = await Promise.all(
    ["a", "b"].map((title) => fixture.member.patch(`${PATH}/${id}`, { title, version: 1 })),
  );
  assert.deepEqual(responses.map(({ status }) => status).sort(), [200, 412]);
});

Deno.test("invalid values are refused with their pointer", async () => {
  await using fixture = await openTaskFixture();
  const cases: [Record<string, unknown>, number, string][] = [
    [{ startAt: "2026-03-02T00:00:00Z", dueAt: "2026-03-01T00:00:00Z" }, 422, "validation_failed"],
    [{ timeZone: "Mars/Olympus" }, 422, "invalid_time_zone"],
    [{ timeZone: "+02:00" }, 422, "invalid_time_zone"],
    [{ assigneeIds: ["nobody-there"] }, 422, "validation_failed"],
    [{ parentId: "OPS-99" }, 422, "validation_failed"],
    [{ labels: Array.from({ length: 21 }, (_, n) => `l${n}`) }, 422, "validation_failed"],
    [{ title: "x".repeat(256) }, 422, "validation_failed"],
    [{ description: "x".repeat(50_001) }, 422, "validation_failed"],
    [{ sourceMessageId: "msg_nope" }, 404, "not_found"],
    [{ recurrence: { rrule: "FREQ=DAILY" } }, 422, "validation_failed"],
    [{ color: "red" }, 422, "unknown_field"],
  ];
  for (const [input, status, code] of cases) {
    assertProblem(await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x", ...input }), status, code);
  }
  assertProblem(await fixture.member.get(`${PATH}?cursor=x`), 400, "invalid_cursor");
});

Deno.test("members change tasks, observers read them, and outsiders get 404", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const { id: other } = await fixture.create("two");
  const path = `${PATH}/${id}`;
  const { body: lease } = await fixture.owner.post(`${PATH}/${other}/claim`);
  const reads = [path, `${path}/activity`];
  const writes: [string, string, unknown][] = [
    ["POST", PATH, { roomId: fixture.roomId, title: "x" }],
    ["PATCH", path, { title: "x" }],
    ["PUT", `${path}/relations/related/${other}`, {}],
    ["DELETE", `${path}/relations/related/${other}`, undefined],
    ["POST", `${path}/claim`, {}],
    ["POST", `${PATH}/${other}/release`, { leaseToken: lease.leaseToken }],
    ["DELETE", path, undefined],
    ["POST", `${path}/restore`, {}],
  ];
  for (const read of reads) {
    assert.equal((await fixture.observer.get(read)).status, 200, read);
    assertProblem(await fixture.outsider.get(read), 404, "not_found");
  }
  for (const [method, url, body] of writes) {
    assertProblem(await fixture.outsider.call(method, url, body), 404, "not_found");
    assertProblem(await fixture.observer.call(method, url, body), 403, "forbidden");
  }
  for (const [method, url, body] of writes) {
    const response = await fixture.member.call(method, url, body);
    assert.ok(response.status < 300, `${method} ${url}: ${JSON.stringify(response.body)}`);
  }
  const { body: bulk } = await fixture.observer.post(`${PATH}/bulk`, { ids: [id], patch: { title: "x" } });
  assert.equal(bulk.results[0].error.code, "forbidden");
  assert.deepEqual(await fixture.listTitles("", fixture.outsider), []);
  const stranger = await fixture.gateway.as("member", { tenant: "elsewhere" });
  assertProblem(await stranger.get(path), 404, "not_found");
});

Deno.test("a viewer of a public room reads its tasks and cannot change them", async () => {
  await using fixture = await openTaskFixture({ visibility: "public" });
  const { id } = await fixture.create("one");
  assert.equal((await fixture.outsider.get(`${PATH}/${id}`)).status, 200);
  assert.deepEqual(await fixture.listTitles("", fixture.outsider), ["one"]);
  assertProblem(await fixture.outsider.patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  const guest = await fixture.gateway.as("visitor", { role: "guest" });
  assert.deepEqual(await fixture.listTitles("", guest), []);
});

Deno.test("an agent reads and changes tasks only where its owner can", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const bot = await fixture.gateway.as("bot", { kind: "agent", owner: "outsider" });
  await bot.get("/v1/collaboration/me");
  const members = `/v1/rooms/${fixture.roomId}/members`;
  await fixture.owner.put(`${members}/outsider`, { role: "observer" });
  await fixture.owner.put(`${members}/bot`, { role: "member" });
  await fixture.owner.delete(`${members}/outsider`);
  assertProblem(await bot.get(`${PATH}/${id}`), 404, "not_found");
  assert.deepEqual(await fixture.listTitles("", bot), []);
  assertProblem(
    await fixture.member.patch(`${PATH}/${id}`, { assigneeIds: ["bot"] }),
    422,
    "validation_failed",
  );
  await fixture.owner.put(`${members}/outsider`, { role: "observer" });
  assertProblem(await bot.get(`${PATH}/${id}`), 404, "not_found");
  await fixture.owner.put(`${members}/bot`, { role: "member" });
  assert.equal((await bot.get(`${PATH}/${id}`)).status, 200);
  assert.deepEqual(await fixture.listTitles("", bot), ["one"]);
  assertProblem(await bot.patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  assert.deepEqual((await fixture.update(id, { assigneeIds: ["bot"] })).assigneeIds, ["bot"]);
});

Deno.test("tasks of an archived room are read-only", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  await fixture.owner.patch(`/v1/rooms/${fixture.roomId}`, { state: "archived" });
  assert.equal((await fixture.member.get(`${PATH}/${id}`)).status, 200);
  assertProblem(await fixture.member.patch(`${PATH}/${id}`, { title: "x" }), 409, "room_archived");
  assertProblem(await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x" }), 409, "room_archived");
  assertProblem(await fixture.member.post(`${PATH}/${id}/claim`), 409, "room_archived");
});

Deno.test("task.list filters across the rooms of the caller, sorts and paginates", async () => {
  await using fixture = await openTaskFixture();
  const { body: lab } = await fixture.member.post("/v1/rooms", { name: "Lab", slug: "lab" });
  const { body: hidden } = await fixture.owner.post("/v1/rooms", { name: "Board", visibility: "private" });
  const make = async (title: string, input: Record<string, unknown> = {}) => {
    fixture.gateway.clock.advance(1000);
    return await fixture.create(title, input);
  };
  const a = await make("alpha", { priority: "high", labels: ["x"], dueAt: "2026-03-05T00:00:00Z" });
  await make("beta", { priority: "low", status: "done", labels: ["y"], assigneeIds: ["me"] });
  await make("gamma 100%", { parentId: a.key, dueAt: "2026-03-04T00:00:00Z", description: "needle" });
  await make("delta", { roomId: lab.id, status: "blocked", labels: ["x", "y"] });
  await fixture.owner.post(PATH, { roomId: hidden.id, title: "secret" });
  const expected: [string, string[]][] = [
    ["sort=createdAt", ["alpha", "beta", "gamma 100%", "delta"]],
    ["sort=-createdAt", ["delta", "gamma 100%", "beta", "alpha"]],
    ["sort=dueAt", ["gamma 100%", "alpha", "beta", "delta"]],
    ["sort=-priority&priority=high,low", ["alpha", "beta"]],
    [`roomId=${lab.id}`, ["delta"]],
    [`roomId=${fixture.roomId},${lab.id}&sort=createdAt`, ["alpha", "beta", "gamma 100%", "delta"]],
    [`roomId=${hidden.id}`, []],
    ["assigneeId=me", ["beta"]],
    ["assigneeId=owner", []],
    ["status=done,blocked&sort=createdAt", ["beta", "delta"]],
    ["priority=high&priority=low&sort=createdAt", ["alpha", "beta"]],
    ["label=x&sort=createdAt", ["alpha", "delta"]],
    ["dueBefore=2026-03-05T00:00:00Z", ["gamma 100%"]],
    ["dueAfter=2026-03-05T00:00:00Z", ["alpha"]],
    [`parentId=${a.id}`, ["gamma 100%"]],
    ["parentId=OPS-1", ["gamma 100%"]],
    ["parentId=OPS-99", []],
    ["q=NEEDLE", ["gamma 100%"]],
    ["q=100%25", ["gamma 100%"]],
    ["q=lab-1", ["delta"]],
    ["updatedSince=2026-03-01T12:00:03Z&sort=updatedAt", ["gamma 100%", "delta"]],
  ];
  for (const [query, titles] of expected) assert.deepEqual(await fixture.listTitles(query), titles, query);
  for (const sort of ["position", "dueAt", "-dueAt", "priority", "-priority", "updatedAt", "-updatedAt"]) {
    const whole = await fixture.listTitles(`sort=${sort}`);
    const paged: string[] = [];
    for (let cursor = "";;) {
      const { body } = await fixture.member.get(`${PATH}?sort=${sort}&limit=1${cursor}`);
      paged.push(...body.items.map((task: { title: string }) => task.title));
      if (!body.hasMore) break;
      cursor = `&cursor=${body.nextCursor}`;
    }
    assert.deepEqual(paged, whole, sort);
    assert.equal(whole.length, 4);
  }
});

Deno.test("a task created from a message links to it and to its thread", async () => {
  await using fixture = await openTaskFixture();
  const { body: message } = await fixture.member.post("/v1/messages", {
    roomId: fixture.roomId,
    text: "the disk is full",
  });
  const task = await fixture.create("Free the disk", { sourceMessageId: message.id });
  assert.deepEqual([task.sourceMessageId, task.threadId], [message.id, message.id]);
  assert.deepEqual(await fixture.listTitles(`sourceMessageId=${message.id}`), ["Free the disk"]);
  const { body: hidden } = await fixture.owner.post("/v1/rooms", { name: "Board", visibility: "private" });
  const { body: secret } = await fixture.owner.post("/v1/messages", { roomId: hidden.id, text: "secret" });
  assertProblem(
    await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x", sourceMessageId: secret.id }),
    404,
    "not_found",
  );
  const elsewhere = await fixture.owner.post(PATH, { roomId: fixture.roomId, title: "x", sourceMessageId: secret.id });
  assert.deepEqual([elsewhere.body.sourceMessageId, elsewhere.body.threadId], [secret.id, null]);
  assertProblem(await fixture.owner.patch(`${PATH}/${task.id}`, { threadId: secret.id }), 422, "validation_failed");
  const writer = await fixture.gateway.as("member", { scope: "task.*" });
  assertProblem(
    await writer.post(PATH, { roomId: fixture.roomId, title: "x", sourceMessageId: message.id }),
    403,
    "scope_missing",
  );
});

Deno.test("subtasks are nested up to five levels, in one room and without cycles", async () => {
  await using fixture = await openTaskFixture();
  const chain = [await fixture.create("1")];
  for (const title of ["2", "3", "4", "5"]) chain.push(await fixture.create(title, { parentId: chain.at(-1).key }));
  assertProblem(
    await fixture.member.post(PATH, { roomId: fixture.roomId, title: "6", parentId: chain[4].id }),
    422,
    "validation_failed",
  );
  assertProblem(await fixture.member.patch(`${PATH}/${chain[0].id}`, { parentId: chain[2].id }), 409, "cycle");
  assertProblem(await fixture.member.patch(`${PATH}/${chain[0].id}`, { parentId: chain[0].id }), 409, "cycle");
  const top = await fixture.create("top");
  assertProblem(await fixture.member.patch(`${PATH}/${chain[0].id}`, { parentId: top.id }), 422, "validation_failed");
  assert.equal((await fixture.update(chain[1].id, { parentId: null })).parentId, null);
  assert.equal((await fixture.update(chain[1].id, { parentId: top.key })).parentId, top.id);
  assert.equal((await fixture.read(top.id)).subtaskCount, 1);
  const { body: lab } = await fixture.member.post("/v1/rooms", { name: "Lab" });
  const { body: far } = await fixture.member.post(PATH, { roomId: lab.id, title: "far" });
  assertProblem(await fixture.member.patch(`${PATH}/${far.id}`, { parentId: top.id }), 422, "validation_failed");
});

Deno.test("of two concurrent moves that close a cycle together, one is refused", async () => {
  await using fixture = await openTaskFixture();
  const [a, b] = [await fixture.create("a"), await fixture.create("b")];
  const responses = await Promise.all([
    fixture.member.patch(`${PATH}/${a.id}`, { parentId: b.id }),
    fixture.member.patch(`${PATH}/${b.id}`, { parentId: a.id }),
  ]);
  assert.deepEqual(responses.map(({ status }) => status).sort(), [200, 409]);
});

Deno.test("task.delete deletes subtasks as well and can be undone for 30 days", async () => {
  await using fixture = await openTaskFixture();
  const parent = await fixture.create("parent");
  const child = await fixture.create("child", { parentId: parent.id });
  await fixture.create("grandchild", { parentId: child.id });
  const mine = await fixture.owner.post(PATH, { roomId: fixture.roomId, title: "of the owner" });
  assertProblem(await fixture.member.delete(`${PATH}/${mine.body.id}`), 403, "forbidden");
  assert.equal((await fixture.moderator.delete(`${PATH}/${parent.id}`)).status, 204);
  assertProblem(await fixture.member.delete(`${PATH}/${parent.id}`), 404, "not_found");
  assertProblem(await fixture.member.get(`${PATH}/${child.id}`), 404, "not_found");
  assert.deepEqual(await fixture.listTitles(""), ["of the owner"]);
  assert.deepEqual((await fixture.listTitles("deleted=true")).sort(), ["child", "grandchild", "parent"]);
  assertProblem(await fixture.member.post(`${PATH}/${child.id}/restore`), 409, "conflict");
  const back = await fixture.member.post(`${PATH}/${parent.key}/restore`);
  assert.deepEqual([back.status, back.body.deletedAt], [200, null]);
  assert.equal((await fixture.listTitles("")).length, 4);
  assertProblem(await fixture.member.post(`${PATH}/${parent.key}/restore`), 409, "conflict");

  assert.equal((await fixture.member.delete(`${PATH}/${child.id}`)).status, 204);
  assert.equal((await fixture.member.delete(`${PATH}/${parent.id}`)).status, 204);
  assertProblem(await fixture.member.post(`${PATH}/${child.id}/restore`), 409, "conflict");
  fixture.gateway.clock.advance(30 * 86_400_000);
  const later = await fixture.gateway.as("member");
  assertProblem(await later.post(`${PATH}/${parent.id}/restore`), 410, "gone");
  await fixture.gateway.runJobs();
  assertProblem(await later.post(`${PATH}/${parent.id}/restore`), 404, "not_found");
});

Deno.test("the task of another cannot be deleted by making it a subtask", async () => {
  await using fixture = await openTaskFixture();
  const { body: own } = await fixture.owner.post(PATH, { roomId: fixture.roomId, title: "of the owner" });
  const parent = await fixture.create("parent");
  await fixture.update(own.id, { parentId: parent.id });
  const refused = await fixture.member.delete(`${PATH}/${parent.id}`);
  assertProblem(refused, 403, "forbidden");
  assert.ok(refused.body.detail.includes(own.key), refused.body.detail);
  assert.equal((await fixture.listTitles("")).length, 2);
  assert.equal((await fixture.moderator.delete(`${PATH}/${parent.id}`)).status, 204);
});

Deno.test("task.bulk returns a result for each task", async () => {
  await using fixture = await openTaskFixture();
  const [a, b] = [await fixture.create("a"), await fixture.create("b")];
  const { status, body } = await fixture.member.post(`${PATH}/bulk`, {
    ids: [a.id, "OPS-99", b.key],
    patch: { status: "in_progress", labels: ["now"] },
  });
  assert.equal(status, 200);
  assert.deepEqual(body.results.map((result: { id: string }) => result.id), [a.id, "OPS-99", b.key]);
  assert.equal(body.results[1].error.code, "not_found");
  assert.deepEqual([body.results[0].task.status, body.results[2].task.status], ["in_progress", "in_progress"]);
  assert.deepEqual((await fixture.read(b.id)).labels, ["now"]);
  // One of these fails and does not affect the other.
  const cyclic = await fixture.member.post(`${PATH}/bulk`, { ids: [a.id, b.id], patch: { parentId: a.id } });
  assert.deepEqual(
    cyclic.body.results.map((result: { error: { code: string } | null }) => result.error?.code ?? null),
    [
      "cycle",
      null,
    ],
  );
  assert.equal((await fixture.read(b.id)).parentId, a.id);
  const ids = Array.from({ length: 101 }, () => a.id);
  assertProblem(await fixture.member.post(`${PATH}/bulk`, { ids, patch: { title: "x" } }), 422, "validation_failed");
  assertProblem(await fixture.member.post(`${PATH}/bulk`, { ids: [a.id], patch: {} }), 422, "validation_failed");
});

Deno.test("task.activity lists changes with their actors, newest first, in pages", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  await fixture.update(id, { title: "uno", description: "long" });
  await fixture.owner.patch(`${PATH}/${id}`, { status: "done" });
  const { body } = await fixture.observer.get(`${PATH}/${id}/activity?limit=2`);
  assert.deepEqual(body.items.map((item: { type: string; actorId: string }) => [item.type, item.actorId]), [
    ["completed", "owner"],
    ["updated", "member"],
  ]);
  assert.deepEqual(body.items[0].changes, [{ field: "status", from: "todo", to: "done" }]);
  assert.deepEqual(body.items[1].changes, [{ field: "title", from: "one", to: "uno" }, { field: "description" }]);
  const { body: rest } = await fixture.observer.get(`${PATH}/${id}/activity?limit=2&cursor=${body.nextCursor}`);
  assert.deepEqual([rest.items.length, rest.items[0].type, rest.hasMore], [1, "created", false]);
});

Deno.test("each change is published to the room, and assignments to the assignees", async () => {
  await using fixture = await openTaskFixture();
  const { id, key } = await fixture.create("one", { assigneeIds: ["owner"] });
  await fixture.update(id, { title: "uno" });
  await fixture.update(id, { assigneeIds: ["moderator"] });
  await fixture.update(id, { status: "done" });
  await fixture.member.delete(`${PATH}/${id}`);
  await fixture.member.post(`${PATH}/${id}/restore`);
  const events = await fixture.readEvents();
  assert.deepEqual(events.map((event) => event.type), [
    "task.created",
    "task.assigned",
    "task.updated",
    "task.updated",
    "task.assigned",
    "task.completed",
    "task.deleted",
    "task.updated",
  ]);
  assert.deepEqual([events[2].data.changes, events[2].data.omitted], [{ title: "uno", version: 2 }, []]);
  assert.deepEqual([events[4].data.added, events[4].data.removed], [["moderator"], ["owner"]]);
  assert.deepEqual(events[6].data, { taskId: id, key, roomId: fixture.roomId });
  const receivedEvents = async (who: string) => {
    const log = await fixture.gateway.app.store.log.read("default", `principal:${who}`, 0, 100);
    return log.filter(({ type }) => type.startsWith("task.")).map(({ json }) => JSON.parse(json).data.added);
  };
  assert.deepEqual(await receivedEvents("owner"), [["owner"], ["moderator"]]);
  assert.deepEqual(await receivedEvents("moderator"), [["moderator"]]);
});

Deno.test("an assignee who left the room receives no events of the task", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one", { assigneeIds: ["observer"] });
  await fixture.owner.delete(`/v1/rooms/${fixture.roomId}/members/observer`);
  await fixture.update(id, { title: "private now" });
  await fixture.update(id, { assigneeIds: [] });
  const log = await fixture.gateway.app.store.log.read("default", "principal:observer", 0, 100);
  assert.equal(log.filter(({ json }) => json.includes("private now")).length, 0);
});

Deno.test("search finds tasks in visible rooms only", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("Replace the flux capacitor", { description: "in the basement" });
  const find = async (caller = fixture.member) => {
    const { items } = await completeSearch(() => caller.get("/v1/search?q=capacitor&types=task"));
    return items.length;
  };
  assert.equal(await find(), 1);
  assert.equal(await find(fixture.outsider), 0);
  await fixture.member.delete(`${PATH}/${id}`);
  assert.equal(await find(), 0);
});

Deno.test("a room has at most 10,000 open tasks and a tree at most 500", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("one");
  const { store } = fixture.gateway.app;
  const row = await store.db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  const copies = (count: number, set: Record<string, unknown>) =>
    store.write((tx) =>
      tx.insertMany(
        "task",
        Array.from({ length: count }, (_, index) => ({ ...row, id: `${id}_${index}`, key: `COPY-${index}`, ...set })),
      )
    );
  await copies(499, { parent_id: id });
  assertProblem(
    await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x", parentId: id }),
    409,
    "limit_reached",
  );
  await store.write((tx) => tx.db.deleteFrom("task").where("parent_id", "=", id).execute());
  const closed = await fixture.create("closed", { status: "cancelled" });
  await copies(9_999, {});
  assertProblem(await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x" }), 409, "limit_reached");
  assertProblem(await fixture.member.patch(`${PATH}/${closed.id}`, { status: "todo" }), 409, "limit_reached");
  assert.equal((await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x", status: "done" })).status, 201);
});

Deno.test("task.restore checks the limits of the tree", async () => {
  await using fixture = await openTaskFixture();
  const root = await fixture.create("root");
  const branch = await fixture.create("branch", { parentId: root.id });
  await fixture.create("leaf", { parentId: branch.id });
  assert.equal((await fixture.member.delete(`${PATH}/${branch.id}`)).status, 204);
  let above = await fixture.create("1");
  for (const title of ["2", "3"]) above = await fixture.create(title, { parentId: above.id });
  await fixture.update(root.id, { parentId: above.id });
  assertProblem(await fixture.member.post(`${PATH}/${branch.id}/restore`), 409, "limit_reached");
  assertProblem(await fixture.member.get(`${PATH}/${branch.id}`), 404, "not_found");
  await fixture.update(root.id, { parentId: null });
  assert.equal((await fixture.member.post(`${PATH}/${branch.id}/restore`)).status, 200);
});

Deno.test("a prefix is found with few queries among many similar rooms", async () => {
  const actor = memberOf("t", "alice");
  let steps = 0;
  const tasks: Parameters<typeof nextKey>[0] = {
    takeNumber() {
      steps++;
      return Promise.resolve(undefined);
    },
    prefixes(_, reader, stem) {
      steps++;
      assert.equal(reader.principalId, "alice");
      return Promise.resolve(Array.from({ length: 3000 }, (_, at) => at === 0 ? stem : `${stem}${at + 1}`));
    },
    addRoom(row) {
      steps++;
      assert.deepEqual(row, { tenant_id: "t", room_id: "new", prefix: "T3001", last_number: 1 });
      return Promise.resolve();
    },
  };
  assert.equal(await nextKey(tasks, actor, { tenant_id: "t", id: "new", name: "作業", slug: null }), "T3001-1");
  assert.equal(steps, 3);
});
