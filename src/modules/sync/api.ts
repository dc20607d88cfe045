// The operations of sync and of presence.
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { presenceOperations, type PresenceService } from "./presence.ts";
import { Sync, SyncRead } from "./schema.ts";
import type { SyncService } from "./service.ts";

/** What clients see of sync and presence. */
export function syncApi(sync: SyncService, presence: PresenceService): ModuleApi {
  return {
    tags: {
      presence: "Presence of principals on `/ws`.",
      sync: "Everything that changed for the caller since a cursor, in one call.",
    },
    operations: [
      ...presenceOperations(presence),
      defineOperation({
        name: "sync.read",
        summary: "Get the state of the caller's rooms, or the changes since a cursor",
        description: "State and positions are consistent with each other. Subscribe on `/ws` with `recover` from the " +
          "positions, or call again with `since` (and `wait` for a long poll): no event is missed or repeated. Also " +
          "requires the scope `message.read`; events whose scope the token lacks are returned as `message.hidden`.",
        access: { scope: "room.read" },
        http: { method: "GET", path: "/v1/collaboration/sync", status: 200 },
        input: SyncRead,
        output: Sync,
        faults: ["invalid_cursor", "stream_reset"],
        concurrent: true,
        run: (context, input) => sync.read(context, input),
      }),
    ],
  };
}
