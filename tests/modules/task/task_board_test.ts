// Board order: moves and concurrent moves.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openTaskFixture, PATH, type TaskFixture } from "./task_fixture.ts";
import { assertProblem } from "../fixtures.ts";

type BoardTask = { id: string; title: string; position: string; version: number };

async function board(fixture: TaskFixture): Promise<BoardTask[]> {
  const { body } = await fixture.member.get(`${PATH}?sort=position&limit=200&roomId=${fixture.roomId}`);
  return body.items;
}

Deno.test("task.update moves a task right after or before another", async () => {
  await using fixture = await openTaskFixture();
  const [a, b, c] = [await fixture.create("a"), await fixture.create("b"), await fixture.create("c")];
  const titles = () => fixture.listTitles("sort=position");
  await fixture.update(c.id, { position: { before: a.key } });
  assert.deepEqual(await titles(), ["c", "a", "b"]);
  await fixture.update(c.id, { position: { after: a.id } });
  assert.deepEqual(await titles(), ["a", "c", "b"]);
  await fixture.update(a.id, { position: { after: b.id } });
  assert.deepEqual(await titles(), ["c", "b", "a"]);
  await fixture.create("d");
  assert.deepEqual(await titles(), ["c", "b", "a", "d"]);
  assertProblem(await fixture.member.patch(`${PATH}/${a.id}`, { position: { after: a.id } }), 422, "validation_failed");
  assertProblem(
    await fixture.member.patch(`${PATH}/${a.id}`, { position: { after: "OPS-99" } }),
    422,
    "validation_failed",
  );
  assertProblem(
    await fixture.member.patch(`${PATH}/${a.id}`, { position: { after: b.id, before: c.id } }),
    422,
    "validation_failed",
  );
  const { body: lab } = await fixture.member.post("/v1/rooms", { name: "Lab" });
  const { body: far } = await fixture.member.post(PATH, { roomId: lab.id, title: "far" });
  assertProblem(
    await fixture.member.patch(`${PATH}/${a.id}`, { position: { after: far.id } }),
    422,
    "validation_failed",
  );
});

Deno.test("task.restore restores the board position", async () => {
  await using fixture = await openTaskFixture();
  const [a, b] = [await fixture.create("a"), await fixture.create("b"), await fixture.create("c")];
  await fixture.member.delete(`${PATH}/${b.id}`);
  await fixture.update((await fixture.create("d")).id, { position: { after: a.id } });
  await fixture.member.post(`${PATH}/${b.id}/restore`);
  assert.deepEqual(await fixture.listTitles("sort=position"), ["a", "d", "b", "c"]);
  const positions = (await board(fixture)).map(({ position }) => position);
  assert.equal(new Set(positions).size, 4);
});

Deno.test("task.update rebalances long positions, keeps the order and publishes all moves", async () => {
  await using fixture = await openTaskFixture();
  const tasks: BoardTask[] = [];
  for (const title of ["first", "x", "y", "last"]) tasks.push(await fixture.create(title));
  const [first, x, y] = tasks;
  assert.ok(first && x && y);
  const lengths: number[] = [];
  // Moving two tasks past each other right after a third one halves the same gap repeatedly.
  for (let round = 0; round < 200; round++) {
    const moved = await fixture.update(round % 2 === 0 ? y.id : x.id, { position: { after: first.id } });
    lengths.push(moved.position.length);
  }
  assert.ok(Math.max(...lengths) <= 40, `${lengths}`);
  assert.ok(lengths.some((length, at) => length < (lengths[at - 1] ?? 0) - 20), `spread out once: ${lengths}`);
  assert.deepEqual(await fixture.listTitles("sort=position"), ["first", "x", "y", "last"]);
  const events = await fixture.gateway.app.store.log.read("default", `room:${fixture.roomId}`, 0, 1000);
  const latest = new Map<string, string>();
  for (const { json } of events) {
    const { data } = JSON.parse(json);
    if (data.task !== undefined) latest.set(data.task.id, data.task.position);
    if (data.changes?.position !== undefined) latest.set(data.taskId, data.changes.position);
  }
  for (const { id, position } of await board(fixture)) {
    assert.equal(latest.get(id), position, "the events lead to the same board");
  }
});

Deno.test("concurrent moves leave one order with unique positions for all readers", async () => {
  await using fixture = await openTaskFixture();
  for (let index = 0; index < 6; index++) await fixture.create(`${index}`);
  const move = fc.record({ which: fc.nat(5), side: fc.constantFrom("after", "before"), anchor: fc.nat(5) });
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 2, maxLength: 10 }), async (moves) => {
      const ids = (await board(fixture)).map(({ id }) => id).sort();
      const responses = await Promise.all(
        moves.map(({ which, side, anchor }) =>
          fixture.member.patch(`${PATH}/${ids[which]}`, { position: { [side]: ids[anchor] } })
        ),
      );
      for (const [index, { status }] of responses.entries()) {
        assert.equal(status, moves[index]?.which === moves[index]?.anchor ? 422 : 200);
      }
      const placed = await board(fixture);
      assert.deepEqual(placed.map(({ id }) => id).sort(), ids);
      const positions = placed.map(({ position }) => position);
      assert.deepEqual(positions, [...new Set(positions)].sort(), "plain text order, no doubles");
      // The log has the last position of each task.
      const log = await fixture.gateway.app.store.log.readBackward("default", `room:${fixture.roomId}`, 1e9, 50);
      const seen = new Map<string, string>();
      for (const { json } of log) {
        const { task, taskId = task?.id, changes } = JSON.parse(json).data;
        const position = changes?.position ?? task?.position;
        if (position !== undefined && !seen.has(taskId)) seen.set(taskId, position);
      }
      for (const { id, position } of placed) if (seen.has(id)) assert.equal(seen.get(id), position);
    }),
    { numRuns: 40 },
  );
});

Deno.test("each of many moves puts a task next to its anchor", async () => {
  await using fixture = await openTaskFixture();
  const ids: string[] = [];
  for (let index = 0; index < 6; index++) ids.push((await fixture.create(`${index}`)).id);
  const model = [...ids];
  const move = fc.record({ which: fc.nat(5), side: fc.constantFrom("after", "before"), anchor: fc.nat(5) });
  await fc.assert(
    fc.asyncProperty(move, async ({ which, side, anchor }) => {
      fc.pre(which !== anchor);
      const [id = "", beside = ""] = [ids[which], ids[anchor]];
      await fixture.update(id, { position: { [side]: beside } });
      model.splice(model.indexOf(id), 1);
      model.splice(model.indexOf(beside) + (side === "after" ? 1 : 0), 0, id);
      assert.deepEqual((await board(fixture)).map((task) => task.id), model);
    }),
    { numRuns: 60, endOnFailure: true },
  );
});
