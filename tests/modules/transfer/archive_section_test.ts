// Sections of archives: each type of record belongs to one of them.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import { handleRecord, type SectionImporter } from "@/core/archive/section.ts";
import { RefFactory } from "@/modules/transfer/format/model.ts";
import type { Importer } from "@/modules/transfer/import/importer.ts";
import { NativeReader } from "@/modules/transfer/format/native_reader.ts";

function sectionOf(...types: string[]): SectionImporter {
  const handler = handleRecord(z.unknown(), () => {});
  return { records: Object.fromEntries(types.map((type) => [type, handler])), flush: () => Promise.resolve() };
}

function readerOf(...sections: SectionImporter[]): NativeReader {
  return new NativeReader(
    { refs: new RefFactory("default", ""), createSections: () => sections } as unknown as Importer,
  );
}

Deno.test("two sections with one type of record, and one with a type of the archive itself, are refused", () => {
  readerOf(sectionOf("note", "card"), sectionOf("page"));
  assert.throws(() => readerOf(sectionOf("note"), sectionOf("page", "note")), {
    name: "TypeError",
    message: "Expected one section with records note, received two",
  });
  assert.throws(() => readerOf(sectionOf("message")), {
    name: "TypeError",
    message: "Expected one section with records message, received two",
  });
});
