// Files that the description of an event names, or that of an occurrence: its readers may read them until it is deleted.
import { type MayShow, type NamedFiles, namedFiles } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { patchOf } from "./recurrence/occurrence.ts";
import type { EventAggregate } from "./store.ts";

/** The event as the owner of the files that it names. */
export function eventFileOwner(id: string): string {
  return `event:${id}`;
}

/** Attaches files that an event names. One that was split off a series shows those of the series as well. */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: NamedFiles,
  { row, overrides }: Pick<EventAggregate, "row" | "overrides">,
  mayShow: MayShow,
  original?: EventAggregate,
): Promise<void> {
  const { tenant_id: tenantId, id, room_id: roomId } = row;
  const texts = [row.description, ...overrides.map((one) => patchOf(one).description)];
  const ids = namedFiles(texts.filter((text) => typeof text === "string").join("\n"));
  const copyOf = original && eventFileOwner(original.row.id);
  await files.attachNamed(tx, { tenantId, owner: eventFileOwner(id), roomId, copyOf }, ids, mayShow);
}
