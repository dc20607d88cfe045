// Filters of task.list: assigned, unassigned, created by the caller, overdue, and top-level tasks.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { TaskList } from "@/modules/task/schema.ts";
import { testOnEngines } from "../../engines.ts";
import { recordQueries } from "../query_log.ts";
import { assertProblem, ok, sendMessage } from "../fixtures.ts";
import { openTaskFixture, PATH } from "./task_fixture.ts";

testOnEngines("task.list filters by assignee, creator, level and due date", async (environment) => {
  await using fixture = await openTaskFixture({}, environment);
  const { gateway, member, owner, roomId } = fixture;
  const make = async (title: string, input: Record<string, unknown> = {}, caller = member) => {
    gateway.clock.advance(1000);
    const { status, body } = await caller.post(PATH, { roomId, title, ...input });
    assert.equal(status, 201, JSON.stringify(body));
    return body;
  };
  const late = await make("late", { assigneeIds: ["me"], dueAt: "2026-02-01T00:00:00Z" });
  await make("done late", { status: "done", dueAt: "2026-02-02T00:00:00Z" });
  await make("part", { parentId: late.id, assigneeIds: ["moderator", "owner"] }, owner);
  await make("open", { status: "backlog", parentId: late.key }, owner);
  await make("other", { assigneeIds: ["owner"], dueAt: "2026-09-01T00:00:00Z" }, fixture.moderator);
  const expected: [string, string[]][] = [
    ["unassigned=true", ["done late", "open"]],
    ["unassigned=false", ["late", "part", "other"]],
    ["unassigned=true&status=backlog,todo", ["open"]],
    ["topLevel=true", ["late", "done late", "other"]],
    ["topLevel=false", ["part", "open"]],
    ["topLevel=true&unassigned=true", ["done late"]],
    [`topLevel=true&parentId=${late.id}`, []],
    ["createdBy=me", ["late", "done late"]],
    ["createdBy=owner,moderator", ["part", "open", "other"]],
    ["createdBy=nobody", []],
    ["assigneeId=me,moderator", ["late", "part"]],
    ["assigneeId=moderator&assigneeId=owner", ["part", "other"]],
    ["assigneeId=owner&createdBy=owner", ["part"]],
    ["assigneeId=me&unassigned=true", []],
    ["dueBefore=2026-03-01T00:00:00Z&status=backlog,todo,in_progress,blocked", ["late"]],
    ["dueAfter=2026-02-02T00:00:00Z&dueBefore=2026-12-01T00:00:00Z", ["done late", "other"]],
    ["dueAfter=2026-01-01T00:00:00Z", ["late", "done late", "other"]],
    ["dueBefore=9999-12-31T23:59:59.999Z", ["late", "done late", "other"]],
    ["dueAfter=9999-12-31T23:59:59.999Z", []],
  ];
  for (const [query, titles] of expected) {
    assert.deepEqual(await fixture.listTitles(`${query}&sort=createdAt`), titles, query);
    for (const sort of ["dueAt", "-updatedAt", "position"]) {
      assert.deepEqual(
        (await fixture.listTitles(`${query}&sort=${sort}`)).sort(),
        titles.toSorted(),
        `${query} by ${sort}`,
      );
    }
  }
  // Tasks in invisible rooms are not found.
  assert.deepEqual(await fixture.listTitles("createdBy=member,owner", fixture.outsider), []);

  const first = await member.get(`${PATH}?createdBy=owner,member&limit=1`);
  assert.equal(first.body.hasMore, true);
  const { nextCursor } = first.body;
  assertProblem(await member.get(`${PATH}?createdBy=owner&limit=1&cursor=${nextCursor}`), 400, "invalid_cursor");
  const second = await member.get(`${PATH}?createdBy=owner,member&limit=3&cursor=${nextCursor}`);
  assert.equal(second.body.items.length, 3);

  for (const query of ["unassigned=maybe", "topLevel=1", "createdBy=%20", "assigneeId=a%2Fb"]) {
    assertProblem(await member.get(`${PATH}?${query}`), 422, "validation_failed");
  }
  const many = Array.from({ length: 21 }, (_, place) => `p${place}`).join(",");
  assertProblem(await member.get(`${PATH}?createdBy=${many}`), 422, "validation_failed");
  assertProblem(await member.get(`${PATH}?assigneeId=${many}`), 422, "validation_failed");
});

Deno.test("task.list accepts a single assignee as well as a list", () => {
  assert.deepEqual(TaskList.parse({ assigneeId: "me" }).assigneeId, ["me"]);
  assert.deepEqual(TaskList.parse({ assigneeId: ["me", "bob"] }).assigneeId, ["me", "bob"]);
});

Deno.test("task.list looks up named rooms once, not for each of their tasks", async () => {
  await using fixture = await openTaskFixture();
  const { gateway, member, roomId } = fixture;
  await fixture.create("one");
  const statements = await recordQueries(() => member.get(`${PATH}?roomId=${roomId}`));
  const [list] = statements.filter(({ sql }) => sql.startsWith('select "task".*'));
  const query = CompiledQuery.raw(`explain query plan ${list?.sql}`, [...list?.parameters ?? []]);
  const { rows } = await gateway.app.store.db.executeQuery<{ detail: string }>(query);
  const plan = rows.map(({ detail }) => detail);
  assert.ok(plan.some((detail) => detail.startsWith("LIST SUBQUERY")), plan.join("\n"));
});

testOnEngines("access to the room of a task or a message is read once", async (environment) => {
  await using fixture = await openTaskFixture({}, environment);
  const { member, roomId } = fixture;
  const { id } = await fixture.create("one");
  const message = await sendMessage(member, roomId, "two");
  for (const path of [`${PATH}/${id}`, `/v1/messages/${message.id}`]) {
    const statements = await recordQueries(async () => void ok(await member.get(path)));
    assert.equal(statements.filter(({ sql }) => sql.includes(`as "my_role"`)).length, 1, path);
  }
});
