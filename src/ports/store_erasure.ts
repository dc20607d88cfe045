// What becomes of the tables of the store itself when a person is erased.
import { chargedTo } from "@/core/actor.ts";
import type { PrincipalColumn, PrincipalErasure } from "@/core/erasure.ts";
import { principalStream } from "@/core/event/event.ts";
import type { AnyTransaction } from "./store.ts";

const CHARGED: PrincipalColumn = {
  column: "charged_to",
  text: (principalId, { tenant_id }) => chargedTo({ tenantId: String(tenant_id), principalId, ownerId: null }),
};

export const storeErasure: PrincipalErasure = {
  event: {
    key: ["tenant_id", "stream", "seq"],
    deletes: [{ column: "stream", text: principalStream }],
    json: ["json", "effect"],
  },
  stream: {
    key: ["tenant_id", "name"],
    keeps: { name: "removed with the principal; other streams that have the id in their names exist only as locks" },
  },
  job: {
    key: ["id"],
    reads: ["tenant_id"],
    renames: ["key", CHARGED],
    json: ["payload"],
    keeps: { last_error: "why the last attempt failed, without what was worked on; the row is deleted with the job" },
  },
  idempotency: {
    key: ["tenant_id", "principal_id", "method", "path", "key"],
    deletes: ["principal_id"],
    json: ["body"],
    keeps: {
      path: "may have the id of the person in calls of others; deleted after a day",
      headers: "as the path",
      fingerprint: "a digest",
      key: "chosen at random by clients",
    },
  },
  written: { key: ["day", "tenant_id", "owner_id"], renames: ["owner_id"] },
  migration: { key: ["name"], keeps: { name: "of a module" } },
};

/**
 * Removes the stream of the person, with the events that are left in it: never one without the other, since a stream that begins again
 * would number events as those that are left.
 */
export async function removeOwnStream(tx: AnyTransaction, tenantId: string, principalId: string): Promise<void> {
  const stream = principalStream(principalId);
  await tx.lock(tenantId, stream);
  await tx.db.deleteFrom("event").where("tenant_id", "=", tenantId).where("stream", "=", stream).execute();
  await tx.db.deleteFrom("stream").where("tenant_id", "=", tenantId).where("name", "=", stream).execute();
}
