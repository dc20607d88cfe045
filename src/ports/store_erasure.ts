// What becomes of the tables of the store itself when a person is erased.
import { chargedTo } from "@/core/actor.ts";
import type { PrincipalColumn, PrincipalErasure } from "@/core/erasure.ts";
import { principalStream } from "@/core/event.ts";

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
  // Other streams that have the id in their names exist only as locks.
  stream: { key: ["tenant_id", "name"], deletes: [{ column: "name", text: principalStream }] },
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
