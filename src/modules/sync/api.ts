// The one operation of sync.
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { Sync, SyncRead } from "./schema.ts";
import type { SyncService } from "./service.ts";

/** The sync module. */
export function syncModule(sync: SyncService): Module {
  return {
    name: "sync",
    operations: [
      defineOperation({
        name: "sync.read",
        summary: "Where everything stands, or what happened since the last time",
        description:
          "State and positions are of one moment. Subscribe on `/ws` with `recover` from the positions, or ask again " +
          "with `since` (and `wait`, a long poll): nothing is missing and nothing comes twice. " +
          "Needs the scope `message.read` as well.",
        access: { scope: "room.read" },
        http: { method: "GET", path: "/v1/collaboration/sync", status: 200 },
        input: SyncRead,
        output: Sync,
        faults: ["invalid_cursor", "epoch_changed"],
        overlaps: true,
        run: (context, input) => sync.read(context, input),
      }),
    ],
  };
}
