// The directory of a zip archive, which may have very many entries: read in few requests to the store, while others are served.
import assert from "node:assert/strict";
import { type ArchiveFault, ZipArchive } from "@/modules/transfer/mod.ts";
import { countTicks } from "../../wait.ts";
import { createZip } from "./transfer_zip.ts";

const ENTRIES = 20_000;
const names = Array.from({ length: ENTRIES }, (_, n) => `general/${n}.json`);
const bytes = createZip(Object.fromEntries(names.map((name) => [name, name])));

/** Opens the archive out of a store that counts what is asked of it. */
async function openArchive(entriesMax?: number): Promise<{ archive: ZipArchive; requests: () => number }> {
  let requests = 0;
  const blobs: Parameters<typeof ZipArchive.open>[0] = {
    get(_key, { start, end } = { start: 0, end: bytes.length }) {
      requests++;
      return Promise.resolve(new Blob([bytes.subarray(start, end)]).stream());
    },
  };
  return { archive: await ZipArchive.open(blobs, "archive", bytes.length, entriesMax), requests: () => requests };
}

Deno.test("a directory of very many entries is read in few requests", async () => {
  const { archive, requests } = await openArchive();
  assert.deepEqual(archive.names, names);
  assert.ok(requests() < 50, `${requests()}`);
  for (const name of [names[0], names[777], names[ENTRIES - 1]]) {
    assert.equal(new TextDecoder().decode(await archive.read(name ?? "")), name);
  }
  archive.close();
});

Deno.test("others are served while a long directory is read", async () => {
  using ticks = countTicks();
  const { archive } = await openArchive();
  archive.close();
  assert.ok(ticks.count > 2, `${ticks.count}`);
});

Deno.test("an archive with more entries than its reader takes is refused before they are read", async () => {
  await assert.rejects(openArchive(ENTRIES - 1), (error: ArchiveFault) => error.failure.code === "too_many_entries");
});
