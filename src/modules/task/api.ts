// Operations on tasks.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import type { TaskClaims } from "./claims.ts";
import type { TaskRelations } from "./relations.ts";
import {
  BODY_MAX_BYTES,
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
} from "./schema.ts";
import type { TaskService } from "./service.ts";

const PATH = "/v1/collaboration/tasks";
const ROOM = exampleId("room");
const TASK = "OPS-12";
const byRef = z.strictObject({ id: TaskRef });

type Deps = { tasks: TaskService; relations: TaskRelations; claims: TaskClaims };

/** Operations, events and tags of tasks. */
export function taskApi({ tasks, relations, claims }: Deps): ModuleApi {
  return {
    tags: { tasks: "Tasks, boards, subtasks, relations, claims and recurrence." },
    events: TASK_EVENTS,
    operations: [...taskOperations(tasks), ...relationOperations(relations), ...claimOperations(claims)],
  };
}

function taskOperations(tasks: TaskService) {
  return [
    defineOperation({
      name: "task.create",
      summary: "Create a task",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: PATH, status: 201, bodyMaxBytes: BODY_MAX_BYTES, hasLocation: true },
      input: TaskCreate,
      output: Task,
      faults: ["not_found", "room_archived", "limit_reached", "invalid_time_zone", "recurrence_too_complex"],
      example: { roomId: ROOM, title: "Renew the certificate", priority: "high", dueAt: "2026-05-04T07:00:00.000Z" },
      async run(context, input) {
        const task = await tasks.create(context, input);
        return new Outcome(task, { location: `${PATH}/${task.id}` });
      },
    }),
    defineOperation({
      name: "task.list",
      summary: "List tasks of all rooms visible to the caller",
      description: "Filters are combined with AND; values within a filter with OR.",
      access: { scope: "task.read" },
      http: { method: "GET", path: PATH, status: 200 },
      input: TaskList,
      output: pageSchema(Task),
      faults: ["conflict", "invalid_cursor"],
      example: { assigneeId: ["me"], status: ["todo", "in_progress"], sort: "dueAt" },
      ownData: { inputs: () => [{ createdBy: ["me"] }, { assigneeId: ["me"] }] },
      run: (context, input) => tasks.list(context, input),
    }),
    defineOperation({
      name: "task.bulk",
      summary: "Update up to 100 tasks with the same changes",
      description: "Returns 200 with a result for each task; a failed task does not affect the others.",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: `${PATH}/bulk`, status: 200, bodyMaxBytes: BODY_MAX_BYTES },
      input: TaskBulk,
      output: TaskBulkResults,
      example: { ids: [TASK], patch: { status: "done" } },
      run: (context, input) => tasks.bulk(context, input),
    }),
    defineOperation({
      name: "task.read",
      summary: "Get a task with its relations",
      access: { scope: "task.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id`, status: 200 },
      input: byRef,
      output: TaskDetail,
      faults: ["not_found", "conflict"],
      example: { id: TASK },
      run: (context, { id }) => tasks.read(context, id),
    }),
    defineOperation({
      name: "task.update",
      summary: "Update a task, or move it on the board",
      description:
        "Completing a recurring task creates the next one of its series, with copies of its subtasks; cancelling " +
        "it ends the series.",
      access: { scope: "task.write", room: "member" },
      http: { method: "PATCH", path: `${PATH}/:id`, status: 200, ifMatch: "version", bodyMaxBytes: BODY_MAX_BYTES },
      input: TaskUpdate,
      output: Task,
      faults: [
        "not_found",
        "conflict",
        "room_archived",
        "version_mismatch",
        "cycle",
        "already_claimed",
        "limit_reached",
        "invalid_time_zone",
        "recurrence_too_complex",
      ],
      example: { id: TASK, status: "in_progress", position: { after: "OPS-7" } },
      run: (context, input) => tasks.update(context, input),
    }),
    defineOperation({
      name: "task.delete",
      summary: "Delete a task with its subtasks; restorable for 30 days",
      access: { scope: "task.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
      input: byRef,
      output: z.void(),
      faults: ["not_found", "conflict", "room_archived"],
      example: { id: TASK },
      run: (context, { id }) => tasks.delete(context, id),
    }),
    defineOperation({
      name: "task.restore",
      summary: "Restore a task deleted within the last 30 days",
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
      summary: "List the activity of a task, newest first",
      access: { scope: "task.read", room: "observer" },
      http: { method: "GET", path: `${PATH}/:id/activity`, status: 200 },
      input: z.strictObject({ ...pageInput, id: TaskRef }),
      output: pageSchema(TaskActivity),
      faults: ["not_found", "conflict", "invalid_cursor"],
      example: { id: TASK },
      run: (context, input) => tasks.activity(context, input),
    }),
  ];
}

function relationOperations(relations: TaskRelations) {
  return [
    defineOperation({
      name: "task.relate",
      summary: "Create a relation between two tasks, in both directions",
      access: { scope: "task.write", room: "member" },
      http: { method: "PUT", path: `${PATH}/:id/relations/:kind/:otherId`, status: 200 },
      input: TaskRelate,
      output: Task,
      faults: ["not_found", "conflict", "room_archived", "cycle", "limit_reached"],
      example: { id: TASK, kind: "blocks", otherId: "OPS-7" },
      run: (context, input) => relations.add(context, input),
    }),
    defineOperation({
      name: "task.unrelate",
      summary: "Delete a relation between two tasks, in both directions",
      access: { scope: "task.write", room: "member" },
      http: { method: "DELETE", path: `${PATH}/:id/relations/:kind/:otherId`, status: 204 },
      input: TaskRelate,
      output: z.void(),
      faults: ["not_found", "conflict", "room_archived"],
      example: { id: TASK, kind: "blocks", otherId: "OPS-7" },
      run: (context, input) => relations.remove(context, input),
    }),
  ];
}

function claimOperations(claims: TaskClaims) {
  return [
    defineOperation({
      name: "task.claim",
      summary: "Claim a task for a limited time, or extend the claim",
      description:
        "For workers that must not process a task twice. Pass the token as `leaseToken` when updating the task to " +
        "fail if the claim was lost.",
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
      summary: "Release a claimed task",
      access: { scope: "task.write", room: "member" },
      http: { method: "POST", path: `${PATH}/:id/release`, status: 200 },
      input: TaskRelease,
      output: Task,
      faults: ["not_found", "conflict", "room_archived", "already_claimed"],
      example: { id: TASK },
      run: (context, input) => claims.release(context, input),
    }),
  ];
}
