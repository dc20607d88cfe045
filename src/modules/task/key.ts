// Keys for people: a prefix made from the room's name and a number, such as `OPS-12`.
import type { TaskStore } from "./store.ts";
import type { TaskRow } from "./tables.ts";

const PREFIX_MAX = 5;
const KEY = /^([A-Za-z][A-Za-z0-9]*)-([1-9]\d{0,9})$/;

/** The task of a key, in any case, or of an id. */
export async function resolve(tasks: TaskStore, tenantId: string, ref: string): Promise<TaskRow | undefined> {
  return KEY.test(ref) ? await tasks.findByKey(tenantId, ref.toUpperCase()) : await tasks.find(tenantId, ref);
}

type Boards = Pick<TaskStore, "prefixes" | "addRoom">;

/** The next key of a room, whose prefix is given to it with its first task. The caller holds the room. */
export async function nextKey(
  tasks: Boards & Pick<TaskStore, "takeNumber">,
  room: { tenant_id: string; id: string; name: string; slug: string | null },
): Promise<string> {
  while (true) {
    const taken = await tasks.takeNumber(room.tenant_id, room.id);
    if (taken !== undefined) return `${taken.prefix}-${taken.last_number}`;
    await tryPrefix(tasks, room.tenant_id, room.id, prefixOf(room.slug ?? room.name));
  }
}

/** Gives a room this prefix, or one like it that is free; to be looked at, since another room may take it in the meantime. */
export async function tryPrefix(tasks: Boards, tenantId: string, roomId: string, stem: string): Promise<void> {
  const prefix = freeAmong(new Set(await tasks.prefixes(tenantId, stem)), stem);
  await tasks.addRoom({ tenant_id: tenantId, room_id: roomId, prefix, last_number: 0 });
}

function freeAmong(taken: ReadonlySet<string>, stem: string): string {
  let prefix = stem;
  for (let number = 2; taken.has(prefix); number++) prefix = `${stem}${number}`;
  return prefix;
}

/** The initials of several words, the beginning of a single one; `T` for names without a Latin letter. */
function prefixOf(name: string): string {
  const words = name.normalize("NFKD").replaceAll(/\p{M}/gu, "").toUpperCase().split(/[^A-Z0-9]+/)
    .filter((word) => /^[A-Z]/.test(word));
  const [first = "T"] = words;
  if (words.length > 1) return words.map((word) => word[0]).join("").slice(0, PREFIX_MAX);
  return first.length <= PREFIX_MAX ? first : first.slice(0, 3);
}
