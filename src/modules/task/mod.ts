// Tasks: what is to be done in a room, by whom and until when, for people and agents alike.
export { type CarriedActivity, type CarriedTask, TaskCarrier } from "./carry/carrier.ts";
export { taskModule } from "./api.ts";
export {
  ACTIVITY_TYPES,
  ANCHORS,
  ASSIGNEES_MAX,
  DESCRIPTION_MAX,
  LABELS_MAX,
  PRIORITIES,
  RELATION_KINDS,
  STATUSES,
  Task,
  TITLE_MAX as TASK_TITLE_MAX,
} from "./schema.ts";
export { TaskSource } from "./searchable.ts";
export type { TaskTables } from "./tables.ts";
