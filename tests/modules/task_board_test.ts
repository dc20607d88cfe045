// Board order: every move lands where it was asked, and moves at the same time leave one order for everybody.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openTaskWorld, PATH, type TaskWorld } from "./task_world.ts";
import { refused } from "./team.ts";

type Placed = { id: string; title: string; position: string; version: number };

async function board(world: TaskWorld): Promise<Placed[]> {
  const { body } = await world.member.get(`${PATH}?sort=position&limit=200&roomId=${world.roomId}`);
  return body.items;
}

Deno.test("task.update moves a task right after or before another", async () => {
  await using world = await openTaskWorld();
  const [a, b, c] = [await world.make("a"), await world.make("b"), await world.make("c")];
  const titles = () => world.titles("sort=position");
  await world.patch(c.id, { position: { before: a.key } });
  assert.deepEqual(await titles(), ["c", "a", "b"]);
  await world.patch(c.id, { position: { after: a.id } });
  assert.deepEqual(await titles(), ["a", "c", "b"]);
  await world.patch(a.id, { position: { after: b.id } });
  assert.deepEqual(await titles(), ["c", "b", "a"]);
  await world.make("d");
  assert.deepEqual(await titles(), ["c", "b", "a", "d"]);
  refused(await world.member.patch(`${PATH}/${a.id}`, { position: { after: a.id } }), 422, "validation_failed");
  refused(await world.member.patch(`${PATH}/${a.id}`, { position: { after: "OPS-99" } }), 422, "validation_failed");
  refused(
    await world.member.patch(`${PATH}/${a.id}`, { position: { after: b.id, before: c.id } }),
    422,
    "validation_failed",
  );
  const { body: lab } = await world.member.post("/v1/rooms", { name: "Lab" });
  const { body: far } = await world.member.post(PATH, { roomId: lab.id, title: "far" });
  refused(await world.member.patch(`${PATH}/${a.id}`, { position: { after: far.id } }), 422, "validation_failed");
});

Deno.test("a task that comes back stands where it stood", async () => {
  await using world = await openTaskWorld();
  const [a, b] = [await world.make("a"), await world.make("b"), await world.make("c")];
  await world.member.delete(`${PATH}/${b.id}`);
  await world.patch((await world.make("d")).id, { position: { after: a.id } });
  await world.member.post(`${PATH}/${b.id}/restore`);
  assert.deepEqual(await world.titles("sort=position"), ["a", "d", "b", "c"]);
  const positions = (await board(world)).map(({ position }) => position);
  assert.equal(new Set(positions).size, 4);
});

Deno.test("positions that grow long are spread out anew, order and followers intact", async () => {
  await using world = await openTaskWorld();
  const tasks: Placed[] = [];
  for (const title of ["first", "x", "y", "last"]) tasks.push(await world.make(title));
  const [first, x, y] = tasks;
  assert.ok(first && x && y);
  const lengths: number[] = [];
  // Moving two tasks past each other right behind a third halves the same gap again and again.
  for (let round = 0; round < 200; round++) {
    const moved = await world.patch(round % 2 === 0 ? y.id : x.id, { position: { after: first.id } });
    lengths.push(moved.position.length);
  }
  assert.ok(Math.max(...lengths) <= 40, `${lengths}`);
  assert.ok(lengths.some((length, at) => length < (lengths[at - 1] ?? 0) - 20), `spread out once: ${lengths}`);
  assert.deepEqual(await world.titles("sort=position"), ["first", "x", "y", "last"]);
  const events = await world.gateway.app.store.log.read("default", `room:${world.roomId}`, 0, 1000);
  const latest = new Map<string, string>();
  for (const { json } of events) {
    const { data } = JSON.parse(json);
    if (data.task !== undefined) latest.set(data.task.id, data.task.position);
  }
  for (const { id, position } of await board(world)) {
    assert.equal(latest.get(id), position, "a follower of the events has the same board");
  }
});

Deno.test("whatever moves are made at once, they leave one order without doubles that every reader shares", async () => {
  await using world = await openTaskWorld();
  for (let index = 0; index < 6; index++) await world.make(`${index}`);
  const move = fc.record({ which: fc.nat(5), side: fc.constantFrom("after", "before"), anchor: fc.nat(5) });
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 2, maxLength: 10 }), async (moves) => {
      const ids = (await board(world)).map(({ id }) => id).sort();
      const answers = await Promise.all(
        moves.map(({ which, side, anchor }) =>
          world.member.patch(`${PATH}/${ids[which]}`, { position: { [side]: ids[anchor] } })
        ),
      );
      for (const [index, { status }] of answers.entries()) {
        assert.equal(status, moves[index]?.which === moves[index]?.anchor ? 422 : 200);
      }
      const placed = await board(world);
      assert.deepEqual(placed.map(({ id }) => id).sort(), ids);
      const positions = placed.map(({ position }) => position);
      assert.deepEqual(positions, [...new Set(positions)].sort(), "plain text order, no doubles");
      // The move that was made last is where it was asked to be; which one that is, the log says.
      const log = await world.gateway.app.store.log.readBack("default", `room:${world.roomId}`, 1e9, 50);
      const seen = new Map<string, string>();
      for (const { json } of log) {
        const { task } = JSON.parse(json).data;
        if (task !== undefined && !seen.has(task.id)) seen.set(task.id, task.position);
      }
      for (const { id, position } of placed) if (seen.has(id)) assert.equal(seen.get(id), position);
    }),
    { numRuns: 40 },
  );
});

Deno.test("one move after another always lands next to its anchor", async () => {
  await using world = await openTaskWorld();
  const ids: string[] = [];
  for (let index = 0; index < 6; index++) ids.push((await world.make(`${index}`)).id);
  const model = [...ids];
  const move = fc.record({ which: fc.nat(5), side: fc.constantFrom("after", "before"), anchor: fc.nat(5) });
  await fc.assert(
    fc.asyncProperty(move, async ({ which, side, anchor }) => {
      fc.pre(which !== anchor);
      const [id = "", beside = ""] = [ids[which], ids[anchor]];
      await world.patch(id, { position: { [side]: beside } });
      model.splice(model.indexOf(id), 1);
      model.splice(model.indexOf(beside) + (side === "after" ? 1 : 0), 0, id);
      assert.deepEqual((await board(world)).map((task) => task.id), model);
    }),
    { numRuns: 60, endOnFailure: true },
  );
});
