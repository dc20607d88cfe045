// What the dispatcher of webhooks leaves behind when its node stops.
import assert from "node:assert/strict";
import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from "kysely";
import type { StoredEvent } from "@/core/event/event.ts";
import { WebhookDispatcher } from "@/modules/webhook/delivery/dispatcher.ts";
import { bindPrepared } from "@/ports/sql/prepared.ts";
import { until } from "../../wait.ts";

type Look = { stream: string; end: () => void };

Deno.test("a dispatcher that stops waits for all looks at commits, not only for the last one", async () => {
  const looks: Look[] = [];
  const db = new Kysely({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  });
  bindPrepared(db, {
    dialect: "sqlite",
    async run(_sql, parameters) {
      const { promise, resolve } = Promise.withResolvers<void>();
      looks.push({ stream: String(parameters.at(1)), end: resolve });
      await promise;
      return { rows: [], changed: 0 };
    },
  });
  // No webhook is found, so nothing else is used.
  const store = { dialect: "sqlite", db, write: () => Promise.resolve() };
  const deps = { store, clock: { now: () => 0 } } as unknown as ConstructorParameters<typeof WebhookDispatcher>[0];
  const dispatcher = new WebhookDispatcher(deps);
  dispatcher.start();
  const commit = async (stream: string): Promise<Look> => {
    dispatcher.onCommit([{ tenantId: "default", stream, type: "message.created" } as StoredEvent]);
    const find = () => looks.find((look) => look.stream.includes(stream));
    await until(() => find() !== undefined);
    return find() ?? assert.fail();
  };
  const [first, second] = [await commit("room:one"), await commit("room:two")];
  const ends: string[] = [];
  const stopped = dispatcher.stop().then(() => ends.push("dispatcher"));
  second.end();
  // A stop that waits for nothing more has ended by then.
  await new Promise((done) => setTimeout(done));
  ends.push("first look");
  first.end();
  await stopped;
  assert.deepEqual(ends, ["first look", "dispatcher"]);
});
