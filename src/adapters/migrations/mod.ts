// Every migration in order, and the one function that applies those a database lacks.
import { type Kysely, sql } from "kysely";
import { logOf } from "@/core/log.ts";
import type { Dialect } from "@/ports/store.ts";
import type { CoreTables } from "../core_tables.ts";
import { core } from "./0001_core.ts";
import { identity } from "./0002_identity.ts";
import { room } from "./0003_room.ts";
import { message } from "./0004_message.ts";
import { messageExtras } from "./0005_message_extras.ts";
import { search } from "./0006_search.ts";
import { file } from "./0007_file.ts";
import { task } from "./0008_task.ts";
import { calendar } from "./0009_calendar.ts";
import { document } from "./0010_document.ts";
import { meeting } from "./0011_meeting.ts";
import { transfer } from "./0012_transfer.ts";
import { eventAbout } from "./0013_event_about.ts";
import { eventRows } from "./0014_event_rows.ts";
import { roomUndo } from "./0015_room_undo.ts";
import { foldCase } from "./0016_fold_case.ts";
import { session } from "./0017_session.ts";
import { exportFiles } from "./0018_export_files.ts";
import { roomMinute } from "./0019_room_minute.ts";
import { exportRevisions } from "./0020_export_revisions.ts";
import { transferBrought } from "./0021_transfer_brought.ts";
import { goneUntold } from "./0022_gone_untold.ts";
import { memberTold } from "./0023_member_told.ts";
import { taskViews } from "./0024_task_views.ts";
import { meetingHand } from "./0025_meeting_hand.ts";
import { agenda } from "./0026_agenda.ts";
import { streamRights } from "./0027_stream_rights.ts";
import { roomRights } from "./0028_room_rights.ts";
import { listOrders } from "./0029_list_orders.ts";
import type { Migration } from "./migration.ts";

/** Append only. */
export const migrations: readonly Migration[] = [
  core,
  identity,
  room,
  message,
  messageExtras,
  search,
  file,
  task,
  calendar,
  document,
  meeting,
  transfer,
  eventAbout,
  eventRows,
  roomUndo,
  foldCase,
  session,
  exportFiles,
  roomMinute,
  exportRevisions,
  transferBrought,
  goneUntold,
  memberTold,
  taskViews,
  meetingHand,
  agenda,
  streamRights,
  roomRights,
  listOrders,
];

/** Any number that no other user of the database locks. */
const LOCK = 5_170_321;

const log = logOf("store");

/** Applies what is missing. Run inside one transaction, so a step that fails leaves nothing behind. */
export async function applyMigrations(
  db: Kysely<CoreTables>,
  dialect: Dialect,
  steps: readonly Migration[],
  at: string,
): Promise<void> {
  if (dialect === "postgres") {
    // Another node may be at it, for as long as that takes; tables that are in use are another matter.
    await sql`set local statement_timeout = 0`.execute(db);
    await sql`set local lock_timeout = 0`.execute(db);
    await sql`select pg_advisory_xact_lock(${LOCK})`.execute(db);
    await sql`set local lock_timeout to default`.execute(db);
  }
  await db.schema.createTable("migration").ifNotExists()
    .addColumn("name", "text", (column) => column.primaryKey())
    .addColumn("at", "text", (column) => column.notNull())
    .execute();
  const rows = await db.selectFrom("migration").select("name").execute();
  const applied = new Set(rows.map((row) => row.name));
  const unknown = [...applied].find((name) => !steps.some((step) => step.name === name));
  if (unknown !== undefined) {
    throw new Error(`The database is newer than this program: it has migration ${unknown}, which is not known here`);
  }
  const missing = steps.filter((step) => !applied.has(step.name));
  const startedAt = performance.now();
  for (const step of missing) {
    // Until all are done nobody is answered, which may take a while where there is much to change.
    if (applied.size > 0) log.info("bringing the database up to date", { migration: step.name });
    // A step sees no table types: it is older than the types of today.
    await step.up(db as unknown as Kysely<unknown>, dialect);
    await db.insertInto("migration").values({ name: step.name, at }).execute();
  }
  if (applied.size > 0 && missing.length > 0) {
    log.info("the database is up to date", { ms: Math.round(performance.now() - startedAt) });
  }
}
