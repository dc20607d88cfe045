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

Deno.test("a start is refused at once with a database below a file, or one that another gateway has open", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const taken = { SVC_DATABASE_URL: `sqlite:${folder}/gateway.db`, SVC_DATA_DIR: folder };
    await using _first = await openGateway(taken);
    for (const path of [`${folder}/gateway.db`, `${folder}/gateway.db/below.db`]) {
      await assert.rejects(
        openGateway({ ...taken, SVC_DATABASE_URL: `sqlite:${path}` }),
        /^Error: SVC_DATABASE_URL names no database that this gateway can use$/,
        path,
      );
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
