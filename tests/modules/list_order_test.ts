// Lists of a large tenant on SQLite: read in their order by those who see much, by rooms for those who see little, never whole.
import assert from "node:assert/strict";
import { CompiledQuery, sql } from "kysely";
import { DocumentList } from "@/modules/document/schema.ts";
import { TaskArchiveStore } from "@/modules/task/archive/store.ts";
import { TaskList } from "@/modules/task/schema.ts";
import type { Caller } from "../harness.ts";
import { recordQueries } from "./query_log.ts";
import { ok } from "./room/room_fixture.ts";
import { openTaskFixture, PATH, type TaskFixture } from "./task/task_fixture.ts";

const DOCUMENTS = "/v1/collaboration/documents";
/** More than are sorted whatever the order. */
const MANY = 2001;

/** How SQLite reads the rows of one list. */
async function planOf(world: TaskFixture, caller: Caller, table: "task" | "document", path: string): Promise<string[]> {
  const statements = await recordQueries(async () => void ok(await caller.get(path)));
  const list = statements.filter(({ sql }) => sql.startsWith(`select "${table}".* from "${table}"`));
  assert.equal(list.length, 1, path);
  const plan = await world.gateway.app.store.db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${list[0]?.sql}`, [...list[0]?.parameters ?? []]),
  );
  return plan.rows.map(({ detail }) => detail);
}

/** As many rows like the one there is; only what has to differ does. */
async function multiply(
  world: TaskFixture,
  table: "task" | "document" | "task_assignee",
  own: readonly string[],
  many = MANY,
): Promise<void> {
  await world.gateway.app.store.write(async ({ db }) => {
    const info = await sql<{ name: string }>`select name from pragma_table_info(${table})`.execute(db);
    const columns = info.rows.map(({ name }) => name);
    const values = columns.map((name) => own.includes(name) ? sql`${sql.ref(name)} || '-' || n` : sql.ref(name));
    await sql`with recursive count(n) as (select 1 union all select n + 1 from count where n < ${many})
      insert into ${sql.table(table)} (${sql.join(columns.map((name) => sql.ref(name)))})
      select ${sql.join(values)} from count cross join (select * from ${sql.table(table)} limit 1)`.execute(db);
  });
}

async function openLargeFixture(): Promise<TaskFixture> {
  const world = await openTaskFixture();
  await world.create("one of many");
  await multiply(world, "task", ["id", "key"]);
  ok(await world.member.post(DOCUMENTS, { roomId: world.roomId, title: "one of many" }), 201);
  await multiply(world, "document", ["id"]);
  return world;
}

Deno.test("every order of a long list of tasks or documents is that of an index", async () => {
  await using world = await openLargeFixture();
  for (
    const [table, path, sorts] of [
      ["task", PATH, TaskList.shape.sort.unwrap().options],
      ["document", DOCUMENTS, DocumentList.shape.sort.unwrap().options],
    ] as const
  ) {
    for (const sort of sorts) {
      const plan = await planOf(world, world.member, table, `${path}?sort=${sort}`);
      assert.ok(!plan.some((line) => line.includes("TEMP B-TREE FOR ORDER BY")), `${sort}: ${plan.join("; ")}`);
    }
  }
});

Deno.test("a text is looked for in a long list of tasks piece by piece, in every order", async () => {
  await using world = await openLargeFixture();
  const { id } = await world.create("a needle");
  for (const sort of TaskList.shape.sort.unwrap().options) {
    for (const [q, expected] of [["needle", [id]], ["nothing", []]] as const) {
      const statements = await recordQueries(async () => {
        const { items } = ok(await world.member.get(`${PATH}?q=${q}&sort=${sort}`));
        assert.deepEqual(items.map((item: { id: string }) => item.id), expected, sort);
      });
      const searches = statements.filter(({ sql }) => sql.includes("fold_case"));
      assert.equal(searches.length, Math.ceil((MANY + 2) / 2000), sort);
    }
  }
  const all = ok(await world.member.get(`${PATH}?q=ONE&limit=200`));
  assert.deepEqual([all.items.length, all.hasMore], [200, true]);
  const next = ok(await world.member.get(`${PATH}?q=ONE&limit=200&cursor=${encodeURIComponent(all.nextCursor)}`));
  assert.equal(new Set([...all.items, ...next.items].map(({ id }) => id)).size, 400);
});

Deno.test("who sees little of a large tenant does not have its lists read through", async () => {
  await using world = await openLargeFixture();
  for (const [table, path] of [["task", PATH], ["document", DOCUMENTS]] as const) {
    const [first] = await planOf(world, world.outsider, table, path);
    assert.match(first ?? "", new RegExp(`^SEARCH ${table} .*\\(id=\\?\\)`), path);
  }
});

Deno.test("tasks of a room, of an assignee and of a parent are found by their index, whatever the order", async () => {
  await using world = await openLargeFixture();
  const { id } = await world.create("parent");
  const label = encodeURIComponent("rare");
  for (const sort of TaskList.shape.sort.unwrap().options) {
    for (const query of [`roomId=${world.roomId}`, "assigneeId=me", `parentId=${id}`, `label=${label}`]) {
      const [first] = await planOf(world, world.member, "task", `${PATH}?${query}&sort=${sort}`);
      assert.match(first ?? "", /\(tenant_id=\? AND (room_id|parent_id)=\?|\(id=\?\)/, `${query} by ${sort}`);
    }
  }
});

Deno.test("what many tasks of a room or an assignee have is looked for piece by piece, in every order but that of a board", async () => {
  await using world = await openTaskFixture();
  await world.create("one of many", { assigneeIds: ["member"] });
  await multiply(world, "task", ["id", "key"], 5001);
  await multiply(world, "task_assignee", ["task_id"], 5001);
  const { id } = await world.create("a needle", { assigneeIds: ["member"] });
  for (const sort of TaskList.shape.sort.unwrap().options) {
    for (const query of [`roomId=${world.roomId}`, "assigneeId=member", `roomId=${world.roomId}&assigneeId=member`]) {
      const plan = await planOf(world, world.member, "task", `${PATH}?${query}&sort=${sort}`);
      const isBoard = sort === "position" && query.startsWith("roomId");
      assert.ok(
        isBoard || !plan.some((line) => line.includes("TEMP B-TREE FOR ORDER BY")),
        `${sort}: ${plan.join("; ")}`,
      );
      const statements = await recordQueries(async () => {
        const { items } = ok(await world.member.get(`${PATH}?${query}&q=needle&sort=${sort}`));
        assert.deepEqual(items.map((item: { id: string }) => item.id), [id], sort);
      });
      assert.equal(statements.filter(({ sql }) => sql.includes("fold_case")).length, 3, `${query} by ${sort}`);
    }
  }
});

Deno.test("what nearly all rooms have in common is a literal: a plan for any value would expect no rooms", async () => {
  await using world = await openTaskFixture();
  await world.create("a task");
  const statements = await recordQueries(async () => {
    for (const path of [PATH, DOCUMENTS, "/v1/collaboration/unreads", "/v1/search?q=task"]) {
      ok(await world.member.get(path));
    }
  });
  const unequal = statements.flatMap(({ sql }) => sql.match(/"?state"? <> \S+/g) ?? []);
  assert.ok(unequal.length >= 4);
  assert.deepEqual(unequal.filter((condition) => !condition.includes("'deleted'")), []);
  assert.ok(statements.some(({ sql }) => sql.includes("search_cursor") && sql.endsWith("limit 500")));
});

Deno.test("an export finds tasks below others by these, however many there are in the room", async () => {
  await using world = await openLargeFixture();
  const { db } = world.gateway.app.store;
  const parents = Array.from({ length: 200 }, (_, n) => `parent-${n}`);
  const [statement] = await recordQueries(() =>
    new TaskArchiveStore(db).tasksUnder("default", world.roomId, parents, "", 100)
  );
  const plan = await db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${statement?.sql}`, [...statement?.parameters ?? []]),
  );
  assert.match(plan.rows[0]?.detail ?? "", /task_parent \(tenant_id=\? AND parent_id=\?\)/);
});

Deno.test("SQLite has statistics for every index of tasks and documents", async () => {
  await using world = await openTaskFixture();
  const { db } = world.gateway.app.store;
  const missing = await sql<{ name: string }>`select name from sqlite_schema where type = 'index'
    and tbl_name in ('task', 'task_assignee', 'task_label', 'document')
    and name not in (select idx from sqlite_stat1 where idx is not null)`.execute(db);
  assert.deepEqual(missing.rows, []);
});
