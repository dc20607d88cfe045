// Documents of a database restored from a backup: lost edits in editors are not confused with edits written since.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { createBackup, restore } from "@/adapters/store/backup.ts";
import { openGateway } from "../../harness.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { until } from "../../wait.ts";
import { EditorServer, waitBriefly } from "./document_editor.ts";
import { PATH } from "./document_fixture.ts";
import { createCallers, createRoom, ok } from "../fixtures.ts";

Deno.test("an editor with lost edits of before a restore gets conflict, and the edits written since", async () => {
  await using folder = await createTemporaryFolder();
  const url = `sqlite:${folder.path}/gateway.db`;
  const environment = { SVC_DATABASE_URL: url, SVC_DATA_DIR: folder.path };
  const append = (text: string) => ({ baseRevision: 1, edits: [{ op: "append", text }] });
  const doc = new Y.Doc();
  let id = "";
  {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice");
    const roomId = await createRoom(alice, []);
    id = ok(await alice.post(PATH, { roomId, title: "Plan", text: "one" })).id;
    await createBackup(url, `${folder.path}/copy.db`);
    ok(await alice.patch(`${PATH}/${id}/content`, append(" two")));
    await using room = new EditorServer(gateway);
    assert.equal((await room.openSyncedEditor(id, alice.token, doc)).text, "one two");
  }
  await restore(url, `${folder.path}/copy.db`, { now: () => Date.parse("2026-03-01T13:00:00Z") });
  {
    await using gateway = await openGateway(environment);
    const { alice } = await createCallers(gateway, "alice");
    ok(await alice.patch(`${PATH}/${id}/content`, append(" TWO")));
    await using room = new EditorServer(gateway);
    const editor = room.openEditor(id, alice.token, doc);
    await until(() => editor.rejections.length > 0, "rejected");
    await waitBriefly();
    assert.equal(editor.rejections[0]?.code, "conflict");
    assert.ok(editor.text.includes(" TWO"), editor.text);
    assert.equal(editor.isSaved, false);
  }
});
