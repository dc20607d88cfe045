// Direct rooms: private, of a few people, and one for each set of them.
import { createHash } from "node:crypto";
import type { Actor } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { startOf } from "@/core/text.ts";
import { DIRECT_MEMBERS_MAX, NAME_MAX, type RoomCreate } from "./schema.ts";
import type { RoomStore } from "./store.ts";

/** Throws unless a direct room can be made like this. */
export function checkDirect(input: RoomCreate, others: readonly string[]): void {
  if (input.visibility === "public") throw new Fault("validation_failed", "/visibility: a direct room is private");
  if (others.length < 1 || others.length + 1 > DIRECT_MEMBERS_MAX) {
    throw new Fault("validation_failed", `/memberIds: a direct room has 2 to ${DIRECT_MEMBERS_MAX} members`);
  }
}

/** What a room is called that is nobody's but theirs. */
export function nameOf(names: readonly string[]): string {
  return startOf(names.join(", "), NAME_MAX).trim();
}

/** What the members of a direct room are known by together. */
export function keyOf(ids: readonly string[]): string {
  return createHash("sha256").update([...ids].sort().join("\n")).digest("hex");
}

/** The key of a direct room of these people, unless they have one. */
export async function freeKey(
  rooms: RoomStore,
  { tenantId }: Actor,
  memberIds: readonly string[],
): Promise<string | null> {
  const key = keyOf(memberIds);
  return await rooms.byDirectKey(tenantId, key) === undefined ? key : null;
}
