// What becomes of the tables when a person is erased.
import type { PrincipalErasure } from "@/core/erasure.ts";

export const erases: PrincipalErasure = {
  plugin: { key: ["id"], renames: ["created_by"], keeps: { manifest_json: "an application" } },
  plugin_filter: { key: ["room_id", "plugin_id"], renames: ["enabled_by"] },
};
