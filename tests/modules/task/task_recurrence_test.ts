// Recurring tasks: the next task after completion, DST changes, and refused rules.
// Measures the work of its thread.
import assert from "node:assert/strict";
import { parseRule, taskRules } from "@/modules/task/recurrence.ts";
import { measureMinCpuMs, measureReferenceMs } from "../../cpu_time.ts";
import { openTaskFixture, PATH, type TaskFixture } from "./task_fixture.ts";
import { ok } from "../room/room_fixture.ts";
import { assertProblem } from "../fixtures.ts";

/** Completes a task and reads the one that follows it. */
async function complete(fixture: TaskFixture, id: string) {
  const { nextTaskId } = await fixture.update(id, { status: "done" });
  return nextTaskId === null ? null : await fixture.read(nextTaskId);
}

/** Due dates of a series, completed one after another, as wall time. */
async function dueDates(fixture: TaskFixture, input: Record<string, unknown>, count: number): Promise<string[]> {
  const dates: string[] = [];
  let task = await fixture.create("again", input);
  for (let index = 0; index < count && task !== null; index++) {
    task = await complete(fixture, task.id);
    if (task !== null) dates.push(wall(task.dueAt, task.timeZone));
  }
  return dates;
}

function wall(at: string, zone: string): string {
  return Temporal.Instant.from(at).toZonedDateTimeISO(zone).toString({ smallestUnit: "minute", timeZoneName: "never" });
}

Deno.test("completing a recurring task creates the next one once, with its fields", async () => {
  await using fixture = await openTaskFixture();
  const first = await fixture.create("Water the plants", {
    description: "all of them",
    priority: "low",
    labels: ["home"],
    assigneeIds: ["owner"],
    startAt: "2026-03-02T07:00:00Z",
    dueAt: "2026-03-02T09:00:00Z",
    timeZone: "Europe/Vienna",
    recurrence: { rrule: "FREQ=WEEKLY" },
  });
  assert.deepEqual(first.recurrence, { rrule: "FREQ=WEEKLY", anchor: "due", instance: 1 });
  const next = await complete(fixture, first.id);
  assert.deepEqual(
    [next.title, next.description, next.priority, next.labels, next.assigneeIds, next.status, next.version],
    ["Water the plants", "all of them", "low", ["home"], ["owner"], "todo", 1],
  );
  assert.deepEqual([next.startAt, next.dueAt], ["2026-03-09T07:00:00.000Z", "2026-03-09T09:00:00.000Z"]);
  assert.equal(next.recurrence.instance, 2);
  assert.notEqual(next.key, first.key);
  await fixture.update(first.id, { status: "todo" });
  assert.equal((await fixture.update(first.id, { status: "done" })).nextTaskId, next.id);
  assert.equal((await fixture.listTitles("")).length, 2);
  const events = await fixture.readEvents();
  assert.equal(events.filter(({ type }) => type === "task.created").length, 2);
});

Deno.test("the next task of a series has the same creator, no matter who completes the last one", async () => {
  await using fixture = await openTaskFixture();
  const { moderator, member, owner } = fixture;
  const first = ok(
    await owner.post(PATH, {
      roomId: fixture.roomId,
      title: "Report",
      dueAt: "2026-03-02T09:00:00Z",
      recurrence: { rrule: "FREQ=WEEKLY" },
    }),
    201,
  );
  ok(await moderator.post(PATH, { roomId: fixture.roomId, title: "Numbers", parentId: first.id }), 201);
  const next = await complete(fixture, first.id);
  const [copy] = ok(await member.get(`${PATH}?parentId=${next.id}`)).items;
  assert.deepEqual([next.createdBy, copy.createdBy], ["owner", "moderator"]);
  // Completing it does not give the right to delete the next task.
  assertProblem(await member.delete(`${PATH}/${next.id}`), 403, "forbidden");
  const { items } = ok(await member.get(`${PATH}/${next.id}/activity`));
  assert.deepEqual(items.map(({ type, actorId }: Record<string, string>) => [type, actorId]), [["created", "member"]]);
});

Deno.test("a recurring task is completed and continued in a room at its limit of open tasks", async () => {
  await using fixture = await openTaskFixture();
  const { app } = fixture.gateway;
  const first = await fixture.create("again", { dueAt: "2026-03-02T09:00:00Z", recurrence: { rrule: "FREQ=DAILY" } });
  const row = await app.store.db.selectFrom("task").selectAll().executeTakeFirstOrThrow();
  const others = Array.from({ length: 9999 }, (_, n) => ({ ...row, id: `task_${n}`, key: `OPS-X${n}` }));
  await app.store.write((tx) => tx.insertMany("task", others));
  assertProblem(await fixture.member.post(PATH, { roomId: fixture.roomId, title: "one more" }), 409, "limit_reached");
  assert.equal((await complete(fixture, first.id)).dueAt, "2026-03-03T09:00:00.000Z");
  assert.equal((await fixture.read(first.id)).status, "done");
  assertProblem(await fixture.member.post(PATH, { roomId: fixture.roomId, title: "one more" }), 409, "limit_reached");
});

Deno.test("a series does not pass the end of the year 9999", async () => {
  await using fixture = await openTaskFixture();
  const input = { dueAt: "9999-12-31T12:00:00Z", timeZone: "UTC", recurrence: { rrule: "FREQ=DAILY" } };
  const next = await complete(fixture, (await fixture.create("again", input)).id);
  assert.equal(next.dueAt, "9999-12-31T23:59:59.999Z");
});

Deno.test("a series keeps its wall time across DST changes", async () => {
  await using fixture = await openTaskFixture();
  const daily = { recurrence: { rrule: "FREQ=DAILY" } };
  assert.deepEqual(await dueDates(fixture, { ...daily, dueAt: "2026-03-28T08:00:00Z", timeZone: "Europe/Vienna" }, 2), [
    "2026-03-29T09:00+02:00",
    "2026-03-30T09:00+02:00",
  ]);
  assert.deepEqual(
    await dueDates(fixture, { ...daily, dueAt: "2026-10-31T13:00:00Z", timeZone: "America/New_York" }, 2),
    [
      "2026-11-01T09:00-05:00",
      "2026-11-02T09:00-05:00",
    ],
  );
  assert.deepEqual(
    await dueDates(fixture, { ...daily, dueAt: "2026-10-02T22:30:00Z", timeZone: "Australia/Lord_Howe" }, 2),
    ["2026-10-04T09:00+11:00", "2026-10-05T09:00+11:00"],
  );
  assert.deepEqual(
    await dueDates(fixture, { ...daily, dueAt: "2026-03-28T03:15:00Z", timeZone: "Asia/Kathmandu" }, 1),
    [
      "2026-03-29T09:00+05:45",
    ],
  );
});

Deno.test("a wall time in a DST gap is skipped and does not move later tasks", async () => {
  await using fixture = await openTaskFixture();
  const night = { dueAt: "2026-03-28T01:30:00Z", timeZone: "Europe/Vienna" };
  assert.deepEqual(await dueDates(fixture, { ...night, recurrence: { rrule: "FREQ=DAILY" } }, 2), [
    "2026-03-30T02:30+02:00",
    "2026-03-31T02:30+02:00",
  ]);
  // Completed on the day of the gap: counts from that day, at the time of day of the series.
  const task = await fixture.create("after", {
    ...night,
    recurrence: { rrule: "FREQ=DAILY;INTERVAL=3", anchor: "completion" },
  });
  fixture.gateway.clock.advance(Date.parse("2026-03-29T10:00:00Z") - fixture.gateway.clock.now());
  const later = await fixture.gateway.as("member");
  const { body } = await later.patch(`${PATH}/${task.id}`, { status: "done" });
  const { body: next } = await later.get(`${PATH}/${body.nextTaskId}`);
  assert.equal(wall(next.dueAt, "Europe/Vienna"), "2026-04-01T02:30+02:00");
});

Deno.test("anchor due counts from the due date, anchor completion from the time of completion", async () => {
  await using fixture = await openTaskFixture();
  const input = { dueAt: "2026-02-01T18:00:00Z", recurrence: { rrule: "FREQ=DAILY;INTERVAL=7" } };
  assert.deepEqual(await dueDates(fixture, input, 1), ["2026-02-08T18:00+00:00"]);
  const completion = { ...input, recurrence: { ...input.recurrence, anchor: "completion" } };
  assert.deepEqual(await dueDates(fixture, completion, 1), ["2026-03-08T18:00+00:00"]);
  const undated = { recurrence: { rrule: "FREQ=WEEKLY;BYDAY=MO", anchor: "completion" } };
  assert.deepEqual(await dueDates(fixture, undated, 1), ["2026-03-02T12:00+00:00"]);
});

Deno.test("months without the day are skipped, and leap days are due in leap years", async () => {
  await using fixture = await openTaskFixture();
  const on = (dueAt: string, rrule: string, count: number) =>
    dueDates(fixture, { dueAt, recurrence: { rrule } }, count);
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

Deno.test("a series ends by COUNT, UNTIL or cancellation", async () => {
  await using fixture = await openTaskFixture();
  const dueAt = "2026-03-02T09:00:00Z";
  const lengths = [];
  const ends = ["COUNT=3", "UNTIL=20260304T090000Z", "UNTIL=20260304T235959Z", "COUNT=1"];
  for (const rrule of ends.map((end) => `FREQ=DAILY;${end}`)) {
    lengths.push((await dueDates(fixture, { dueAt, recurrence: { rrule } }, 5)).length);
  }
  assert.deepEqual(lengths, [2, 2, 2, 0]);
  const task = await fixture.create("x", { dueAt, recurrence: { rrule: "FREQ=DAILY" } });
  assert.equal((await fixture.update(task.id, { status: "cancelled" })).nextTaskId, null);
  // Postponing one task moves the following ones without restarting COUNT.
  const counted = await fixture.create("y", { dueAt, recurrence: { rrule: "FREQ=DAILY;COUNT=3" } });
  const second = await complete(fixture, counted.id);
  await fixture.update(second.id, { dueAt: "2026-03-10T10:00:00Z" });
  const third = await complete(fixture, second.id);
  assert.deepEqual([third.dueAt, third.recurrence.instance], ["2026-03-11T10:00:00.000Z", 3]);
  assert.equal(await complete(fixture, third.id), null);
});

Deno.test("the next task has open copies of the subtasks with moved dates", async () => {
  await using fixture = await openTaskFixture();
  const root = await fixture.create("release", {
    dueAt: "2026-03-27T09:00:00Z",
    timeZone: "Europe/Vienna",
    recurrence: { rrule: "FREQ=WEEKLY" },
  });
  const step = await fixture.create("step", {
    parentId: root.id,
    dueAt: "2026-03-26T09:00:00Z",
    timeZone: "Europe/Vienna",
  });
  await fixture.create("detail", { parentId: step.id, labels: ["x"] });
  const dropped = await fixture.create("dropped", { parentId: root.id });
  await fixture.update(step.id, { status: "done" });
  await fixture.member.delete(`${PATH}/${dropped.id}`);
  const next = await complete(fixture, root.id);
  const { body } = await fixture.member.get(`${PATH}?parentId=${next.id}`);
  assert.deepEqual(body.items.map((task: { title: string }) => task.title), ["step"]);
  assert.deepEqual([body.items[0].status, body.items[0].completedAt], ["todo", null]);
  assert.equal(wall(body.items[0].dueAt, "Europe/Vienna"), "2026-04-02T10:00+02:00");
  const { body: below } = await fixture.member.get(`${PATH}?parentId=${body.items[0].id}`);
  assert.deepEqual(below.items.map((task: { labels: string[] }) => task.labels), [["x"]]);
  const third = await complete(fixture, next.id);
  assert.equal((await fixture.read(third.id)).subtaskCount, 1);
});

Deno.test("former members are not assigned to the next task of a series", async () => {
  await using fixture = await openTaskFixture();
  const { id } = await fixture.create("again", {
    assigneeIds: ["observer", "owner"],
    dueAt: "2026-03-02T09:00:00Z",
    recurrence: { rrule: "FREQ=DAILY" },
  });
  await fixture.owner.delete(`/v1/rooms/${fixture.roomId}/members/observer`);
  const next = await complete(fixture, id);
  assert.deepEqual(next.assigneeIds, ["owner"]);
  const log = await fixture.gateway.app.store.log.read("default", "principal:observer", 0, 100);
  assert.equal(log.filter(({ json }) => json.includes(next.id)).length, 0);
});

Deno.test("malformed and expensive rules are refused at little cost", async () => {
  await using fixture = await openTaskFixture();
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
    ["FREQ=SECONDLY", "recurrence_too_complex"],
    ["FREQ=MINUTELY", "recurrence_too_complex"],
    [`FREQ=YEARLY;BYHOUR=${many};BYMINUTE=${minutes}`, "recurrence_too_complex"],
    ["FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "recurrence_too_complex"],
    ["FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=4", "recurrence_too_complex"],
    ["FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "recurrence_too_complex"],
    ["FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "recurrence_too_complex"],
    ["FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO;BYMONTH=6", "recurrence_too_complex"],
    ["FREQ=DAILY;BYSETPOS=400", "recurrence_too_complex"],
    ["FREQ=WEEKLY;BYDAY=MO;BYMONTHDAY=31;BYMONTH=2", "recurrence_too_complex"],
    [`FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=${many};BYMINUTE=1,2,3;BYSETPOS=999`, "recurrence_too_complex"],
    [`FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=${many};BYSETPOS=-999`, "recurrence_too_complex"],
  ];
  const affordable = await measureReferenceMs();
  for (const [rrule, code] of cases) {
    assertProblem(
      await fixture.member.post(PATH, { roomId: fixture.roomId, title: "x", dueAt, recurrence: { rrule } }),
      422,
      code,
    );
    const ms = await measureMinCpuMs(() => {
      try {
        taskRules.nextDate(parseRule(rrule), { timeZone: "UTC", wall: "2026-03-02T09:00" }, Date.parse(dueAt));
      } catch { /* as wanted */ }
    }, 3);
    assert.ok(ms < affordable, `${rrule}: ${ms} ms`);
  }
});

Deno.test("a series whose rule is no longer accepted continues", async () => {
  await using fixture = await openTaskFixture();
  const input = { dueAt: "2026-03-02T09:00:00Z", recurrence: { rrule: "FREQ=YEARLY;BYDAY=52MO" } };
  const task = await fixture.create("again", input);
  const { db } = fixture.gateway.app.store;
  const { recurrence_json: json } = await db.selectFrom("task").select("recurrence_json").where("id", "=", task.id)
    .executeTakeFirstOrThrow();
  await fixture.gateway.app.store.write((tx) =>
    tx.db.updateTable("task").set({ recurrence_json: json.replace("52MO", "53MO") }).where("id", "=", task.id).execute()
  );
  assert.equal((await complete(fixture, task.id))?.recurrence.rrule, "FREQ=YEARLY;BYDAY=53MO");
});

Deno.test("the next task never starts after it is due, even at a DST change, and can be updated", async () => {
  await using fixture = await openTaskFixture();
  const night = { startAt: "2026-03-22T01:30:00Z", dueAt: "2026-03-22T02:00:00Z", timeZone: "Europe/Vienna" };
  const root = await fixture.create("nightly", { ...night, recurrence: { rrule: "FREQ=WEEKLY" } });
  await fixture.create("step", { ...night, parentId: root.id });
  // A week later the start is in a DST gap, whose end is the due time.
  const next = await complete(fixture, root.id);
  assert.deepEqual([next.startAt, next.dueAt], ["2026-03-29T01:00:00.000Z", "2026-03-29T01:00:00.000Z"]);
  const { body } = await fixture.member.get(`${PATH}?parentId=${next.id}`);
  for (const { id } of [next, ...body.items]) assert.equal((await fixture.update(id, { title: "x" })).title, "x");
});
