// Recurring tasks: what completing one makes, across changes of clocks, and which rules are refused.
import assert from "node:assert/strict";
import { nextAfter, parseRule } from "@/modules/task/recurrence.ts";
import { affordableMs, quickest } from "../cost.ts";
import { openTaskWorld, PATH, type TaskWorld } from "./task_world.ts";
import { ok } from "./room_world.ts";
import { refused } from "./team.ts";

/** Completes a task and reads the one that follows it. */
async function complete(world: TaskWorld, id: string) {
  const { nextTaskId } = await world.patch(id, { status: "done" });
  return nextTaskId === null ? null : await world.read(nextTaskId);
}

/** Due dates of a series, completed one after another, as wall time. */
async function dueDates(world: TaskWorld, input: Record<string, unknown>, count: number): Promise<string[]> {
  const dates: string[] = [];
  let task = await world.make("again", input);
  for (let index = 0; index < count && task !== null; index++) {
    task = await complete(world, task.id);
    if (task !== null) dates.push(wall(task.dueAt, task.timezone));
  }
  return dates;
}

function wall(at: string, zone: string): string {
  return Temporal.Instant.from(at).toZonedDateTimeISO(zone).toString({ smallestUnit: "minute", timeZoneName: "never" });
}

Deno.test("completing a recurring task makes the next one once, with what was set on it", async () => {
  await using world = await openTaskWorld();
  const first = await world.make("Water the plants", {
    description: "all of them",
    priority: "low",
    labels: ["home"],
    assigneeIds: ["owner"],
    startAt: "2026-03-02T07:00:00Z",
    dueAt: "2026-03-02T09:00:00Z",
    timezone: "Europe/Vienna",
    recurrence: { rrule: "FREQ=WEEKLY" },
  });
  assert.deepEqual(first.recurrence, { rrule: "FREQ=WEEKLY", anchor: "due", instance: 1 });
  const next = await complete(world, first.id);
  assert.deepEqual(
    [next.title, next.description, next.priority, next.labels, next.assigneeIds, next.status, next.version],
    ["Water the plants", "all of them", "low", ["home"], ["owner"], "todo", 1],
  );
  assert.deepEqual([next.startAt, next.dueAt], ["2026-03-09T07:00:00.000Z", "2026-03-09T09:00:00.000Z"]);
  assert.equal(next.recurrence.instance, 2);
  assert.notEqual(next.key, first.key);
  await world.patch(first.id, { status: "todo" });
  assert.equal((await world.patch(first.id, { status: "done" })).nextTaskId, next.id);
  assert.equal((await world.titles("")).length, 2);
  const events = await world.events();
  assert.equal(events.filter(({ type }) => type === "task.created").length, 2);
});

Deno.test("a series stays whose it is, whoever completes a task of it", async () => {
  await using world = await openTaskWorld();
  const { moderator, member, owner } = world;
  const first = ok(
    await owner.post(PATH, {
      roomId: world.roomId,
      title: "Report",
      dueAt: "2026-03-02T09:00:00Z",
      recurrence: { rrule: "FREQ=WEEKLY" },
    }),
    201,
  );
  ok(await moderator.post(PATH, { roomId: world.roomId, title: "Numbers", parentId: first.id }), 201);
  const next = await complete(world, first.id);
  const [copy] = ok(await member.get(`${PATH}?parentId=${next.id}`)).items;
  assert.deepEqual([next.createdBy, copy.createdBy], ["owner", "moderator"]);
  // Who completed it gets no right to delete what follows.
  refused(await member.delete(`${PATH}/${next.id}`), 403, "forbidden");
  const { items } = ok(await member.get(`${PATH}/${next.id}/activity`));
  assert.deepEqual(items.map(({ type, actorId }: Record<string, string>) => [type, actorId]), [["created", "member"]]);
});

Deno.test("a recurring task is completed, and followed, in a room with as many open tasks as there may be", async () => {
  await using world = await openTaskWorld();
  const { app } = world.gateway;
  const first = await world.make("again", { dueAt: "2026-03-02T09:00:00Z", recurrence: { rrule: "FREQ=DAILY" } });
  const row = await app.store.db.selectFrom("task").selectAll().executeTakeFirstOrThrow();
  const others = Array.from({ length: 9999 }, (_, n) => ({ ...row, id: `task_${n}`, key: `OPS-X${n}` }));
  await app.store.write((tx) => tx.insertMany("task", others));
  refused(await world.member.post(PATH, { roomId: world.roomId, title: "one more" }), 409, "limit_reached");
  assert.equal((await complete(world, first.id)).dueAt, "2026-03-03T09:00:00.000Z");
  assert.equal((await world.read(first.id)).status, "done");
  refused(await world.member.post(PATH, { roomId: world.roomId, title: "one more" }), 409, "limit_reached");
});

Deno.test("a series that reaches the end of the year 9999 stays there", async () => {
  await using world = await openTaskWorld();
  const input = { dueAt: "9999-12-31T12:00:00Z", timezone: "UTC", recurrence: { rrule: "FREQ=DAILY" } };
  const next = await complete(world, (await world.make("again", input)).id);
  assert.equal(next.dueAt, "9999-12-31T23:59:59.999Z");
});

Deno.test("a series keeps its wall time across the change of clocks", async () => {
  await using world = await openTaskWorld();
  const daily = { recurrence: { rrule: "FREQ=DAILY" } };
  assert.deepEqual(await dueDates(world, { ...daily, dueAt: "2026-03-28T08:00:00Z", timezone: "Europe/Vienna" }, 2), [
    "2026-03-29T09:00+02:00",
    "2026-03-30T09:00+02:00",
  ]);
  assert.deepEqual(
    await dueDates(world, { ...daily, dueAt: "2026-10-31T13:00:00Z", timezone: "America/New_York" }, 2),
    [
      "2026-11-01T09:00-05:00",
      "2026-11-02T09:00-05:00",
    ],
  );
  assert.deepEqual(
    await dueDates(world, { ...daily, dueAt: "2026-10-02T22:30:00Z", timezone: "Australia/Lord_Howe" }, 2),
    ["2026-10-04T09:00+11:00", "2026-10-05T09:00+11:00"],
  );
  assert.deepEqual(await dueDates(world, { ...daily, dueAt: "2026-03-28T03:15:00Z", timezone: "Asia/Kathmandu" }, 1), [
    "2026-03-29T09:00+05:45",
  ]);
});

Deno.test("a wall time that the clock skips has no task, and later ones are not moved by it", async () => {
  await using world = await openTaskWorld();
  const night = { dueAt: "2026-03-28T01:30:00Z", timezone: "Europe/Vienna" };
  assert.deepEqual(await dueDates(world, { ...night, recurrence: { rrule: "FREQ=DAILY" } }, 2), [
    "2026-03-30T02:30+02:00",
    "2026-03-31T02:30+02:00",
  ]);
  // Completed on the day of the gap: the count starts there, and the time of day is that of the series.
  const task = await world.make("after", {
    ...night,
    recurrence: { rrule: "FREQ=DAILY;INTERVAL=3", anchor: "completion" },
  });
  world.gateway.clock.advance(Date.parse("2026-03-29T10:00:00Z") - world.gateway.clock.now());
  const later = await world.gateway.as("member");
  const { body } = await later.patch(`${PATH}/${task.id}`, { status: "done" });
  const { body: next } = await later.get(`${PATH}/${body.nextTaskId}`);
  assert.equal(wall(next.dueAt, "Europe/Vienna"), "2026-04-01T02:30+02:00");
});

Deno.test("anchor due counts from the due date, anchor completion from the moment it was done", async () => {
  await using world = await openTaskWorld();
  const input = { dueAt: "2026-02-01T18:00:00Z", recurrence: { rrule: "FREQ=DAILY;INTERVAL=7" } };
  assert.deepEqual(await dueDates(world, input, 1), ["2026-02-08T18:00+00:00"]);
  const completion = { ...input, recurrence: { ...input.recurrence, anchor: "completion" } };
  assert.deepEqual(await dueDates(world, completion, 1), ["2026-03-08T18:00+00:00"]);
  const undated = { recurrence: { rrule: "FREQ=WEEKLY;BYDAY=MO", anchor: "completion" } };
  assert.deepEqual(await dueDates(world, undated, 1), ["2026-03-02T12:00+00:00"]);
});

Deno.test("months without the day are passed over, leap days wait for leap years", async () => {
  await using world = await openTaskWorld();
  const on = (dueAt: string, rrule: string, count: number) => dueDates(world, { dueAt, recurrence: { rrule } }, count);
  assert.deepEqual(await on("2026-01-31T09:00:00Z", "FREQ=MONTHLY", 3), [
    "2026-03-31T09:00+00:00",
    "2026-05-31T09:00+00:00",
    "2026-07-31T09:00+00:00",
  ]);
  assert.deepEqual(await on("2026-01-30T09:00:00Z", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", 2), [
    "2026-02-27T09:00+00:00",
    "2026-03-31T09:00+00:00",
  ]);
  assert.deepEqual(await on("2024-02-29T09:00:00Z", "FREQ=YEARLY", 1), ["2028-02-29T09:00+00:00"]);
});

Deno.test("a series ends by COUNT, by UNTIL and by cancelling", async () => {
  await using world = await openTaskWorld();
  const dueAt = "2026-03-02T09:00:00Z";
  const lengths = [];
  const ends = ["COUNT=3", "UNTIL=20260304T090000Z", "UNTIL=20260304T235959Z", "COUNT=1"];
  for (const rrule of ends.map((end) => `FREQ=DAILY;${end}`)) {
    lengths.push((await dueDates(world, { dueAt, recurrence: { rrule } }, 5)).length);
  }
  assert.deepEqual(lengths, [2, 2, 2, 0]);
  const task = await world.make("x", { dueAt, recurrence: { rrule: "FREQ=DAILY" } });
  assert.equal((await world.patch(task.id, { status: "cancelled" })).nextTaskId, null);
  // Postponing one task moves those after it, and is not a new count.
  const counted = await world.make("y", { dueAt, recurrence: { rrule: "FREQ=DAILY;COUNT=3" } });
  const second = await complete(world, counted.id);
  await world.patch(second.id, { dueAt: "2026-03-10T10:00:00Z" });
  const third = await complete(world, second.id);
  assert.deepEqual([third.dueAt, third.recurrence.instance], ["2026-03-11T10:00:00.000Z", 3]);
  assert.equal(await complete(world, third.id), null);
});

Deno.test("the next task has copies of the subtasks, open again and moved along", async () => {
  await using world = await openTaskWorld();
  const root = await world.make("release", {
    dueAt: "2026-03-27T09:00:00Z",
    timezone: "Europe/Vienna",
    recurrence: { rrule: "FREQ=WEEKLY" },
  });
  const step = await world.make("step", {
    parentId: root.id,
    dueAt: "2026-03-26T09:00:00Z",
    timezone: "Europe/Vienna",
  });
  await world.make("detail", { parentId: step.id, labels: ["x"] });
  const dropped = await world.make("dropped", { parentId: root.id });
  await world.patch(step.id, { status: "done" });
  await world.member.delete(`${PATH}/${dropped.id}`);
  const next = await complete(world, root.id);
  const { body } = await world.member.get(`${PATH}?parentId=${next.id}`);
  assert.deepEqual(body.items.map((task: { title: string }) => task.title), ["step"]);
  assert.deepEqual([body.items[0].status, body.items[0].completedAt], ["todo", null]);
  assert.equal(wall(body.items[0].dueAt, "Europe/Vienna"), "2026-04-02T10:00+02:00");
  const { body: below } = await world.member.get(`${PATH}?parentId=${body.items[0].id}`);
  assert.deepEqual(below.items.map((task: { labels: string[] }) => task.labels), [["x"]]);
  const third = await complete(world, next.id);
  assert.equal((await world.read(third.id)).subtaskCount, 1);
});

Deno.test("whoever left the room is not assigned the next task of a series", async () => {
  await using world = await openTaskWorld();
  const { id } = await world.make("again", {
    assigneeIds: ["observer", "owner"],
    dueAt: "2026-03-02T09:00:00Z",
    recurrence: { rrule: "FREQ=DAILY" },
  });
  await world.owner.delete(`/v1/rooms/${world.roomId}/members/observer`);
  const next = await complete(world, id);
  assert.deepEqual(next.assigneeIds, ["owner"]);
  const log = await world.gateway.app.store.log.read("default", "principal:observer", 0, 100);
  assert.equal(log.filter(({ json }) => json.includes(next.id)).length, 0);
});

Deno.test("rules that are malformed or too much work are refused at little cost", async () => {
  await using world = await openTaskWorld();
  const dueAt = "2026-03-02T09:00:00Z";
  const many = Array.from({ length: 24 }, (_, hour) => hour).join();
  const minutes = Array.from({ length: 60 }, (_, minute) => minute).join();
  const cases: [string, string][] = [
    ["FREQ=SOMETIMES", "validation_failed"],
    ["FREQ=DAILY=WEEKLY", "validation_failed"],
    ["BYDAY=MO", "validation_failed"],
    ["FREQ=YEARLY;BYDAY=-53MO", "validation_failed"],
    ["FREQ=DAILY;FREQ=DAILY", "validation_failed"],
    ["FREQ=DAILY;INTERVAL=0", "validation_failed"],
    ["FREQ=DAILY;UNTIL=20261399", "validation_failed"],
    ["FREQ=DAILY;COUNT=3;UNTIL=20270101", "validation_failed"],
    ["FREQ=DAILY;UNTIL=20270304T090000", "validation_failed"],
    ["FREQ=DAILY;BYHOUR=99", "validation_failed"],
    ["FREQ=DAILY\nEXDATE:20260303", "validation_failed"],
    ["FREQ=SECONDLY", "recurrence_too_dense"],
    ["FREQ=MINUTELY", "recurrence_too_dense"],
    [`FREQ=YEARLY;BYHOUR=${many};BYMINUTE=${minutes}`, "recurrence_too_dense"],
    ["FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "recurrence_too_dense"],
    ["FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=4", "recurrence_too_dense"],
    ["FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "recurrence_too_dense"],
    ["FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "recurrence_too_dense"],
    ["FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO;BYMONTH=6", "recurrence_too_dense"],
    ["FREQ=DAILY;BYSETPOS=400", "recurrence_too_dense"],
    ["FREQ=WEEKLY;BYDAY=MO;BYMONTHDAY=31;BYMONTH=2", "recurrence_too_dense"],
  ];
  const affordable = await affordableMs();
  for (const [rrule, code] of cases) {
    refused(
      await world.member.post(PATH, { roomId: world.roomId, title: "x", dueAt, recurrence: { rrule } }),
      422,
      code,
    );
    const ms = await quickest(() => {
      try {
        nextAfter(parseRule(rrule), Temporal.ZonedDateTime.from("2026-03-02T09:00[UTC]"), Temporal.Instant.from(dueAt));
      } catch { /* as wanted */ }
    });
    assert.ok(ms < affordable, `${rrule}: ${ms} ms`);
  }
});

Deno.test("a task by a rule that is refused by now is completed, and the series goes on", async () => {
  await using world = await openTaskWorld();
  const input = { dueAt: "2026-03-02T09:00:00Z", recurrence: { rrule: "FREQ=YEARLY;BYDAY=52MO" } };
  const task = await world.make("again", input);
  const { db } = world.gateway.app.store;
  const { recurrence_json: json } = await db.selectFrom("task").select("recurrence_json").where("id", "=", task.id)
    .executeTakeFirstOrThrow();
  await world.gateway.app.store.write((tx) =>
    tx.db.updateTable("task").set({ recurrence_json: json.replace("52MO", "53MO") }).where("id", "=", task.id).execute()
  );
  assert.equal((await complete(world, task.id))?.recurrence.rrule, "FREQ=YEARLY;BYDAY=53MO");
});

Deno.test("a next task never starts after it is due, whatever the clocks do, and can be changed like any other", async () => {
  await using world = await openTaskWorld();
  const night = { startAt: "2026-03-22T01:30:00Z", dueAt: "2026-03-22T02:00:00Z", timezone: "Europe/Vienna" };
  const root = await world.make("nightly", { ...night, recurrence: { rrule: "FREQ=WEEKLY" } });
  await world.make("step", { ...night, parentId: root.id });
  // A week later the clocks skip the time at which it starts, and go on at the one when it is due.
  const next = await complete(world, root.id);
  assert.deepEqual([next.startAt, next.dueAt], ["2026-03-29T01:00:00.000Z", "2026-03-29T01:00:00.000Z"]);
  const { body } = await world.member.get(`${PATH}?parentId=${next.id}`);
  for (const { id } of [next, ...body.items]) assert.equal((await world.patch(id, { title: "x" })).title, "x");
});
