// Documents of a database that was brought back from a copy: what editors still have of the time since is not taken for what
// is written after it.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { backUp, restore } from "@/adapters/backup.ts";
import { openGateway } from "../harness.ts";
import { until } from "../wait.ts";
import { aWhile, EditorRoom } from "./document_editor.ts";
import { PATH } from "./document_world.ts";
import { ok, people, roomOf } from "./team.ts";

Deno.test("an editor with a copy from before a restore is told, and gets what was written since", async () => {
  const folder = await Deno.makeTempDir({ prefix: "restore-test-" });
  const url = `sqlite:${folder}/gateway.db`;
  const environment = { SVC_DATABASE_URL: url, SVC_DATA_DIR: folder };
  const append = (text: string) => ({ baseRevision: 1, edits: [{ op: "append", text }] });
  const doc = new Y.Doc();
  let id = "";
  {
    await using gateway = await openGateway(environment);
    const { alice } = await people(gateway, "alice");
    const roomId = await roomOf(alice, []);
    id = ok(await alice.post(PATH, { roomId, title: "Plan", text: "one" })).id;
    await backUp(url, `${folder}/copy.db`);
    ok(await alice.patch(`${PATH}/${id}/content`, append(" two")));
    await using room = new EditorRoom(gateway);
    assert.equal((await room.join(id, alice.token, doc)).text, "one two");
  }
  await restore(url, `${folder}/copy.db`, { now: () => Date.parse("2026-03-01T13:00:00Z") });
  {
    await using gateway = await openGateway(environment);
    const { alice } = await people(gateway, "alice");
    ok(await alice.patch(`${PATH}/${id}/content`, append(" TWO")));
    await using room = new EditorRoom(gateway);
    const editor = room.open(id, alice.token, doc);
    await until(() => editor.refused.length > 0, "told");
    await aWhile();
    assert.equal(editor.refused[0]?.code, "conflict");
    assert.ok(editor.text.includes(" TWO"), editor.text);
    assert.equal(editor.isSaved, false);
  }
  await Deno.remove(folder, { recursive: true });
});
