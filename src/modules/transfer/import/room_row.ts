// The row of a room that an import creates.
import { DELETED_NAME } from "@/core/erasure.ts";
import { PrincipalArchiveStore } from "@/modules/identity/mod.ts";
import { directRoomName, ROOM_NAME_MAX, type RoomRow, RoomStore, storedSlug } from "@/modules/room/mod.ts";
import { idsOfOtherTenants } from "@/ports/sql/global_ids.ts";
import type { Transaction } from "@/ports/store.ts";
import type { SourceRoom } from "../format/model.ts";
import type { ImportRow, TransferTables } from "../store.ts";
import type { ImportRun } from "./run.ts";

const TOPIC_MAX = 500;
const DESCRIPTION_MAX = 4000;

type Tx = Transaction<TransferTables>;
type Source = { row: ImportRow; draft: SourceRoom; directKey: string | null };

export async function newRoomRow(tx: Tx, run: ImportRun, { row, draft, directKey }: Source): Promise<RoomRow> {
  const { report, principals } = run;
  const { tenant_id: tenantId } = row;
  const { original, fallback } = draft.ref;
  const isOwnFree = original !== null && !(await idsOfOtherTenants(tx.db, "room", tenantId, [original])).has(original);
  const visibility = draft.kind === "direct" ? "private" : draft.visibility;
  const name = draft.name ?? await nameOf(tx, run, tenantId, draft.directOf);
  const isSlugTaken = visibility === "public" && draft.slug !== null &&
    await new RoomStore(tx.db).isSlugTaken(tenantId, draft.slug);
  if (isSlugTaken) report.skip("slug_taken", `${name}: ${draft.slug}`);
  const creatorId = draft.createdBy ?? row.requested_by;
  const erased = await principals.erasedAmong(tx, [creatorId], run.now);
  const at = draft.createdAt ?? run.now;
  const where = (what: string): string => `${what}: ${name}`;
  const id = isOwnFree ? original : fallback;
  return {
    tenant_id: tenantId,
    id,
    name: report.truncateName(name, ROOM_NAME_MAX, where("name")) || "unnamed",
    slug: isSlugTaken ? null : storedSlug({ id, visibility }, draft.slug),
    topic: draft.topic === null ? null : report.truncateName(draft.topic, TOPIC_MAX, where("topic")),
    description: draft.description === null
      ? null
      : report.truncate(draft.description, DESCRIPTION_MAX, where("description")),
    kind: draft.kind,
    visibility,
    history_visibility: draft.historyVisibility,
    state: draft.isArchived ? "archived" : "active",
    agent_policy_json: JSON.stringify(draft.agentPolicy),
    retention_days: draft.retentionDays,
    metadata_json: JSON.stringify(report.limitMetadata(draft.metadata, where("metadata"))),
    member_count: 0,
    direct_key: directKey,
    last_message_at: null,
    active_at: at,
    version: 1,
    created_by: erased?.isErased(creatorId, draft.createdAt) === true ? erased.pseudonymId : creatorId,
    created_at: at,
    updated_at: at,
    deleted_at: null,
    restore_state_json: null,
  };
}

/** The names of its principals, as they are here. */
async function nameOf(tx: Tx, { principals }: ImportRun, tenantId: string, all: readonly string[]): Promise<string> {
  const ids = [...new Set(all)];
  await principals.loadErased(tx, ids);
  const rows = await new PrincipalArchiveStore(tx.db).principals(tenantId, ids);
  const names = new Map(rows.map(({ id, display_name }) => [id, display_name]));
  return directRoomName(ids.map((id) => names.get(id) ?? (principals.isErased(id, null) ? DELETED_NAME : id)).sort());
}
