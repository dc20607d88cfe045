// A program to be killed: writes as fast as it can and prints the id of each note whose write was acknowledged.
import { openPostgresStore } from "@/adapters/store/postgres/store.ts";
import { openSqliteStore } from "@/adapters/store/sqlite/store.ts";
import { systemClock } from "@/core/time/clock.ts";
import { newId } from "@/core/id.ts";
import type { Notes } from "./store_backends.ts";
import { eventDraft, noteRow } from "./store_suite.ts";

const [place = ""] = Deno.args;
const options = { clock: systemClock };
const store = place.startsWith("postgres:")
  ? openPostgresStore<Notes>(place, options)
  : openSqliteStore<Notes>(place, options);

async function writeUntilKilled(stream: string): Promise<never> {
  while (true) {
    const id = newId("note");
    await store.write(async (tx) => {
      await tx.insertMany("note", [noteRow(id)]);
      await tx.emit(eventDraft(stream, { id }));
    });
    Deno.stdout.writeSync(new TextEncoder().encode(`${id}\n`));
  }
}

await Promise.all(Array.from({ length: 24 }, (_, n) => writeUntilKilled(`room:${n % 3}`)));
