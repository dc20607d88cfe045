// States of a task that mean there is still work to do.
import type { TaskRow } from "./tables.ts";

/** Whether a task in this state still wants doing. */
export function isOpen(status: TaskRow["status"]): boolean {
  return status !== "done" && status !== "cancelled";
}
