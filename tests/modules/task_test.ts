// Tasks through the door: making, reading, changing, listing, deleting, and who may do what.
import assert from "node:assert/strict";
import { nextKey } from "@/modules/task/key.ts";
import type { TaskRoomRow } from "@/modules/task/tables.ts";
import { openTaskWorld, PATH } from "./task_world.ts";
import { refused } from "./team.ts";

Deno.test("task.create numbers tasks within the room and answers every field", async () => {
  await using world = await openTaskWorld();
  const first = await world.make("Renew the certificate", {
    description: "Before *May*",
    status: "in_progress",
    priority: "urgent",
    assigneeIds: ["me", "owner", "owner"],
    labels: ["tls", "ops", "tls"],
    startAt: "2026-03-02T09:00:00Z",
    dueAt: "2026-03-09T09:00:00Z",
    timezone: "europe/vienna",
    metadata: { ticket: 7 },
  });
  assert.match(first.id, /^task_[0-9a-f]{32}$/);
  assert.equal(first.key, "OPS-1");
  assert.deepEqual(first.assigneeIds, ["member", "owner"]);
  assert.deepEqual(first.labels, ["tls", "ops"]);
  assert.equal(first.dueAt, "2026-03-09T09:00:00.000Z");
  assert.equal(first.timezone, "Europe/Vienna");
  assert.equal(first.priority, "urgent");
  const second = await world.make("Another");
  assert.equal(second.key, "OPS-2");
  const { relations, subtaskCount, ...task } = await world.read("ops-1");
  assert.deepEqual(task, first);
  assert.deepEqual([relations, subtaskCount], [[], 0]);
});

Deno.test("a key is never used again, not even after its task and its room are gone", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  assert.equal((await world.member.delete(`${PATH}/${id}`)).status, 204);
  world.gateway.clock.advance(31 * 86_400_000);
  await world.gateway.runJobs();
  const owner = await world.gateway.as("owner");
  const again = await owner.post(PATH, { roomId: world.roomId, title: "two" });
  assert.equal(again.body.key, "OPS-2");
  refused(await owner.get(`${PATH}/OPS-1`), 404, "not_found");

  assert.equal((await owner.delete(`/v1/rooms/${world.roomId}`)).status, 204);
  world.gateway.clock.advance(31 * 86_400_000);
  await world.gateway.runJobs();
  const later = await world.gateway.as("owner");
  const { body: room } = await later.post("/v1/rooms", { name: "Operations", slug: "ops" });
  const { body } = await later.post(PATH, { roomId: room.id, title: "three" });
  assert.equal(body.key, "OPS2-1");
});

Deno.test("prefixes come from the slug or the name and are unique in the tenant", async () => {
  await using world = await openTaskWorld();
  const cases: [string, string][] = [
    ["Customer support", "CS"],
    ["Climate science", "CS2"],
    ["Engineering", "ENG"],
    ["Über Öl", "UO"],
    ["作業", "T"],
    ["42", "T2"],
    ["A very long name of many words", "AVLNO"],
  ];
  for (const [name, prefix] of cases) {
    const { body: room } = await world.owner.post("/v1/rooms", { name });
    const { body: task } = await world.owner.post(PATH, { roomId: room.id, title: "x" });
    assert.equal(task.key, `${prefix}-1`, name);
  }
});

Deno.test("tasks made at the same time get numbers without a hole or a double", async () => {
  await using world = await openTaskWorld();
  const tasks = await Promise.all(Array.from({ length: 40 }, (_, index) => world.make(`task ${index}`)));
  const numbers = tasks.map((task) => Number(task.key.split("-")[1])).sort((a, b) => a - b);
  assert.deepEqual(numbers, Array.from({ length: 40 }, (_, index) => index + 1));
  assert.equal(new Set(tasks.map((task) => task.position)).size, 40);
});

Deno.test("a task that was refused leaves no hole in the numbers", async () => {
  await using world = await openTaskWorld();
  await world.make("one");
  refused(
    await world.member.post(PATH, { roomId: world.roomId, title: "no", assigneeIds: ["outsider"] }),
    422,
    "validation_failed",
  );
  assert.equal((await world.make("two")).key, "OPS-2");
});

Deno.test("task.update merges a patch, null clears, and only a change makes a version", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one", { description: "text", dueAt: "2026-04-01T10:00:00Z", labels: ["a"] });
  const changed = await world.patch(id, { title: "uno", description: null, labels: ["b"] });
  assert.deepEqual([changed.title, changed.description, changed.labels, changed.version], ["uno", null, ["b"], 2]);
  assert.equal(changed.dueAt, "2026-04-01T10:00:00.000Z");
  assert.equal((await world.patch(id, { title: "uno" })).version, 2);
  refused(
    await world.member.patch(`${PATH}/${id}`, { title: "x" }, { "if-match": '"1"' }),
    412,
    "version_mismatch",
  );
  assert.equal((await world.member.patch(`${PATH}/${id}`, { title: "x" }, { "if-match": '"2"' })).status, 200);
  const done = await world.patch(id, { status: "done" });
  assert.equal(done.completedAt, "2026-03-01T12:00:00.000Z");
  assert.equal((await world.patch(id, { status: "todo" })).completedAt, null);
});

Deno.test("two updates of one version: one is told 412", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const answers = await Promise.all(
    ["a", "b"].map((title) => world.member.patch(`${PATH}/${id}`, { title, version: 1 })),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412]);
});

Deno.test("values that make no sense are refused by name", async () => {
  await using world = await openTaskWorld();
  const cases: [Record<string, unknown>, number, string][] = [
    [{ startAt: "2026-03-02T00:00:00Z", dueAt: "2026-03-01T00:00:00Z" }, 422, "validation_failed"],
    [{ timezone: "Mars/Olympus" }, 422, "invalid_time_zone"],
    [{ timezone: "+02:00" }, 422, "invalid_time_zone"],
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
    refused(await world.member.post(PATH, { roomId: world.roomId, title: "x", ...input }), status, code);
  }
  refused(await world.member.get(`${PATH}?cursor=x`), 400, "invalid_cursor");
});

Deno.test("members work on tasks, observers read them, others do not know of them", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const { id: other } = await world.make("two");
  const path = `${PATH}/${id}`;
  const { body: lease } = await world.owner.post(`${PATH}/${other}/claim`);
  const reads = [path, `${path}/activity`];
  const writes: [string, string, unknown][] = [
    ["POST", PATH, { roomId: world.roomId, title: "x" }],
    ["PATCH", path, { title: "x" }],
    ["PUT", `${path}/relations/related/${other}`, {}],
    ["DELETE", `${path}/relations/related/${other}`, undefined],
    ["POST", `${path}/claim`, {}],
    ["POST", `${PATH}/${other}/release`, { leaseToken: lease.leaseToken }],
    ["DELETE", path, undefined],
    ["POST", `${path}/restore`, {}],
  ];
  for (const read of reads) {
    assert.equal((await world.observer.get(read)).status, 200, read);
    refused(await world.outsider.get(read), 404, "not_found");
  }
  for (const [method, url, body] of writes) {
    refused(await world.outsider.call(method, url, body), 404, "not_found");
    refused(await world.observer.call(method, url, body), 403, "forbidden");
  }
  for (const [method, url, body] of writes) {
    const answer = await world.member.call(method, url, body);
    assert.ok(answer.status < 300, `${method} ${url}: ${JSON.stringify(answer.body)}`);
  }
  const { body: bulk } = await world.observer.post(`${PATH}/bulk`, { ids: [id], patch: { title: "x" } });
  assert.equal(bulk.results[0].error.code, "forbidden");
  assert.deepEqual(await world.titles("", world.outsider), []);
  const stranger = await world.gateway.as("member", { tenant: "elsewhere" });
  refused(await stranger.get(path), 404, "not_found");
});

Deno.test("a visitor of a public room reads its tasks and changes none", async () => {
  await using world = await openTaskWorld({ visibility: "public" });
  const { id } = await world.make("one");
  assert.equal((await world.outsider.get(`${PATH}/${id}`)).status, 200);
  assert.deepEqual(await world.titles("", world.outsider), ["one"]);
  refused(await world.outsider.patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  const guest = await world.gateway.as("visitor", { role: "guest" });
  assert.deepEqual(await world.titles("", guest), []);
});

Deno.test("an agent sees and changes tasks only where its owner could", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const bot = await world.gateway.as("bot", { kind: "agent", owner: "outsider" });
  await bot.get("/v1/collaboration/me");
  const members = `/v1/rooms/${world.roomId}/members`;
  await world.owner.put(`${members}/outsider`, { role: "observer" });
  await world.owner.put(`${members}/bot`, { role: "member" });
  await world.owner.delete(`${members}/outsider`);
  refused(await bot.get(`${PATH}/${id}`), 404, "not_found");
  assert.deepEqual(await world.titles("", bot), []);
  refused(
    await world.member.patch(`${PATH}/${id}`, { assigneeIds: ["bot"] }),
    422,
    "validation_failed",
  );
  await world.owner.put(`${members}/outsider`, { role: "observer" });
  refused(await bot.get(`${PATH}/${id}`), 404, "not_found");
  await world.owner.put(`${members}/bot`, { role: "member" });
  assert.equal((await bot.get(`${PATH}/${id}`)).status, 200);
  assert.deepEqual(await world.titles("", bot), ["one"]);
  refused(await bot.patch(`${PATH}/${id}`, { title: "x" }), 403, "forbidden");
  assert.deepEqual((await world.patch(id, { assigneeIds: ["bot"] })).assigneeIds, ["bot"]);
});

Deno.test("an archived room's tasks are read and not changed", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  await world.owner.patch(`/v1/rooms/${world.roomId}`, { state: "archived" });
  assert.equal((await world.member.get(`${PATH}/${id}`)).status, 200);
  refused(await world.member.patch(`${PATH}/${id}`, { title: "x" }), 409, "room_archived");
  refused(await world.member.post(PATH, { roomId: world.roomId, title: "x" }), 409, "room_archived");
  refused(await world.member.post(`${PATH}/${id}/claim`), 409, "room_archived");
});

Deno.test("task.list filters across the rooms of the caller, sorts, and pages without loss", async () => {
  await using world = await openTaskWorld();
  const { body: lab } = await world.member.post("/v1/rooms", { name: "Lab", slug: "lab" });
  const { body: hidden } = await world.owner.post("/v1/rooms", { name: "Board", visibility: "private" });
  const make = async (title: string, input: Record<string, unknown> = {}) => {
    world.gateway.clock.advance(1000);
    return await world.make(title, input);
  };
  const a = await make("alpha", { priority: "high", labels: ["x"], dueAt: "2026-03-05T00:00:00Z" });
  await make("beta", { priority: "low", status: "done", labels: ["y"], assigneeIds: ["me"] });
  await make("gamma 100%", { parentId: a.key, dueAt: "2026-03-04T00:00:00Z", description: "needle" });
  await make("delta", { roomId: lab.id, status: "blocked", labels: ["x", "y"] });
  await world.owner.post(PATH, { roomId: hidden.id, title: "secret" });
  const expected: [string, string[]][] = [
    ["sort=createdAt", ["alpha", "beta", "gamma 100%", "delta"]],
    ["sort=-createdAt", ["delta", "gamma 100%", "beta", "alpha"]],
    ["sort=dueAt", ["gamma 100%", "alpha", "beta", "delta"]],
    ["sort=-priority&priority=high,low", ["alpha", "beta"]],
    [`roomId=${lab.id}`, ["delta"]],
    [`roomId=${world.roomId},${lab.id}&sort=createdAt`, ["alpha", "beta", "gamma 100%", "delta"]],
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
  for (const [query, titles] of expected) assert.deepEqual(await world.titles(query), titles, query);
  for (const sort of ["position", "dueAt", "-dueAt", "priority", "-priority", "updatedAt", "-updatedAt"]) {
    const whole = await world.titles(`sort=${sort}`);
    const paged: string[] = [];
    for (let cursor = "";;) {
      const { body } = await world.member.get(`${PATH}?sort=${sort}&limit=1${cursor}`);
      paged.push(...body.items.map((task: { title: string }) => task.title));
      if (!body.hasMore) break;
      cursor = `&cursor=${body.nextCursor}`;
    }
    assert.deepEqual(paged, whole, sort);
    assert.equal(whole.length, 4);
  }
});

Deno.test("a task made from a message leads there and back, and is discussed in its thread", async () => {
  await using world = await openTaskWorld();
  const { body: message } = await world.member.post("/v1/messages", { roomId: world.roomId, text: "the disk is full" });
  const task = await world.make("Free the disk", { sourceMessageId: message.id });
  assert.deepEqual([task.sourceMessageId, task.threadId], [message.id, message.id]);
  assert.deepEqual(await world.titles(`sourceMessageId=${message.id}`), ["Free the disk"]);
  const { body: hidden } = await world.owner.post("/v1/rooms", { name: "Board", visibility: "private" });
  const { body: secret } = await world.owner.post("/v1/messages", { roomId: hidden.id, text: "secret" });
  refused(
    await world.member.post(PATH, { roomId: world.roomId, title: "x", sourceMessageId: secret.id }),
    404,
    "not_found",
  );
  const elsewhere = await world.owner.post(PATH, { roomId: world.roomId, title: "x", sourceMessageId: secret.id });
  assert.deepEqual([elsewhere.body.sourceMessageId, elsewhere.body.threadId], [secret.id, null]);
  refused(await world.owner.patch(`${PATH}/${task.id}`, { threadId: secret.id }), 422, "validation_failed");
  const writer = await world.gateway.as("member", { scope: "task.*" });
  refused(
    await writer.post(PATH, { roomId: world.roomId, title: "x", sourceMessageId: message.id }),
    403,
    "scope_missing",
  );
});

Deno.test("subtasks go five deep, stay in their room and never lead in a circle", async () => {
  await using world = await openTaskWorld();
  const chain = [await world.make("1")];
  for (const title of ["2", "3", "4", "5"]) chain.push(await world.make(title, { parentId: chain.at(-1).key }));
  refused(
    await world.member.post(PATH, { roomId: world.roomId, title: "6", parentId: chain[4].id }),
    422,
    "validation_failed",
  );
  refused(await world.member.patch(`${PATH}/${chain[0].id}`, { parentId: chain[2].id }), 409, "cycle");
  refused(await world.member.patch(`${PATH}/${chain[0].id}`, { parentId: chain[0].id }), 409, "cycle");
  const top = await world.make("top");
  refused(await world.member.patch(`${PATH}/${chain[0].id}`, { parentId: top.id }), 422, "validation_failed");
  assert.equal((await world.patch(chain[1].id, { parentId: null })).parentId, null);
  assert.equal((await world.patch(chain[1].id, { parentId: top.key })).parentId, top.id);
  assert.equal((await world.read(top.id)).subtaskCount, 1);
  const { body: lab } = await world.member.post("/v1/rooms", { name: "Lab" });
  const { body: far } = await world.member.post(PATH, { roomId: lab.id, title: "far" });
  refused(await world.member.patch(`${PATH}/${far.id}`, { parentId: top.id }), 422, "validation_failed");
});

Deno.test("two moves that would make a circle together: one is refused", async () => {
  await using world = await openTaskWorld();
  const [a, b] = [await world.make("a"), await world.make("b")];
  const answers = await Promise.all([
    world.member.patch(`${PATH}/${a.id}`, { parentId: b.id }),
    world.member.patch(`${PATH}/${b.id}`, { parentId: a.id }),
  ]);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
});

Deno.test("task.delete takes subtasks along, can be undone for 30 days, and is final after that", async () => {
  await using world = await openTaskWorld();
  const parent = await world.make("parent");
  const child = await world.make("child", { parentId: parent.id });
  await world.make("grandchild", { parentId: child.id });
  const mine = await world.owner.post(PATH, { roomId: world.roomId, title: "of the owner" });
  refused(await world.member.delete(`${PATH}/${mine.body.id}`), 403, "forbidden");
  assert.equal((await world.moderator.delete(`${PATH}/${parent.id}`)).status, 204);
  refused(await world.member.delete(`${PATH}/${parent.id}`), 404, "not_found");
  refused(await world.member.get(`${PATH}/${child.id}`), 404, "not_found");
  assert.deepEqual(await world.titles(""), ["of the owner"]);
  assert.deepEqual((await world.titles("deleted=true")).sort(), ["child", "grandchild", "parent"]);
  refused(await world.member.post(`${PATH}/${child.id}/restore`), 409, "conflict");
  const back = await world.member.post(`${PATH}/${parent.key}/restore`);
  assert.deepEqual([back.status, back.body.deletedAt], [200, null]);
  assert.equal((await world.titles("")).length, 4);
  refused(await world.member.post(`${PATH}/${parent.key}/restore`), 409, "conflict");

  assert.equal((await world.member.delete(`${PATH}/${child.id}`)).status, 204);
  assert.equal((await world.member.delete(`${PATH}/${parent.id}`)).status, 204);
  refused(await world.member.post(`${PATH}/${child.id}/restore`), 409, "conflict");
  world.gateway.clock.advance(30 * 86_400_000);
  const later = await world.gateway.as("member");
  refused(await later.post(`${PATH}/${parent.id}/restore`), 410, "gone");
  await world.gateway.runJobs();
  refused(await later.post(`${PATH}/${parent.id}/restore`), 404, "not_found");
});

Deno.test("task.bulk changes what it can and says for each task what became of it", async () => {
  await using world = await openTaskWorld();
  const [a, b] = [await world.make("a"), await world.make("b")];
  const { status, body } = await world.member.post(`${PATH}/bulk`, {
    ids: [a.id, "OPS-99", b.key],
    patch: { status: "in_progress", labels: ["now"] },
  });
  assert.equal(status, 200);
  assert.deepEqual(body.results.map((result: { id: string }) => result.id), [a.id, "OPS-99", b.key]);
  assert.equal(body.results[1].error.code, "not_found");
  assert.deepEqual([body.results[0].task.status, body.results[2].task.status], ["in_progress", "in_progress"]);
  assert.deepEqual((await world.read(b.id)).labels, ["now"]);
  // One of these cannot be, and does not undo the other.
  const cyclic = await world.member.post(`${PATH}/bulk`, { ids: [a.id, b.id], patch: { parentId: a.id } });
  assert.deepEqual(
    cyclic.body.results.map((result: { error: { code: string } | null }) => result.error?.code ?? null),
    [
      "cycle",
      null,
    ],
  );
  assert.equal((await world.read(b.id)).parentId, a.id);
  const ids = Array.from({ length: 101 }, () => a.id);
  refused(await world.member.post(`${PATH}/bulk`, { ids, patch: { title: "x" } }), 422, "validation_failed");
  refused(await world.member.post(`${PATH}/bulk`, { ids: [a.id], patch: {} }), 422, "validation_failed");
});

Deno.test("task.activity tells who changed what, newest first, in pages", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  await world.patch(id, { title: "uno", description: "long" });
  await world.owner.patch(`${PATH}/${id}`, { status: "done" });
  const { body } = await world.observer.get(`${PATH}/${id}/activity?limit=2`);
  assert.deepEqual(body.items.map((item: { type: string; actorId: string }) => [item.type, item.actorId]), [
    ["completed", "owner"],
    ["updated", "member"],
  ]);
  assert.deepEqual(body.items[0].changes, [{ field: "status", from: "todo", to: "done" }]);
  assert.deepEqual(body.items[1].changes, [{ field: "title", from: "one", to: "uno" }, { field: "description" }]);
  const { body: rest } = await world.observer.get(`${PATH}/${id}/activity?limit=2&cursor=${body.nextCursor}`);
  assert.deepEqual([rest.items.length, rest.items[0].type, rest.hasMore], [1, "created", false]);
});

Deno.test("each change is an event on the room's stream, and assignees hear of it on their own", async () => {
  await using world = await openTaskWorld();
  const { id, key } = await world.make("one", { assigneeIds: ["owner"] });
  await world.patch(id, { title: "uno" });
  await world.patch(id, { assigneeIds: ["moderator"] });
  await world.patch(id, { status: "done" });
  await world.member.delete(`${PATH}/${id}`);
  await world.member.post(`${PATH}/${id}/restore`);
  const events = await world.events();
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
  assert.deepEqual(events[2].data.changed, ["title"]);
  assert.deepEqual([events[4].data.added, events[4].data.removed], [["moderator"], ["owner"]]);
  assert.deepEqual(events[6].data, { taskId: id, key, roomId: world.roomId });
  const heard = async (who: string) => {
    const log = await world.gateway.app.store.log.read("default", `principal:${who}`, 0, 100);
    return log.filter(({ type }) => type.startsWith("task.")).map(({ json }) => JSON.parse(json).data.added);
  };
  assert.deepEqual(await heard("owner"), [["owner"], ["moderator"]]);
  assert.deepEqual(await heard("moderator"), [["moderator"]]);
});

Deno.test("an assignee who left the room hears nothing of the task any more", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one", { assigneeIds: ["observer"] });
  await world.owner.delete(`/v1/rooms/${world.roomId}/members/observer`);
  await world.patch(id, { title: "private now" });
  await world.patch(id, { assigneeIds: [] });
  const log = await world.gateway.app.store.log.read("default", "principal:observer", 0, 100);
  assert.equal(log.filter(({ json }) => json.includes("private now")).length, 0);
});

Deno.test("tasks are found by search with the rights of their room", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("Replace the flux capacitor", { description: "in the basement" });
  const find = async (caller = world.member) => {
    const { status, body } = await caller.get("/v1/search?q=capacitor&types=task");
    assert.equal(status, 200, JSON.stringify(body));
    return body.items.length;
  };
  assert.equal(await find(), 1);
  assert.equal(await find(world.outsider), 0);
  await world.member.delete(`${PATH}/${id}`);
  assert.equal(await find(), 0);
});

Deno.test("a room has ten thousand open tasks at most, and a tree five hundred", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("one");
  const { store } = world.gateway.app;
  const row = await store.db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  const copies = (count: number, set: Record<string, unknown>) =>
    store.write((tx) =>
      tx.insertMany(
        "task",
        Array.from({ length: count }, (_, index) => ({ ...row, id: `${id}_${index}`, key: `COPY-${index}`, ...set })),
      )
    );
  await copies(499, { parent_id: id });
  refused(
    await world.member.post(PATH, { roomId: world.roomId, title: "x", parentId: id }),
    409,
    "limit_reached",
  );
  await store.write((tx) => tx.db.deleteFrom("task").where("parent_id", "=", id).execute());
  const closed = await world.make("closed", { status: "cancelled" });
  await copies(9_999, {});
  refused(await world.member.post(PATH, { roomId: world.roomId, title: "x" }), 409, "limit_reached");
  refused(await world.member.patch(`${PATH}/${closed.id}`, { status: "todo" }), 409, "limit_reached");
  assert.equal((await world.member.post(PATH, { roomId: world.roomId, title: "x", status: "done" })).status, 201);
});

Deno.test("a subtree that comes back fits into its tree as it is by then", async () => {
  await using world = await openTaskWorld();
  const root = await world.make("root");
  const branch = await world.make("branch", { parentId: root.id });
  await world.make("leaf", { parentId: branch.id });
  assert.equal((await world.member.delete(`${PATH}/${branch.id}`)).status, 204);
  let above = await world.make("1");
  for (const title of ["2", "3"]) above = await world.make(title, { parentId: above.id });
  await world.patch(root.id, { parentId: above.id });
  refused(await world.member.post(`${PATH}/${branch.id}/restore`), 409, "limit_reached");
  refused(await world.member.get(`${PATH}/${branch.id}`), 404, "not_found");
  await world.patch(root.id, { parentId: null });
  assert.equal((await world.member.post(`${PATH}/${branch.id}/restore`)).status, 200);
});

Deno.test("a room finds its prefix in a few steps, however many rooms begin alike", async () => {
  const rooms: TaskRoomRow[] = Array.from({ length: 3000 }, (_, at) => ({
    tenant_id: "t",
    room_id: `${at}`,
    prefix: at === 0 ? "T" : `T${at + 1}`,
    last_number: 1,
  }));
  let steps = 0;
  const tasks: Parameters<typeof nextKey>[0] = {
    takeNumber(_, roomId) {
      steps++;
      const room = rooms.find(({ room_id }) => room_id === roomId);
      if (room !== undefined) room.last_number++;
      return Promise.resolve(room);
    },
    prefixes: (_, stem) => {
      steps++;
      return Promise.resolve(rooms.flatMap(({ prefix }) => prefix?.startsWith(stem) ? prefix : []));
    },
    addRoom(row) {
      steps++;
      const isFree = rooms.every(({ prefix }) => prefix !== row.prefix);
      if (isFree) rooms.push(row);
      return Promise.resolve(isFree);
    },
  };
  assert.equal(await nextKey(tasks, { tenant_id: "t", id: "new", name: "作業", slug: null }), "T3001-1");
  assert.ok(steps < 10, `${steps} steps`);
});
