// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";
import { principalStream } from "@/core/event/event.ts";

const OWN_STREAM = { column: "stream", text: principalStream };

export const erases: PrincipalErasure = {
  webhook: {
    key: ["tenant_id", "id"],
    renames: ["creator_id", "charged_id", "responsible_id"],
    keeps: {
      description: "about an address of another system",
      last_error: "of that address",
      url: "an address of another system",
    },
  },
  webhook_cursor: { key: ["tenant_id", "webhook_id", "stream"], deletes: [OWN_STREAM] },
  webhook_parked: { key: ["tenant_id", "webhook_id", "id"], deletes: [OWN_STREAM], keeps: { error: "of an address" } },
  webhook_delivery: {
    key: ["tenant_id", "webhook_id", "slot"],
    deletes: [OWN_STREAM],
    keeps: { error: "of an address" },
  },
  incoming_hook: {
    key: ["tenant_id", "id"],
    renames: ["responsible_id"],
    keeps: { principal_id: "of the hook", display_name: "of the hook", description: "about another system" },
  },
  slash_command: {
    key: ["tenant_id", "id"],
    renames: ["responsible_id"],
    keeps: {
      principal_id: "of the command",
      display_name: "of the command",
      description: "about another system",
      name: "of the command",
      url: "an address of another system",
    },
  },
};
