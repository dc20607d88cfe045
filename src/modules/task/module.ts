// The task module: boards, tasks with subtasks and relations, claims, recurrence and reminders.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { taskApi } from "./api.ts";
import { taskArchive } from "./archive/section.ts";
import { TaskClaims } from "./claims.ts";
import { type ReadMessage, TaskUpdater } from "./updater.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { TaskAssignees } from "./assignees.ts";
import { TaskRelations } from "./relations.ts";
import { RecurringTasks } from "./recurring_tasks.ts";
import {
  ASSIGNEES_MAX,
  BULK_MAX,
  DEPTH_MAX,
  DESCRIPTION_MAX,
  LABELS_MAX,
  LEASE_SECONDS,
  OPEN_MAX,
  RELATIONS_MAX,
  TREE_MAX,
} from "./schema.ts";
import { TaskSearchable } from "./searchable.ts";
import { PURGE_JOB, TaskService } from "./service.ts";
import { DUE_JOB, TaskWriter } from "./writer.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  readMessage: ReadMessage;
  notify: Notify;
  files: NamedFiles;
  /** Absent if search is off. */
  index: SearchIndex | undefined;
};

export function taskModule({ store, clock, cursors, holds }: Platform, deps: Deps): Module {
  const { roomAccess, identity, readMessage, notify, files, index } = deps;
  const assignees = new TaskAssignees({ roomAccess, identity });
  const writer = new TaskWriter({ store, clock, roomAccess, assignees, notify, files, holds, index });
  const recurringTasks = new RecurringTasks({ clock, writer, assignees });
  const updater = new TaskUpdater({ clock, writer, assignees, recurringTasks, readMessage });
  const tasks = new TaskService({ store, clock, cursors, roomAccess, writer, updater, files, holds });
  const search = new TaskSearchable({ store, clock });
  return {
    name: "task",
    migrations,
    erases,
    ...taskApi({
      tasks,
      relations: new TaskRelations({ store, clock, writer }),
      claims: new TaskClaims({ store, clock, writer }),
    }),
    notificationKinds: { task_assigned: null, task_due: "reminders" },
    jobs: [
      defineJob({
        kind: PURGE_JOB,
        payload: z.strictObject({ taskId: z.string() }),
        run: ({ tenantId, payload }) => tasks.purge(tenantId, payload.taskId),
      }),
      defineJob({
        kind: DUE_JOB,
        payload: z.strictObject({ taskId: z.string(), dueAt: z.string() }),
        run: ({ tenantId, payload }) => writer.notifyDue(tenantId, payload.taskId, payload.dueAt),
      }),
    ],
    search,
    resourceScopes: { task: "task.read" },
    canRead: { task: (actor, ids, db) => tasks.filterReadable(actor, ids, db) },
    purgeRoom: (tenantId, roomId) => tasks.purgeRoom(tenantId, roomId),
    capability: () => ({
      enabled: true,
      limits: {
        openPerRoom: OPEN_MAX,
        depth: DEPTH_MAX,
        tree: TREE_MAX,
        assignees: ASSIGNEES_MAX,
        labels: LABELS_MAX,
        relations: RELATIONS_MAX,
        bulk: BULK_MAX,
        description: DESCRIPTION_MAX,
        leaseSeconds: LEASE_SECONDS.max,
      },
    }),
    archive: taskArchive({ store, clock, files, index }),
  };
}
