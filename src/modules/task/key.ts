// Human-readable keys such as `OPS-12`: a prefix from the name of the room, and a number. Keys are unique in their room only. A
// room's prefix is known to its viewers alone, so rooms without a common viewer may have the same one.
import type { Actor } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { normalizeText } from "@/core/text/normalize.ts";
import { readerOf, slugOf } from "@/modules/room/mod.ts";
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";

const PREFIX_MAX = 5;
const KEY_PATTERN = /^([A-Za-z][A-Za-z0-9]*)-([1-9]\d{0,9})$/;

/**
 * Finds a task by id, or by case-insensitive key in a room visible to the actor. If several tasks have the key, the only one
 * that is not deleted; throws `conflict` if there is no such one.
 */
export async function resolveTask(tasks: TaskStore, actor: Actor, ref: string): Promise<TaskRow | undefined> {
  if (!KEY_PATTERN.test(ref)) return await tasks.find(actor.tenantId, ref);
  const [found, other] = await tasks.findByKey(actor.tenantId, readerOf(actor), ref.toUpperCase(), 2);
  if (other === undefined || (found?.deleted_at === null && other.deleted_at !== null)) return found;
  throw new Fault("conflict", `Several rooms have a task ${ref}; use the task's id`);
}

/** Finds a task of one room by id or key. */
export async function resolveTaskInRoom(
  tasks: TaskStore,
  room: { tenant_id: string; id: string },
  ref: string,
): Promise<TaskRow | undefined> {
  const found = KEY_PATTERN.test(ref)
    ? await tasks.findInRoom(room.tenant_id, room.id, ref.toUpperCase())
    : await tasks.find(room.tenant_id, ref);
  return found?.room_id === room.id ? found : undefined;
}

/** The next key of a room; the first task determines the prefix. The caller has locked the room. */
export async function nextKey(
  tasks: Pick<TaskStore, "takeNumber" | "prefixes" | "addRoom">,
  actor: Actor,
  room: { tenant_id: string; id: string; name: string; slug: string | null },
): Promise<string> {
  let numbered = await tasks.takeNumber(room.tenant_id, room.id);
  if (numbered === undefined) {
    const stem = prefixOf(slugOf(room) ?? room.name);
    const prefix = availablePrefix(new Set(await tasks.prefixes(room.tenant_id, readerOf(actor), stem)), stem);
    numbered = { tenant_id: room.tenant_id, room_id: room.id, prefix, last_number: 1 };
    await tasks.addRoom(numbered);
  }
  return `${numbered.prefix}-${numbered.last_number}`;
}

function availablePrefix(taken: ReadonlySet<string>, stem: string): string {
  let prefix = stem;
  for (let number = 2; taken.has(prefix); number++) prefix = `${stem}${number}`;
  return prefix;
}

/** The initials of several words or the first letters of a single one; `T` for names without a Latin letter. */
function prefixOf(name: string): string {
  const words = normalizeText(name).toUpperCase().split(/[^A-Z0-9]+/).filter((word) => /^[A-Z]/.test(word));
  const [first = "T"] = words;
  if (words.length > 1) return words.map((word) => word[0]).join("").slice(0, PREFIX_MAX);
  return first.length <= PREFIX_MAX ? first : first.slice(0, 3);
}
