// Facts as JSON, and the form in which equal texts are found.
import type { Memory, MemoryVersion } from "./schema.ts";
import type { Fact, SourceRow, VersionRow } from "./store.ts";
import { hash64 } from "@/core/text/hash.ts";

/** A fact with those of its sources that a reader may see. */
export type ReadableFact = Fact & { visibleSources: readonly SourceRow[] };

export function presentMemory({ row, subjectIds, visibleSources }: ReadableFact): Memory {
  return {
    id: row.id,
    scope: { type: row.scope_type, id: row.scope_id },
    kind: row.kind,
    text: row.text,
    subjectIds: [...subjectIds],
    sources: visibleSources.map(({ room_id, seq, message_id }) => ({
      roomId: room_id,
      seq: Number(seq),
      messageId: message_id,
    })),
    confidence: Number(row.confidence),
    validFrom: row.valid_from,
    validTo: row.valid_to,
    expiresAt: row.expires_at,
    pinned: row.pinned === 1,
    status: row.status,
    supersedes: row.supersedes,
    supersededBy: row.superseded_by,
    version: row.version,
    createdBy: row.created_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function presentVersion({ version, text, status, changed_by, at }: VersionRow): MemoryVersion {
  return { version, text, status, changedBy: changed_by, at };
}

/** Equal for texts that differ only in case, spaces and punctuation at the end. */
export function textKeyOf(text: string): string {
  const words = text.normalize("NFKC").toLowerCase().split(/\s+/u).filter((word) => word !== "").join(" ");
  let end = words.length;
  while (end > 0 && ".!?;,".includes(words[end - 1] ?? "")) end--;
  return hash64(words.slice(0, end).toWellFormed());
}

/** Whether a fact is true at a time, and not expired. */
export function isValidAt({ row }: Fact, at: string, now: string): boolean {
  return row.status === "active" && (row.valid_from === null || row.valid_from <= at) &&
    (row.valid_to === null || row.valid_to > at) && !isExpired(row, now);
}

export function isExpired({ expires_at }: Fact["row"], now: string): boolean {
  return expires_at !== null && expires_at <= now;
}
