// Files that the description of an event names, or that of an occurrence: its readers may read them until it is deleted.
import { type MayShow, type NamedFiles, namedFiles } from "@/modules/file/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { patchOf } from "./recurrence/occurrence.ts";
import type { EventAggregate } from "./store.ts";

type Texts = Pick<EventAggregate, "row" | "overrides">;

/** The event as the owner of the files that it names. */
export function eventFileOwner(id: string): string {
  return `event:${id}`;
}

/**
 * Attaches files that an event names and did not name before. One that was split off a series shows those of the series as well. Who
 * changes what somebody else named a file in has not named it.
 */
export async function attachNamedFiles(
  tx: AnyTransaction,
  files: NamedFiles,
  event: Texts,
  mayShow: MayShow,
  before?: Texts,
): Promise<void> {
  const { tenant_id: tenantId, id, room_id: roomId } = event.row;
  const known = before === undefined ? new Set() : namedIn(before);
  const copyOf = before && eventFileOwner(before.row.id);
  await files.attachNamed(
    tx,
    { tenantId, owner: eventFileOwner(id), roomId, copyOf },
    namedIn(event),
    (file) => !known.has(file.id) && mayShow(file),
  );
}

function namedIn({ row, overrides }: Texts): Set<string> {
  const texts = [row.description, ...overrides.map((one) => patchOf(one).description)];
  return namedFiles(texts.filter((text) => typeof text === "string").join("\n"));
}
