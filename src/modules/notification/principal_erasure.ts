// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  notification: {
    key: ["id"],
    deletes: ["principal_id"],
    renames: ["actor_id"],
    json: ["data_json"],
    keeps: {
      title: "of a task, an event or a document; deleted with old notifications",
      source: "a resource",
      resource_id: "a resource",
    },
  },
};
