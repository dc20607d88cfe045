// Operations and jobs of tasks.
import { z } from "@zod/zod";
import type { Clock } from "@/core/clock.ts";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { type Cursors, pageInput, pageOf } from "@/core/page.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { Notify } from "@/modules/notification/mod.ts";
import type { RoomGate } from "@/modules/room/mod.ts";
import type { SearchIndex } from "@/modules/search/mod.ts";
import type { Store } from "@/ports/store.ts";
import { TaskClaims } from "./claims.ts";
import { type ReadMessage, TaskEditor } from "./editor.ts";
import { TaskPeople } from "./people.ts";
import { TaskRelations } from "./relations.ts";
import { TaskRepeater } from "./repeater.ts";
import {
  ASSIGNEES_MAX,
  BULK_MAX,
  DEPTH_MAX,
  DESCRIPTION_MAX,
  LABELS_MAX,
  LEASE_SECONDS,
  OPEN_MAX,
  RELATIONS_MAX,
  Task,
  TASK_EVENTS,
  TaskActivity,
  TaskBulk,
  TaskBulkResults,
  TaskClaim,
  TaskCreate,
  TaskDetail,
  TaskLease,
  TaskList,
  TaskRef,
  TaskRelate,
  TaskRelease,
  TaskUpdate,
  TREE_MAX,
} from "./schema.ts";
import { TaskService } from "./service.ts";
import type { TaskTables } from "./tables.ts";
import { TaskWriter } from "./writer.ts";

const PATH = "/v1/collaboration/tasks";
const ROOM = "room_0190c5d2e7f07b1c9d0a1b2c3d4e5f60";
const TASK = "OPS-12";
const byRef = z.strictObject({ id: TaskRef });

/** What the task module is built from; without `index` tasks are not found by search. */
export type TaskModuleDeps = {
  store: Store<TaskTables>;
  clock: Clock;
  cursors: Cursors;
  gate: RoomGate;
  identity: IdentityService;
  readMessage: ReadMessage;
  notify: Notify;
  index?: Pick<SearchIndex, "put" | "remove">;
};

/** The task module. */
export function taskModule(
  { store, clock, cursors, gate, identity, readMessage, notify, index }: TaskModuleDeps,
): Module {
  const people = new TaskPeople({ store, gate, identity });
  const writer = new TaskWriter({ store, clock, gate, people, notify, index });
  const repeater = new TaskRepeater({ clock, writer, people });
  const editor = new TaskEditor({ clock, writer, people, repeater, readMessage });
  const tasks = new TaskService({ store, clock, cursors, gate, writer, editor });
  return {
    name: "task",
    events: TASK_EVENTS,
    operations: [
      ...taskOperations(tasks),
      ...relationOperations(new TaskRelations({ store, clock, writer })),
      ...claimOperations(new TaskClaims({ clock, writer })),
    ],
    jobs: [
      defineJob({
        kind: "task.purge",
        payload: z.strictObject({ taskId: z.string() }),
        run: ({ tenantId, payload }) => tasks.purge(tenantId, payload.taskId),
      }),
      defineJob({
        kind: "task.due",
        payload: z.strictObject({ taskId: z.string(), dueAt: z.string() }),
        run: ({ tenantId, payload }) => writer.announceDue(tenantId, payload.taskId, payload.dueAt),
      }),
    ],
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
  };
}

function taskOperations(tasks: TaskService) {
  return [
    defineOperation({
      name: "task.create",
      summary: "Make a task",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: PATH, status: 201 },
      input: TaskCreate,
      output: Task,
      faults: ["not_found", "room_archived", "limit_reached", "invalid_time_zone", "recurrence_too_dense"],
      example: { roomId: ROOM, title: "Renew the certificate", priority: "high", dueAt: "2026-05-04T07:00:00.000Z" },
      async run(context, input) {
        const task = await tasks.create(context, input);
        return new Outcome(task, { location: `${PATH}/${task.id}` });
      },
    }),
    defineOperation({
      name: "task.list",
      summary: "List tasks of all rooms the caller can see",
      description: "Filters narrow and combine; lists in a filter mean any of them.",
      access: { scope: "task.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: TaskList,
      output: pageOf(Task),
      faults: ["invalid_cursor"],
      example: { assigneeId: ["me"], status: ["todo", "in_progress"], sort: "dueAt" },
      run: (context, input) => tasks.list(context, input),
    }),
    defineOperation({
      name: "task.bulk",
      summary: "Change up to 100 tasks alike",
      description: "Answers 200 with a result for each task: what fails fails alone.",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: `${PATH}/bulk`, status: 200 },
      input: TaskBulk,
      output: TaskBulkResults,
      example: { ids: [TASK], patch: { status: "done" } },
      run: (context, input) => tasks.bulk(context, input),
    }),
    defineOperation({
      name: "task.read",
      summary: "Read a task with its relations",
      access: { scope: "task.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: byRef,
      output: TaskDetail,
      faults: ["not_found"],
      example: { id: TASK },
      run: (context, { id }) => tasks.read(context, id),
    }),
    defineOperation({
      name: "task.update",
      summary: "Change a task, or move it on the board",
      description: "Completing a recurring task makes the next one of its series, with copies of its subtasks; " +
        "cancelling it ends the series.",
      access: { scope: "task.write", room: "member" },
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version" },
      input: TaskUpdate,
      output: Task,
      faults: [
        "not_found",
        "room_archived",
        "version_mismatch",
        "cycle",
        "already_claimed",
        "limit_reached",
        "invalid_time_zone",
        "recurrence_too_dense",
      ],
      example: { id: TASK, status: "in_progress", position: { after: "OPS-7" } },
      run: (context, input) => tasks.update(context, input),
    }),
    defineOperation({
      name: "task.delete",
      summary: "Delete a task with its subtasks; it can be restored for 30 days",
      access: { scope: "task.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: byRef,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: { id: TASK },
      run: (context, { id }) => tasks.delete(context, id),
    }),
    defineOperation({
      name: "task.restore",
      summary: "Bring a deleted task back within 30 days",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: `${PATH}/:id/restore`, status: 200 },
      input: byRef,
      output: Task,
      faults: ["not_found", "room_archived", "conflict", "gone", "limit_reached"],
      example: { id: TASK },
      run: (context, { id }) => tasks.restore(context, id),
    }),
    defineOperation({
      name: "task.activity",
      summary: "Read what happened to a task, newest first",
      access: { scope: "task.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/activity`, status: 200 },
      input: z.strictObject({ ...pageInput, id: TaskRef }),
      output: pageOf(TaskActivity),
      faults: ["not_found", "invalid_cursor"],
      example: { id: TASK },
      run: (context, input) => tasks.activity(context, input),
    }),
  ];
}

function relationOperations(relations: TaskRelations) {
  return [
    defineOperation({
      name: "task.relate",
      summary: "Relate two tasks; the other side is written as well",
      access: { scope: "task.write", room: "member" },
      http: { method: "PUT", path: `${PATH}/:id/relations/:kind/:otherId`, status: 200 },
      input: TaskRelate,
      output: Task,
      faults: ["not_found", "room_archived", "cycle", "limit_reached"],
      example: { id: TASK, kind: "blocks", otherId: "OPS-7" },
      run: (context, input) => relations.add(context, input),
    }),
    defineOperation({
      name: "task.unrelate",
      summary: "End a relation of two tasks, on both sides",
      access: { scope: "task.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/:id/relations/:kind/:otherId`, status: 204 },
      input: TaskRelate,
      output: z.void(),
      faults: ["not_found", "room_archived"],
      example: { id: TASK, kind: "blocks", otherId: "OPS-7" },
      run: (context, input) => relations.remove(context, input),
    }),
  ];
}

function claimOperations(claims: TaskClaims) {
  return [
    defineOperation({
      name: "task.claim",
      summary: "Take a task for a while, or prolong the time",
      description: "For workers that must not do the same thing twice. Give the token in `leaseToken` when updating, " +
        "and a claim that was lost meanwhile is noticed.",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: `${PATH}/:id/claim`, status: 200 },
      input: TaskClaim,
      output: TaskLease,
      isSecret: true,
      faults: ["not_found", "room_archived", "already_claimed", "conflict"],
      example: { id: TASK, leaseSeconds: 300 },
      run: (context, input) => claims.claim(context, input),
    }),
    defineOperation({
      name: "task.release",
      summary: "Let a claimed task go",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: `${PATH}/:id/release`, status: 200 },
      input: TaskRelease,
      output: Task,
      faults: ["not_found", "room_archived", "already_claimed"],
      example: { id: TASK },
      run: (context, input) => claims.release(context, input),
    }),
  ];
}
