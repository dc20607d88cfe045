// Queries for lists of ids use the index of ids on SQLite, however few rows a tenant seems to have.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { DocumentStore } from "@/modules/document/store.ts";
import { FileStore } from "@/modules/file/store.ts";
import { MessageStore } from "@/modules/message/store.ts";
import { NotificationStore } from "@/modules/notification/store.ts";
import { RoomStore } from "@/modules/room/store.ts";
import { TaskStore } from "@/modules/task/store.ts";
import { openGateway } from "../harness.ts";
import { assertNoTenantScan, recordQueries } from "./query_log.ts";

const IDS = Array.from({ length: 20 }, (_, n) => `id_${n}`);

Deno.test("a query for a list of ids does not read all rows of the tenant", async () => {
  await using gateway = await openGateway();
  const { store } = gateway.app;
  const questions: Record<string, () => Promise<unknown>> = {
    task: () => new TaskStore(store.db).findUndeleted("default", { ids: IDS }),
    document: () => new DocumentStore(store.db).findUndeleted("default", { ids: IDS }),
    file: async () => {
      await new FileStore(store.db).findMany("default", IDS);
      await store.write(async ({ db }) => void await new FileStore(db).markLinked("default", IDS));
      await store.write(async ({ db }) => void await new FileStore(db).lockUnreferenced("default", IDS));
    },
    notification: () => store.write(({ db }) => new NotificationStore(db).remove("default", IDS)),
    room: async () => {
      await new RoomStore(store.db).findManyForViewer({ tenantId: "default", principalId: "a", ownerId: "" }, IDS);
      await store.write(({ db }) => new MessageStore(db).touchRooms("default", IDS, "2026-01-01T00:00:00.000Z"));
    },
  };
  for (const [table, question] of Object.entries(questions)) {
    const named = (await recordQueries(question)).filter(({ sql }) => sql.includes(`"${table}"`));
    assert.ok(named.length > 0, table);
    for (const statement of named) await assertNoTenantScan(gateway, statement, table);
  }
});

Deno.test("a query for pins does not read all messages of the room", async () => {
  await using gateway = await openGateway();
  const statements = await recordQueries(() =>
    new MessageStore(gateway.app.store.db).pinned("default", "room_a", 0, 100)
  );
  const plan = await gateway.app.store.db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${statements[0]?.sql}`, [...statements[0]?.parameters ?? []]),
  );
  assert.match(plan.rows[0]?.detail ?? "", /message_pinned/);
});
