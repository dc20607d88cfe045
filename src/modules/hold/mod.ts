// The hold module: legal holds on the tenant, on rooms and on principals, for administrators.
import { exampleId } from "@/core/id.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import type { Platform } from "@/ports/platform.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { HeldState, HeldStateList, Hold, HoldCreate, HoldList, HoldRef } from "./schema.ts";
import { HoldService } from "./service.ts";
import { HeldStates } from "./states.ts";

const PATH = "/v1/collaboration/holds";

export function holdModule({ store, clock, cursors }: Platform): Module {
  const holds = new HoldService({ store, clock, cursors });
  const states = new HeldStates({ store, clock, cursors, isHeld: holds.isHeld });
  return {
    name: "hold",
    migrations,
    erases,
    tags: { holds: "Legal holds: what is under one is not deleted for good until it is released." },
    operations: [
      defineOperation({
        name: "hold.create",
        summary: "Create a legal hold on the tenant, a room or a principal",
        description:
          "While it is in force, retention and purges delete nothing of it, and rooms are not purged, messages and files not " +
          "deleted, and principals not erased: such calls fail with `legal_hold`. A hold on a principal is also on the rooms where " +
          "it is a member or has written, and either way on their members. Nor are comments, events of the calendar and memories " +
          "deleted, or texts of runs. Earlier versions of messages and documents stay, and those of tasks and events are listed by `held_state.list`; the text " +
          "of a comment is not changed. Single dates of a series of events can be cancelled unless they were changed or responded " +
          "to.\n\nNot under it are notifications, attachments that are removed from what is still there, and the log of events, " +
          "whose contents are in messages. Deletions in progress when it begins may still complete.",
        access: { scope: "hold.manage", tenant: "admin" },
        http: { method: "POST", path: PATH, status: 201 },
        input: HoldCreate,
        output: Hold,
        faults: ["not_found", "limit_reached"],
        example: { principalId: "alice", reason: "Case 2026-17" },
        run: ({ actor }, input) => holds.create(actor, input),
      }),
      defineOperation({
        name: "hold.list",
        summary: "List legal holds, the newest first",
        access: { scope: "hold.read", tenant: "admin" },
        http: { method: "GET", path: PATH, status: 200 },
        input: HoldList,
        output: pageSchema(Hold),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => holds.list(actor, input),
      }),
      defineOperation({
        name: "held_state.list",
        summary: "List what was changed of tasks and events under a legal hold, the newest first",
        description:
          "Each is the task or event before a change. They are deleted after the last hold on them is released.",
        access: { scope: "hold.read", tenant: "admin" },
        http: { method: "GET", path: `${PATH}/states`, status: 200 },
        audited: true,
        input: HeldStateList,
        output: pageSchema(HeldState),
        faults: ["invalid_cursor"],
        example: { resourceId: exampleId("task") },
        run: ({ actor }, input) => states.list(actor, input),
      }),
      defineOperation({
        name: "hold.release",
        summary: "Release a legal hold",
        description:
          "What retention would have deleted meanwhile is deleted within a day, unless another hold is on it.",
        access: { scope: "hold.manage", tenant: "admin" },
        http: { method: "POST", path: `${PATH}/:id/release`, status: 200 },
        input: HoldRef,
        output: Hold,
        faults: ["not_found", "conflict"],
        example: { id: exampleId("hold") },
        run: ({ actor }, { id }) => holds.release(actor, id),
      }),
    ],
    isHeld: holds.isHeld,
    keepState: states.keep,
    purgeRoom: (tenantId, roomId) => states.purgeRoom(tenantId, roomId),
    maintenance: { held_states: () => states.purgeReleased() },
  };
}
