// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  interaction: {
    key: ["id"],
    renames: ["caller_id", "responder_id"],
    json: ["response_json"],
    keeps: { name: "of a command", client_message_id: "chosen at random by clients" },
  },
};
