// Short texts of updates are read without the engine's decoder, which is slow to call.
import assert from "node:assert/strict";
import * as Y from "yjs";
import { installShortTexts } from "@/modules/document/content/short_texts.ts";

installShortTexts();

Deno.test("all texts of an update are read as they were written, and an update that breaks off is refused", () => {
  const lengths = [0, 1, 62, 63, 64, 65, 127, 128, 5000];
  const texts = [...lengths.map((length) => "x".repeat(length)), "é", "👩‍👩‍👧", "a\u0000", `${"x".repeat(61)}é`];
  const written = new Y.Doc();
  for (const [at, text] of texts.entries()) {
    written.getMap("map").set(text, at);
    written.getText("text").insert(0, `${text}.`);
    written.getText("text").format(0, 1, { [`${text}!`]: text });
  }
  const update = Y.encodeStateAsUpdate(written);
  const read = new Y.Doc();
  Y.applyUpdate(read, update);
  assert.deepEqual(read.getMap("map").toJSON(), written.getMap("map").toJSON());
  assert.deepEqual(read.getText("text").toDelta(), written.getText("text").toDelta());
  for (let end = 0; end < update.length; end += 7) assert.throws(() => Y.decodeUpdate(update.subarray(0, end)));
});

Deno.test("short texts of an update are read without the engine's decoder", () => {
  const written = new Y.Doc();
  for (let at = 0; at < 100; at++) written.getText("text").insert(0, "ab", { bold: `${at}` });
  const update = Y.encodeStateAsUpdate(written);
  const { decode } = TextDecoder.prototype;
  let decoded = 0;
  TextDecoder.prototype.decode = function (...input) {
    decoded++;
    return decode.apply(this, input);
  };
  try {
    Y.applyUpdate(new Y.Doc(), update);
  } finally {
    TextDecoder.prototype.decode = decode;
  }
  // The name of the type, with each item that has no neighbor.
  assert.ok(decoded < 10, `${decoded} texts`);
});
