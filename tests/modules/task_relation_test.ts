// Relations of tasks: both sides always, circles never, whatever is asked in whatever order.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openTaskWorld, PATH, type TaskWorld } from "./task_world.ts";
import { refused } from "./team.ts";

const INVERSE: Record<string, string> = {
  blocks: "blocked_by",
  blocked_by: "blocks",
  duplicates: "duplicated_by",
  duplicated_by: "duplicates",
  related: "related",
};

function relate(world: TaskWorld, id: string, kind: string, otherId: string) {
  return world.member.put(`${PATH}/${id}/relations/${kind}/${otherId}`);
}

async function relationsOf(world: TaskWorld, id: string): Promise<[string, string][]> {
  const { relations } = await world.read(id);
  return relations.map(({ kind, key }: { kind: string; key: string }) => [kind, key]);
}

Deno.test("task.relate writes the other side, and task.unrelate removes both", async () => {
  await using world = await openTaskWorld();
  const [a, b] = [await world.make("a"), await world.make("b")];
  for (const [kind, inverse] of Object.entries(INVERSE)) {
    const answer = await relate(world, a.key, kind, b.id);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    assert.deepEqual(await relationsOf(world, a.id), [[kind, "OPS-2"]]);
    assert.deepEqual(await relationsOf(world, b.id), [[inverse, "OPS-1"]]);
    assert.equal((await relate(world, a.id, kind, b.id)).body.version, answer.body.version);
    assert.equal((await world.member.delete(`${PATH}/${b.id}/relations/${inverse}/${a.id}`)).status, 204);
    assert.deepEqual(await relationsOf(world, a.id), []);
    refused(await world.member.delete(`${PATH}/${a.id}/relations/${kind}/${b.id}`), 404, "not_found");
  }
  refused(await relate(world, a.id, "likes", b.id), 422, "validation_failed");
});

Deno.test("a task is not related to itself and does not block what blocks it", async () => {
  await using world = await openTaskWorld();
  const [a, b, c] = [await world.make("a"), await world.make("b"), await world.make("c")];
  for (const kind of Object.keys(INVERSE)) refused(await relate(world, a.id, kind, a.key), 409, "cycle");
  await relate(world, a.id, "blocks", b.id);
  await relate(world, b.id, "blocks", c.id);
  refused(await relate(world, c.id, "blocks", a.id), 409, "cycle");
  refused(await relate(world, a.id, "blocked_by", c.id), 409, "cycle");
  refused(await relate(world, b.id, "blocks", a.id), 409, "cycle");
  // Deleted tasks may come back, so what they block still counts.
  await world.member.delete(`${PATH}/${b.id}`);
  refused(await relate(world, c.id, "blocks", a.id), 409, "cycle");
  assert.deepEqual(await relationsOf(world, a.id), []);
  await world.member.post(`${PATH}/${b.id}/restore`);
  assert.deepEqual(await relationsOf(world, a.id), [["blocks", "OPS-2"]]);
});

Deno.test("relations between rooms take membership in both and are hidden from those who see one", async () => {
  await using world = await openTaskWorld();
  const a = await world.make("a");
  const { body: room } = await world.owner.post("/v1/rooms", { name: "Lab", visibility: "private" });
  const { body: far } = await world.owner.post(PATH, { roomId: room.id, title: "far" });
  refused(await relate(world, a.id, "blocks", far.id), 404, "not_found");
  assert.equal((await world.owner.put(`${PATH}/${a.id}/relations/blocks/${far.key}`)).status, 200);
  assert.deepEqual(await relationsOf(world, a.id), []);
  const { body } = await world.owner.get(`${PATH}/${a.id}`);
  assert.deepEqual(body.relations.map(({ key }: { key: string }) => key), ["LAB-1"]);
});

Deno.test("a task has a hundred relations at most", async () => {
  await using world = await openTaskWorld();
  const hub = await world.make("hub");
  for (let index = 0; index < 100; index++) {
    const other = await world.make(`${index}`);
    assert.equal((await relate(world, hub.id, "related", other.id)).status, 200);
  }
  const one = await world.make("one more");
  refused(await relate(world, one.id, "related", hub.id), 409, "limit_reached");
  assert.deepEqual(await relationsOf(world, one.id), []);
});

Deno.test("whatever relations are asked for at once, each has its inverse and none closes a circle", async () => {
  await using world = await openTaskWorld();
  const step = fc.record({
    isAdd: fc.boolean(),
    from: fc.nat(4),
    kind: fc.constantFrom(...Object.keys(INVERSE)),
    to: fc.nat(4),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const tasks = await Promise.all(Array.from({ length: 5 }, (_, index) => world.make(`${index}`)));
      const ids: string[] = tasks.map((task) => task.id);
      const answers = await Promise.all(
        steps.map(({ isAdd, from, kind, to }) =>
          world.member.call(isAdd ? "PUT" : "DELETE", `${PATH}/${ids[from]}/relations/${kind}/${ids[to]}`)
        ),
      );
      for (const { status } of answers) assert.ok([200, 204, 404, 409].includes(status), `${status}`);
      const edges = (await Promise.all(ids.map(async (id) => {
        const { relations } = await world.read(id);
        return relations.map((relation: { kind: string; taskId: string }) => [id, relation.kind, relation.taskId]);
      }))).flat() as [string, string, string][];
      for (const [from, kind, to] of edges) {
        assert.ok(edges.some((edge) => edge.join() === [to, INVERSE[kind], from].join()), `${from} ${kind} ${to}`);
      }
      for (const kind of ["blocks", "duplicates"]) {
        const after = new Map(
          ids.map((id) => [id, edges.filter((e) => e[0] === id && e[1] === kind).map((e) => e[2])]),
        );
        assert.ok(ids.every((id) => !reaches(after, id, id)), `a circle of ${kind}`);
      }
    }),
    { numRuns: 40 },
  );
});

/** Whether `to` can be reached from `from` in at least one step. */
function reaches(after: ReadonlyMap<string, readonly string[]>, from: string, to: string): boolean {
  const seen = new Set<string>();
  const open = [...after.get(from) ?? []];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at === to) return true;
    if (!seen.has(at)) open.push(...after.get(at) ?? []);
    seen.add(at);
  }
  return false;
}
