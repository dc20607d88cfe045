// Rich documents in archives: their nodes, revisions and anchored comments, and archives that contain something else.
import assert from "node:assert/strict";
import { openGateway } from "../../harness.ts";
import { createCaller, createCallers, createRoom, ok } from "../fixtures.ts";
import {
  type Any,
  exportTenant,
  importArchive,
  importWhole,
  parseRecords,
  recordsOfType,
  skipCounts,
  toArchive,
} from "./transfer_fixture.ts";

const DOCUMENTS = "/v1/collaboration/documents";

Deno.test("a rich document is imported as it was exported, with its revisions and comments", async () => {
  await using gateway = await openGateway();
  const boss = await createCaller(gateway, "boss", { role: "owner" });
  const { ann } = await createCallers(gateway, "ann");
  const roomId = await createRoom(ann, []);
  const text = "# Foxes\n\nThe **quick** fox.\n";
  const { id } = ok(await ann.post(DOCUMENTS, { roomId, title: "Plan", kind: "rich", text }));
  ok(
    await ann.post(`${DOCUMENTS}/${id}/comments`, { text: "how quick?", anchor: { text: "fox", prefix: "quick " } }),
  );
  const edits = [{ op: "replace", find: "quick", with: "slow" }];
  ok(await ann.patch(`${DOCUMENTS}/${id}/content`, { baseRevision: 1, edits }));
  const archive = await exportTenant(gateway, boss);
  const [document] = recordsOfType(archive, "document");
  assert.deepEqual([document.kind, document.fragment, document.text], ["rich", "default", "Foxes\nThe slow fox."]);

  const twin = await gateway.as("boss", { role: "owner", tenant: "twin" });
  await importWhole(gateway, twin, "gateway", archive);
  const reader = await gateway.as("ann", { tenant: "twin" });
  const [copy] = ok(await reader.get(`${DOCUMENTS}?q=Plan`)).items;
  assert.equal(copy.kind, "rich");
  const path = `${DOCUMENTS}/${copy.id}`;
  assert.equal(ok(await reader.get(`${path}/content`)).text, "# Foxes\n\nThe **slow** fox.\n");
  const [comment] = ok(await reader.get(`${path}/comments`)).items;
  assert.deepEqual([comment.anchor.quote, comment.anchor.text], ["fox", "fox"]);
  ok(await reader.post(`${path}/revisions/1/restore`));
  assert.equal(ok(await reader.get(`${path}/content`)).text, text);

  const broken = (change: (records: Any[]) => void): string => {
    const records = parseRecords(archive);
    change(records);
    return toArchive(records);
  };
  const other = await gateway.as("boss", { role: "owner", tenant: "third" });
  const wrongShape = broken((records) => {
    for (const record of records) {
      if (record.type === "document") record.fragment = "elsewhere";
      if (record.type === "revision") record.nodes = '[{"type":1}]';
    }
  });
  const skipped = skipCounts(await importArchive(gateway, other, "gateway", wrongShape));
  assert.equal(skipped.document_corrupt, 1, JSON.stringify(skipped));
});
