// Saved messages in archives of a tenant: each with who saved it, imported where there is its message.
import { z } from "@zod/zod";
import {
  type ArchiveSection,
  batchImporter,
  type ExportContext,
  type ImportContext,
  type ImportedPart,
  type LocatedRecord,
} from "@/core/archive/section.ts";
import { newId } from "@/core/id.ts";
import { paginate } from "@/core/page.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import { MessageId } from "@/modules/message/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { SAVED_MAX, SavedMessage } from "./schema.ts";
import { presentSaved, reminderJob, type Tables } from "./service.ts";
import { type SavedMessageRow, SavedMessageStore } from "./store.ts";

const BATCH = 100;

const SavedRecord = z.object({
  principalId: PrincipalId,
  messageId: MessageId,
  state: SavedMessage.shape.state,
  remindAt: TimeInput.nullable(),
  savedAt: TimeInput,
});
type Pending = LocatedRecord<typeof SavedRecord>;
type Tx = Transaction<Tables>;

export function savedMessageArchive(store: Store<Tables>): ArchiveSection<Tx> {
  return {
    description: {
      exported: "in the export of a tenant, messages that people saved (`saved_message`)",
      imported: "A saved message whose message is not there is not imported.",
    },
    counts: { savedMessages: "Saved messages" },
    skipCodes: { saved_message_missing: "each_run", too_many_saved_messages: "each_run" },
    exportPersonal: (context) => exportSaved(new SavedMessageStore(store.db), context),
    exportOwn: (tenantId, principalId) => exportOwn(new SavedMessageStore(store.db), { tenantId, principalId }),
    createImporter: (context) =>
      batchImporter(context, {
        type: "saved_message",
        schema: SavedRecord,
        read: (record, { where }) => ({ where, record }),
        importBatch: (tx, batch) => importSaved(tx, context, batch),
      }),
  };
}

async function* exportSaved(saved: SavedMessageStore, context: ExportContext): AsyncGenerator<unknown[]> {
  const read = (last?: SavedMessageRow) => saved.listAll(context.tenantId, last?.id ?? "", BATCH);
  for await (const rows of paginate(BATCH, read)) {
    yield await context.principalRecords(rows.map((row) => row.principal_id));
    context.recordExported(rows.map((row) => partOf(row.principal_id, row.message_id)));
    context.count("savedMessages", rows.length);
    yield rows.map((row) => ({ type: "saved_message", principalId: row.principal_id, ...presentSaved(row) }));
  }
}

/** Without the messages: they may be of others. */
async function* exportOwn(saved: SavedMessageStore, owner: { tenantId: string; principalId: string }) {
  const read = (last?: SavedMessageRow) => saved.list(owner, undefined, last?.id, BATCH);
  for await (const rows of paginate(BATCH, read)) {
    yield rows.map((row) => ({ type: "saved_message", ...presentSaved(row) }));
  }
}

async function importSaved(tx: Tx, context: ImportContext<Tx>, batch: readonly Pending[]): Promise<void> {
  const { tenantId, report, now } = context;
  const saved = new SavedMessageStore(tx.db);
  const located = await context.locateMessages(tx, batch.map(({ record }) => record.messageId));
  const known = batch.flatMap((one) => {
    const { id, roomId } = located.get(one.record.messageId) ?? {};
    if (id !== undefined && roomId !== undefined) return [{ ...one, id, roomId }];
    report.skip("saved_message_missing", one.where);
    return [];
  });
  const history = context.history(tx);
  const missing = await history.filterNew(known, ({ record, id }) => [partOf(record.principalId, id)]);
  await context.createPlaceholders(tx, missing.map(({ record }) => record.principalId));
  const principalIds = [...new Set(missing.map(({ record }) => record.principalId))];
  const saves = await saved.savesOf(tenantId, principalIds, missing.map(({ id }) => id));
  const existing = new Set(saves.map((row) => partOf(row.principal_id, row.message_id).name));
  const counts = await saved.counts(tenantId, principalIds);
  const rows: SavedMessageRow[] = [];
  for (const { where, record: { principalId, remindAt, state, savedAt }, id, roomId } of missing) {
    const { name } = partOf(principalId, id);
    if (existing.has(name)) continue;
    const count = counts.get(principalId) ?? 0;
    if (count >= SAVED_MAX) {
      report.skip("too_many_saved_messages", where);
      continue;
    }
    existing.add(name);
    counts.set(principalId, count + 1);
    rows.push({
      tenant_id: tenantId,
      id: newId("sav"),
      principal_id: principalId,
      message_id: id,
      room_id: roomId,
      state,
      remind_at: remindAt !== null && remindAt > now ? remindAt : null,
      saved_at: savedAt,
    });
  }
  if (rows.length === 0) return;
  await tx.insertMany("saved_message", rows);
  const jobs = rows.flatMap((row) => reminderJob(row) ?? []);
  if (jobs.length > 0) await tx.enqueue(...jobs);
  await history.record(rows.map((row) => partOf(row.principal_id, row.message_id)));
  report.count("savedMessages", rows.length);
}

function partOf(principalId: string, messageId: string): ImportedPart {
  return { container: "", name: `saved ${messageId} ${principalId}` };
}
