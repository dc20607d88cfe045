// Whatever three editors and a REST editor do in whatever order, connected or not, all end with the same text, and so does the store.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { pause, until } from "../wait.ts";
import { type Editor, EditorRoom } from "./document_editor.ts";
import { DocumentWorld, PATH } from "./document_world.ts";

type Step =
  | { kind: "insert"; who: number; at: number; text: string }
  | { kind: "remove"; who: number; at: number; length: number }
  | { kind: "rest"; text: string }
  | { kind: "put"; at: number; text: string }
  | { kind: "offline"; who: number }
  | { kind: "online"; who: number }
  | { kind: "pause"; ms: number };

const who = fc.integer({ min: 0, max: 2 });
const at = fc.integer({ min: 0, max: 40 });
const words = fc.constantFrom("a", "bc", "\n", "😀", "line\n", "# ");
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("insert" as const), who, at, text: words }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("remove" as const), who, at, length: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("rest" as const), text: words }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("put" as const), at, text: words }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("offline" as const), who }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("online" as const), who }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pause" as const), ms: fc.integer({ min: 0, max: 8 }) }) },
);

Deno.test("random edits from editors and from REST converge, and the store holds what they converge to", async () => {
  const world = await DocumentWorld.open();
  const room = new EditorRoom(world.gateway);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const { id } = await world.make("start\n");
      const editors = await Promise.all(
        ["owner", "moderator", "member"].map((name) => room.join(id, world.as(name).token)),
      );
      for (const one of steps) await take(world, id, editors, one);
      await Promise.all(editors.map((editor) => editor.online()));
      await Promise.all(editors.map((editor) => editor.saved()));
      const text = await world.text(id);
      await until(() => editors.every((editor) => editor.text === text), "all have the text of the store");
      world.gateway.clock.advance(3000);
      await world.gateway.runJobs();
      assert.equal(await world.text(id), text, "settling changes nothing");
      for (const editor of editors) editor.close();
    }),
    { numRuns: 60 },
  );
  await room[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

async function take(world: DocumentWorld, id: string, editors: readonly Editor[], step: Step): Promise<void> {
  const editor = "who" in step ? editors[step.who] : undefined;
  // Editors never part the halves of a character.
  const place = (text: string, at: number): number => {
    const wanted = Math.min(at, text.length);
    return (text.charCodeAt(wanted) & 0xfc00) === 0xdc00 ? wanted - 1 : wanted;
  };
  if (step.kind === "insert") editor?.insert(place(editor.text, step.at), step.text);
  else if (step.kind === "remove") {
    const text = editor?.text ?? "";
    const from = place(text, step.at);
    const to = place(text, from + step.length);
    if (to > from) editor?.remove(from, to - from);
  } else if (step.kind === "rest") {
    const edits = [{ op: "append", text: step.text }];
    const patch = { baseRevision: 1, onStale: "rebase", edits };
    const answer = await world.as("owner").patch(`${PATH}/${id}/content`, patch);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
  } else if (step.kind === "put") {
    const { body } = await world.as("owner").get(`${PATH}/${id}/content`);
    const text = body.text.slice(0, place(body.text, step.at)) + step.text + body.text.slice(place(body.text, step.at));
    const put = await world.as("owner").put(`${PATH}/${id}/content`, { text, revision: body.revision });
    assert.ok(put.status === 200 || put.status === 412, JSON.stringify(put.body));
  } else if (step.kind === "offline") await editor?.offline();
  else if (step.kind === "online") await editor?.online();
  else await pause(step.ms);
}
