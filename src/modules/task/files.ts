// Files that the description of a task names: its readers may read them until the task is purged.
import { type MayShow, type NamedFiles, namedFiles } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { TaskRow } from "./tables.ts";

type Naming = Pick<TaskRow, "tenant_id" | "id" | "room_id" | "description">;

/** The task as the owner of the files that it names. */
export function taskFileOwner(id: string): string {
  return `task:${id}`;
}

/**
 * Attaches files that a task names and did not name before. A copy shows those of its original as well. Who changes what somebody
 * else named a file in has not named it.
 */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: NamedFiles,
  { tenant_id: tenantId, id, room_id: roomId, description }: Naming,
  mayShow: MayShow,
  before?: Pick<TaskRow, "id" | "description">,
): Promise<void> {
  const known = namedFiles(before?.description ?? null);
  const copyOf = before && taskFileOwner(before.id);
  await files.attachNamed(
    tx,
    { tenantId, owner: taskFileOwner(id), roomId, copyOf },
    namedFiles(description),
    (file) => !known.has(file.id) && mayShow(file),
  );
}
