// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

const DELETED = "deleted with the subscription of its principal";

export const erases: PrincipalErasure = {
  push_subscription: {
    key: ["id"],
    deletes: ["principal_id"],
    keeps: {
      name: DELETED,
      endpoint: DELETED,
      p256dh: DELETED,
      auth: DELETED,
      application_key: "the gateway's own",
      pushed_id: "a notification",
    },
  },
};
