// Who follows which threads, in archives of a tenant; who takes part in them is known from their messages.
import { z } from "@zod/zod";
import { type ArchiveSection, batchImporter, type ImportContext, type LocatedRecord } from "@/core/archive/section.ts";
import { paginate } from "@/core/page.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { MessageId } from "../schema.ts";
import type { MessageTables, ThreadParticipantRow } from "../store.ts";
import { ThreadStore } from "./store.ts";

const BATCH = 100;

const FollowingRecord = z.object({
  principalId: PrincipalId,
  threadId: MessageId,
  following: z.boolean(),
  activeAt: TimeInput,
});
type Tx = Transaction<MessageTables>;

export function threadArchive(store: Store<MessageTables>): ArchiveSection<Tx> {
  const threads = new ThreadStore(store.db);
  return {
    description: {
      exported: "in the export of a tenant, who follows or has unfollowed which thread (`thread_following`)",
      imported: "Principals that have decided here whether to follow a thread keep that.",
    },
    counts: { followedThreads: "Threads that people follow or have unfollowed" },
    skipCodes: { followed_thread_missing: "each_run" },
    async *exportPersonal(context) {
      const read = (last?: ThreadParticipantRow) => threads.allDecided(context.tenantId, undefined, last, BATCH);
      for await (const rows of paginate(BATCH, read)) {
        yield await context.principalRecords(rows.map((row) => row.principal_id));
        context.count("followedThreads", rows.length);
        yield rows.map((row) => ({ ...recordOf(row), principalId: row.principal_id }));
      }
    },
    async *exportOwn(tenantId, principalId) {
      const read = (last?: ThreadParticipantRow) => threads.allDecided(tenantId, principalId, last, BATCH);
      for await (const rows of paginate(BATCH, read)) yield rows.map(recordOf);
    },
    createImporter: (context) =>
      batchImporter(context, {
        type: "thread_following",
        schema: FollowingRecord,
        read: (record, { where }) => ({ where, record }),
        importBatch: (tx, batch) => importFollowing(tx, context, batch),
      }),
  };
}

function recordOf({ message_id, following, active_at }: ThreadParticipantRow) {
  return { type: "thread_following", threadId: message_id, following: following === 1, activeAt: active_at };
}

async function importFollowing(
  tx: Tx,
  context: ImportContext<Tx>,
  batch: readonly LocatedRecord<typeof FollowingRecord>[],
): Promise<void> {
  const { tenantId, report, now } = context;
  const located = await context.locateMessages(tx, batch.map(({ record }) => record.threadId));
  const known = batch.flatMap(({ where, record }) => {
    const root = located.get(record.threadId);
    if (root?.roomId !== undefined && root.threadId === null) return [{ ...record, rootId: root.id }];
    report.skip("followed_thread_missing", where);
    return [];
  });
  await context.createPlaceholders(tx, known.map(({ principalId }) => principalId));
  const threads = new ThreadStore(tx.db);
  for (const { principalId, rootId, following, activeAt } of known) {
    const isNew = await threads.setFollowing({
      tenant_id: tenantId,
      message_id: rootId,
      principal_id: principalId,
      active_at: activeAt < now ? activeAt : now,
      following: following ? 1 : 0,
    }, { isFirst: true });
    if (isNew) report.count("followedThreads", 1);
  }
}
