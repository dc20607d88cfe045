// Queries for lists of ids use the index of ids on SQLite, however few rows a tenant seems to have.
import assert from "node:assert/strict";
import { CompiledQuery } from "kysely";
import { DocumentStore } from "@/modules/document/store.ts";
import { FileStore } from "@/modules/file/store.ts";
import { MessageStore } from "@/modules/message/store.ts";
import { ReadStateStore } from "@/modules/message/read_state/store.ts";
import { NotificationStore } from "@/modules/notification/store.ts";
import { AudienceStore } from "@/modules/room/audience_store.ts";
import { OwnershipStore } from "@/modules/room/ownership_store.ts";
import { PeopleStore } from "@/modules/room/people_store.ts";
import { ReadReceiptStore } from "@/modules/room/read_receipt_store.ts";
import { RoomStore } from "@/modules/room/store.ts";
import { IndexProgressStore } from "@/modules/search/progress_store.ts";
import { SyncStore } from "@/modules/sync/store.ts";
import { TaskStore } from "@/modules/task/store.ts";
import { DeliveryStore } from "@/modules/webhook/delivery/store.ts";
import { setTableStatistics } from "@/ports/sql/sqlite_statistics.ts";
import { openGateway } from "../harness.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { assertNoTenantScan, recordQueries } from "./query_log.ts";

const IDS = Array.from({ length: 20 }, (_, n) => `id_${n}`);

Deno.test("a query for a list of ids does not read all rows of the tenant", async () => {
  await using gateway = await openGateway();
  const { store } = gateway.app;
  const questions: Record<string, () => Promise<unknown>> = {
    job: () => new IndexProgressStore(store.db, store.dialect).hasPendingJob("default", "search.long_text"),
    webhook_cursor: () => new DeliveryStore(store.db).followers("default", ["room:room_a", "room:room_b"]),
    task: () => new TaskStore(store.db).findUndeleted("default", { ids: IDS }),
    document: () => new DocumentStore(store.db).findUndeleted("default", { ids: IDS }),
    file: async () => {
      await new FileStore(store.db).findMany("default", IDS);
      await new FileStore(store.db).listInRoom("default", "room_a", 0, undefined, 50);
      await store.write(async ({ db }) => void await new FileStore(db).markLinked("default", IDS));
      await store.write(async ({ db }) => void await new FileStore(db).lockUnreferenced("default", IDS));
    },
    file_link: async () => {
      await new FileStore(store.db).rooms("default", "file_a");
      await new FileStore(store.db).ownersWithoutRoom("default", "file_a");
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

Deno.test("a query for members of rooms does not read all memberships or principals of the tenant", async () => {
  await using gateway = await openGateway();
  const { store } = gateway.app;
  const rooms = new RoomStore(store.db);
  const audience = new AudienceStore(store.db);
  const questions: readonly (() => Promise<unknown>)[] = [
    () => rooms.memberIds("default", "room_a"),
    () => rooms.agentMembers("default", "room_a", ["alice"]),
    () => rooms.membersByHandle("default", "room_a", ["alice"]),
    () => new PeopleStore(store.db).otherMembers("default", "alice", IDS),
    () => new ReadReceiptStore(store.db).sharedPositions("default", IDS.slice(0, 1)),
    () => new ReadReceiptStore(store.db).sharedPositions("default", IDS),
    () => new OwnershipStore(store.db).effectiveOwners("default", "room_a"),
    () => audience.seenByAll("default", "room_a", "alice"),
    () => audience.latestJoin("default", "room_a", "room_b"),
    () => new FileStore(store.db).shownBy("default", "file_a"),
    () => store.write(({ db }) => new RoomStore(db).purge("default", "room_a")),
    // No room, so nothing to return: only its plan matters.
    () => assert.rejects(store.write(({ db }) => new RoomStore(db).recountMembers("default", "room_a"))),
  ];
  for (const question of questions) {
    for (const statement of await recordQueries(question)) {
      for (const table of ["member", "principal", "reader", "room"]) {
        await assertNoTenantScan(gateway, statement, table);
      }
    }
  }
});

Deno.test("a query for the rooms of a member does not read all rooms of the tenant", async () => {
  await using gateway = await openGateway();
  const { store } = gateway.app;
  const viewer = { tenantId: "default", principalId: "alice", ownerId: "" };
  const reader = { ...viewer, isOwned: false, roomIds: undefined };
  const statements = await recordQueries(async () => {
    await new SyncStore(store.db).readSnapshot(viewer);
    await new ReadStateStore(store.db, store.dialect).memberRooms(reader);
    for (const sort of ["-lastMessageAt", "name"] as const) {
      await new RoomStore(store.db).list(reader, { withPublic: false, sort }, undefined, 100);
    }
  });
  assert.equal(statements.length, 6);
  for (const statement of statements) await assertNoTenantScan(gateway, statement, "room");
});

Deno.test("statistics of a migration apply to connections that were open before it", async () => {
  await using folder = await createTemporaryFolder();
  const database = `sqlite:${folder.path}/gateway.db`;
  await using gateway = await openGateway({ SVC_DATABASE_URL: database, SVC_DATA_DIR: folder.path });
  const { store } = gateway.app;
  // Each time another list, since an explanation that was prepared before stays as it was.
  const findSegments = (ids: readonly string[]) =>
    recordQueries(() =>
      store.db.selectFrom("meeting_segment").select("id").where("id", "in", ids).where("tenant_id", "=", "default")
        .execute()
    );
  for (const statement of await findSegments(IDS)) {
    await assert.rejects(
      assertNoTenantScan(gateway, statement, "meeting_segment"),
      /meeting_segment_\w+ \(tenant_id=\?\)/,
    );
  }
  await store.write(({ db }) =>
    setTableStatistics(db, {
      meeting_segment: {
        sqlite_autoindex_meeting_segment_1: "1000000 1",
        meeting_segment_order: "1000000 20000 20 1 1",
        meeting_segment_speaker: "1000000 20000 20 1",
      },
    })
  );
  const statements = await findSegments(IDS.slice(1));
  assert.equal(statements.length, 1);
  for (const statement of statements) await assertNoTenantScan(gateway, statement, "meeting_segment");
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
