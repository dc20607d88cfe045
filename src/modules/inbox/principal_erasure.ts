// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  inbox_delivery: {
    key: ["notification_id"],
    deletes: ["principal_id"],
    keeps: { notification_id: "a notification", delivery_id: "chosen at random" },
  },
};
