// Files that the description of a task names: its readers may read them until the task is purged.
import { type MayShow, type NamedFiles, namedFiles } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { TaskRow } from "./tables.ts";

type Naming = Pick<TaskRow, "tenant_id" | "id" | "room_id" | "description">;

/** The task as the owner of the files that it names. */
export function taskFileOwner(id: string): string {
  return `task:${id}`;
}

/** Attaches files that a task names. A copy shows those of its original as well. */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: NamedFiles,
  { tenant_id: tenantId, id, room_id: roomId, description }: Naming,
  mayShow: MayShow,
  original?: Pick<TaskRow, "id">,
): Promise<void> {
  const copyOf = original && taskFileOwner(original.id);
  await files.attachNamed(tx, { tenantId, owner: taskFileOwner(id), roomId, copyOf }, namedFiles(description), mayShow);
}
