// Groups in archives of a tenant: each with its members, imported where there is none of its name.
import { z } from "@zod/zod";
import {
  type ArchiveSection,
  type ExportContext,
  handleRecord,
  type ImportContext,
  type ImportedPart,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { listOf } from "@/core/archive/fields.ts";
import { candidateIds } from "@/core/archive/ids.ts";
import { nextSlice } from "@/core/caller.ts";
import { paginate } from "@/core/page.ts";
import { TimeInput } from "@/core/time/time_input.ts";
import { findTakenHandles, freeHandle, Handle, PrincipalId } from "@/modules/identity/mod.ts";
import { loadLocalIds } from "@/ports/sql/global_ids.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import {
  GROUP_MEMBERS_MAX,
  GroupCreate,
  GroupId,
  GROUPS_LOCK,
  GROUPS_MAX,
  GROUPS_OF_PERSON_MAX,
  nameKeyOf,
} from "./schema.ts";
import { type CountedGroup, GroupStore, type GroupTables } from "./store.ts";

const BATCH = 100;

const GroupRecord = z.object({
  id: GroupId,
  name: GroupCreate.shape.name,
  handle: Handle.nullable(),
  description: GroupCreate.shape.description,
  externalId: z.string().min(1).max(200).nullable(),
  memberIds: listOf(PrincipalId),
  createdAt: TimeInput,
});
type GroupRecord = z.output<typeof GroupRecord>;

type Tx = AnyTransaction;

export function groupArchive(store: Store<GroupTables>): ArchiveSection<Tx> {
  return {
    description: {
      exported: "in the export of a tenant, groups of people (`group`) with their members",
      imported: "A group whose name another one has is not imported.",
    },
    counts: { groups: "Groups of people" },
    skipCodes: { group_exists: "each_run", group_handle_taken: "once", too_many_groups: "each_run" },
    exportPersonal: (context) => exportGroups(new GroupStore(store.db), context),
    createImporter: (context) => groupImporter(context),
  };
}

async function* exportGroups(groups: GroupStore, context: ExportContext): AsyncGenerator<unknown[]> {
  const { tenantId } = context;
  const read = (last?: CountedGroup) => groups.list(tenantId, { memberIds: [] }, last?.name_key ?? "", BATCH);
  for await (const rows of paginate(BATCH, read)) {
    for (const { id, name, handle, description, external_id: externalId, created_at: createdAt } of rows) {
      const memberIds = await groups.memberIds(tenantId, id);
      yield await context.principalRecords(memberIds);
      context.recordExported([partOf(id)]);
      context.count("groups", 1);
      yield [{ type: "group", id, name, handle, description, externalId, memberIds, createdAt }];
    }
  }
}

function groupImporter(context: ImportContext<Tx>): SectionImporter {
  const group = handleRecord(GroupRecord, async (record, { where }) => {
    await context.write((tx) => importGroup(tx, context, record, where));
    // Other readers and writers run between groups.
    await nextSlice();
  });
  return { records: { group }, flush: () => Promise.resolve() };
}

async function importGroup(
  tx: Tx,
  context: ImportContext<Tx>,
  { id: sourceId, name, handle: wanted, description, externalId, memberIds, createdAt }: GroupRecord,
  where: string,
): Promise<void> {
  const { tenantId, report, now } = context;
  const ref = context.refOf("grp", sourceId);
  const history = context.history(tx);
  const [isNew] = await history.filterNew([ref], (one) => candidateIds(one).map(partOf));
  if (isNew === undefined) return;
  await tx.lock(tenantId, GROUPS_LOCK);
  const groups = new GroupStore(tx.db);
  const id = (await loadLocalIds(tx.db, "user_group", tenantId, [ref])).allocate(ref);
  if (id === undefined || await groups.hasName(tenantId, nameKeyOf(name), id)) {
    return report.skip("group_exists", where);
  }
  if (await groups.count(tenantId) >= GROUPS_MAX) return report.skip("too_many_groups", where);
  const people = await importedPeople(tx, context, memberIds, where);
  const isTaken = wanted !== null && (await findTakenHandles(tx, tenantId, [wanted])).has(wanted);
  if (isTaken) report.skip("group_handle_taken", where);
  await groups.add({
    tenant_id: tenantId,
    id,
    handle: isTaken ? await freeHandle(tx, { tenant_id: tenantId, id }, name) : wanted,
    name,
    name_key: nameKeyOf(name),
    description,
    external_id: externalId,
    version: 1,
    created_at: createdAt,
    updated_at: now,
  });
  const rows = people.map((one) => ({ tenant_id: tenantId, group_id: id, principal_id: one, added_at: now }));
  if (rows.length > 0) await tx.insertMany("user_group_member", rows);
  await history.record([partOf(id)]);
  report.count("groups", 1);
}

/** Those of the members who may be in one more group; who is unknown gets a placeholder. */
async function importedPeople(
  tx: Tx,
  context: ImportContext<Tx>,
  memberIds: readonly string[],
  where: string,
): Promise<string[]> {
  const { tenantId, report } = context;
  const ids = [...new Set(memberIds)].slice(0, GROUP_MEMBERS_MAX);
  if (ids.length === 0) return [];
  await context.createPlaceholders(tx, ids);
  const groups = new GroupStore(tx.db);
  const people = await groups.filterPeople(tenantId, ids);
  const full = new Set(await groups.membersOfMany(tenantId, ids, GROUPS_OF_PERSON_MAX));
  if (full.size > 0) report.skip("too_many_groups", where, full.size);
  return ids.filter((id) => people.has(id) && !full.has(id));
}

function partOf(id: string): ImportedPart {
  return { container: "", name: `group ${id}` };
}
