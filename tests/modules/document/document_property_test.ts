// Random edits of three editors and of REST, online and offline, converge to one text, which is the stored one.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { allEnded, pause, until } from "../../wait.ts";
import { type Editor, EditorServer } from "./document_editor.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { slowTest } from "../../tier.ts";

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

slowTest("random edits from editors and REST converge to the stored text", async () => {
  const fixture = await DocumentFixture.open();
  const room = new EditorServer(fixture.gateway);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const { id } = await fixture.create("start\n");
      const editors = await allEnded(
        ["owner", "moderator", "member"].map((name) => room.openSyncedEditor(id, fixture.as(name).token)),
      );
      for (const one of steps) await applyStep(fixture, id, editors, one);
      await allEnded(editors.map((editor) => editor.reconnect()));
      await allEnded(editors.map((editor) => editor.waitUntilSaved()));
      const text = await fixture.readText(id);
      await until(() => editors.every((editor) => editor.text === text), "all have the text of the store");
      fixture.gateway.clock.advance(3000);
      await fixture.gateway.runJobs();
      assert.equal(await fixture.readText(id), text, "settling changes nothing");
      for (const editor of editors) editor.close();
    }),
    { numRuns: 60 },
  );
  await room[Symbol.asyncDispose]();
  await fixture[Symbol.asyncDispose]();
});

async function applyStep(fixture: DocumentFixture, id: string, editors: readonly Editor[], step: Step): Promise<void> {
  const editor = "who" in step ? editors[step.who] : undefined;
  // Editors never split surrogate pairs.
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
    const response = await fixture.as("owner").patch(`${PATH}/${id}/content`, patch);
    assert.equal(response.status, 200, JSON.stringify(response.body));
  } else if (step.kind === "put") {
    const { body } = await fixture.as("owner").get(`${PATH}/${id}/content`);
    const text = body.text.slice(0, place(body.text, step.at)) + step.text + body.text.slice(place(body.text, step.at));
    const put = await fixture.as("owner").put(`${PATH}/${id}/content`, { text, revision: body.revision });
    assert.ok(put.status === 200 || put.status === 412, JSON.stringify(put.body));
  } else if (step.kind === "offline") await editor?.disconnect();
  else if (step.kind === "online") await editor?.reconnect();
  else await pause(step.ms);
}
