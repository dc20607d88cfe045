// Tasks of rooms, with assignees and due dates, for people and agents.
export { taskModule } from "./module.ts";
