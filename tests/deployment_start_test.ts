// What a start refuses, by the name of the variable that has to be mended.
import assert from "node:assert/strict";
import { openGateway } from "./harness.ts";

Deno.test("a start with a data folder that cannot be written is refused, one that is still to be made is not", async () => {
  const file = await Deno.makeTempFile();
  try {
    await assert.rejects(
      openGateway({ SVC_DATA_DIR: `${file}/data` }),
      /^Error: SVC_DATA_DIR names no folder that this gateway can write$/,
    );
    await using _gateway = await openGateway({ SVC_DATA_DIR: `${file}.missing/data` });
    await assert.rejects(Deno.stat(`${file}.missing`), Deno.errors.NotFound);
  } finally {
    await Deno.remove(file);
  }
});
