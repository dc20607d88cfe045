// Tasks: what is to be done in a room, by whom and until when, for people and agents alike.
export { taskModule, type TaskModuleDeps } from "./api.ts";
export { Task, TaskRef } from "./schema.ts";
export { TaskSource } from "./searchable.ts";
export type { TaskTables } from "./tables.ts";
