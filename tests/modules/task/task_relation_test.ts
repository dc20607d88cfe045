// Relations of tasks: always on both sides, and without cycles.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openTaskFixture, PATH, type TaskFixture } from "./task_fixture.ts";
import { assertProblem } from "../fixtures.ts";

const INVERSE: Record<string, string> = {
  blocks: "blocked_by",
  blocked_by: "blocks",
  duplicates: "duplicated_by",
  duplicated_by: "duplicates",
  related: "related",
};

function relate(fixture: TaskFixture, id: string, kind: string, otherId: string) {
  return fixture.member.put(`${PATH}/${id}/relations/${kind}/${otherId}`);
}

async function relationsOf(fixture: TaskFixture, id: string): Promise<[string, string][]> {
  const { relations } = await fixture.read(id);
  return relations.map(({ kind, key }: { kind: string; key: string }) => [kind, key]);
}

Deno.test("task.relate writes the other side, and task.unrelate removes both", async () => {
  await using fixture = await openTaskFixture();
  const [a, b] = [await fixture.create("a"), await fixture.create("b")];
  for (const [kind, inverse] of Object.entries(INVERSE)) {
    const response = await relate(fixture, a.key, kind, b.id);
    assert.equal(response.status, 200, JSON.stringify(response.body));
    assert.deepEqual(await relationsOf(fixture, a.id), [[kind, "OPS-2"]]);
    assert.deepEqual(await relationsOf(fixture, b.id), [[inverse, "OPS-1"]]);
    assert.equal((await relate(fixture, a.id, kind, b.id)).body.version, response.body.version);
    assert.equal((await fixture.member.delete(`${PATH}/${b.id}/relations/${inverse}/${a.id}`)).status, 204);
    assert.deepEqual(await relationsOf(fixture, a.id), []);
    assertProblem(await fixture.member.delete(`${PATH}/${a.id}/relations/${kind}/${b.id}`), 404, "not_found");
  }
  assertProblem(await relate(fixture, a.id, "likes", b.id), 422, "validation_failed");
});

Deno.test("task.relate refuses cycles", async () => {
  await using fixture = await openTaskFixture();
  const [a, b, c] = [await fixture.create("a"), await fixture.create("b"), await fixture.create("c")];
  for (const kind of Object.keys(INVERSE)) assertProblem(await relate(fixture, a.id, kind, a.key), 409, "cycle");
  await relate(fixture, a.id, "blocks", b.id);
  await relate(fixture, b.id, "blocks", c.id);
  assertProblem(await relate(fixture, c.id, "blocks", a.id), 409, "cycle");
  assertProblem(await relate(fixture, a.id, "blocked_by", c.id), 409, "cycle");
  assertProblem(await relate(fixture, b.id, "blocks", a.id), 409, "cycle");
  // Deleted tasks may be restored, so their relations count.
  await fixture.member.delete(`${PATH}/${b.id}`);
  assertProblem(await relate(fixture, c.id, "blocks", a.id), 409, "cycle");
  assert.deepEqual(await relationsOf(fixture, a.id), []);
  await fixture.member.post(`${PATH}/${b.id}/restore`);
  assert.deepEqual(await relationsOf(fixture, a.id), [["blocks", "OPS-2"]]);
});

Deno.test("relations between rooms require membership in both and are hidden from members of one", async () => {
  await using fixture = await openTaskFixture();
  const a = await fixture.create("a");
  const { body: room } = await fixture.owner.post("/v1/rooms", { name: "Lab", visibility: "private" });
  const { body: far } = await fixture.owner.post(PATH, { roomId: room.id, title: "far" });
  assertProblem(await relate(fixture, a.id, "blocks", far.id), 404, "not_found");
  assert.equal((await fixture.owner.put(`${PATH}/${a.id}/relations/blocks/${far.key}`)).status, 200);
  assert.deepEqual(await relationsOf(fixture, a.id), []);
  const { body } = await fixture.owner.get(`${PATH}/${a.id}`);
  assert.deepEqual(body.relations.map(({ key }: { key: string }) => key), ["LAB-1"]);
});

Deno.test("task.relate refuses more than 100 relations of a task", async () => {
  await using fixture = await openTaskFixture();
  const hub = await fixture.create("hub");
  for (let index = 0; index < 100; index++) {
    const other = await fixture.create(`${index}`);
    assert.equal((await relate(fixture, hub.id, "related", other.id)).status, 200);
  }
  const one = await fixture.create("one more");
  assertProblem(await relate(fixture, one.id, "related", hub.id), 409, "limit_reached");
  assert.deepEqual(await relationsOf(fixture, one.id), []);
});

Deno.test("concurrent relations each have their inverse and close no cycle", async () => {
  await using fixture = await openTaskFixture();
  const step = fc.record({
    isAdd: fc.boolean(),
    from: fc.nat(4),
    kind: fc.constantFrom(...Object.keys(INVERSE)),
    to: fc.nat(4),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const tasks = await Promise.all(Array.from({ length: 5 }, (_, index) => fixture.create(`${index}`)));
      const ids: string[] = tasks.map((task) => task.id);
      const responses = await Promise.all(
        steps.map(({ isAdd, from, kind, to }) =>
          fixture.member.call(isAdd ? "PUT" : "DELETE", `${PATH}/${ids[from]}/relations/${kind}/${ids[to]}`)
        ),
      );
      for (const { status } of responses) assert.ok([200, 204, 404, 409].includes(status), `${status}`);
      const edges = (await Promise.all(ids.map(async (id) => {
        const { relations } = await fixture.read(id);
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
