// Rows asked for by their ids: SQLite reads those, however few a tenant seems to have.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { DocumentStore } from "@/modules/document/store.ts";
import { FileStore } from "@/modules/file/store.ts";
import { MessageStore } from "@/modules/message/store.ts";
import { NotificationStore } from "@/modules/notification/store.ts";
import { RoomStore } from "@/modules/room/store.ts";
import { TaskStore } from "@/modules/task/store.ts";
import { openGateway } from "../harness.ts";
import { asked, readsNoTenant } from "./asked.ts";

const IDS = Array.from({ length: 20 }, (_, n) => `id_${n}`);

Deno.test("a list of ids is not looked for among all rows of the tenant", async () => {
  await using gateway = await openGateway();
  const { store } = gateway.app;
  const questions: Record<string, () => Promise<unknown>> = {
    task: () => new TaskStore(store.db).live("default", { ids: IDS }),
    document: () => new DocumentStore(store.db).live("default", { ids: IDS }),
    file: async () => {
      await new FileStore(store.db).many("default", IDS);
      await store.write(async ({ db }) => void await new FileStore(db).markLinked("default", IDS));
      await store.write(async ({ db }) => void await new FileStore(db).loose("default", IDS));
    },
    notification: () => store.write(({ db }) => new NotificationStore(db).remove("default", IDS)),
    room: async () => {
      await new RoomStore(store.db).seenAll({ tenantId: "default", principalId: "a", ownerId: "" }, IDS);
      await store.write(({ db }) => new MessageStore(db).touchRooms("default", IDS, "2026-01-01T00:00:00.000Z"));
    },
  };
  for (const [table, question] of Object.entries(questions)) {
    const named = (await asked(question)).filter(({ sql }) => sql.includes(`"${table}"`));
    assert.ok(named.length > 0, table);
    for (const statement of named) await readsNoTenant(gateway, statement, table);
  }
});

Deno.test("what is pinned in a room is not looked for among all its messages", async () => {
  await using gateway = await openGateway();
  const statements = await asked(() => new MessageStore(gateway.app.store.db).pinned("default", "room_a", 0, 100));
  const plan = await gateway.app.store.db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${statements[0]?.sql}`, [...statements[0]?.parameters ?? []]),
  );
  assert.match(plan.rows[0]?.detail ?? "", /message_pinned/);
});
