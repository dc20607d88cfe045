// Direct rooms: private, for a few principals, and one for each set of them.
import { hashText } from "@/core/crypto.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { truncateText } from "@/core/text/text.ts";
import { DIRECT_MEMBERS_MAX, NAME_MAX, type RoomCreate, type RoomUpdate } from "./schema.ts";

/** Between the names of members. */
export const SEPARATOR = ", ";

/** Throws unless a direct room can be created with this input. */
export function assertDirectRoom(input: RoomCreate, others: readonly string[]): void {
  if (input.visibility === "public") throw invalidField("/visibility", "a direct room is private");
  if (others.length < 1 || others.length + 1 > DIRECT_MEMBERS_MAX) {
    throw invalidField("/memberIds", `a direct room has 2 to ${DIRECT_MEMBERS_MAX} members`);
  }
  if (input.retentionDays !== null) throw notInDirectRoom("retentionDays");
}

/** Throws for changes that no member of a direct room may make for the others. Activating it again is allowed. */
export function assertDirectUpdate({ state, ...given }: Omit<RoomUpdate, "id">): void {
  const fixed = ["slug", "visibility", "historyVisibility", "retentionDays"] as const;
  const field = state === "archived" ? "state" : fixed.find((name) => given[name] !== undefined);
  if (field !== undefined) throw notInDirectRoom(field);
}

function notInDirectRoom(field: string): Fault {
  return new Fault("forbidden", `/${field}: not available in a direct room`);
}

/** The default name of a direct room. */
export function directRoomName(names: readonly string[]): string {
  return truncateText(names.join(SEPARATOR), NAME_MAX).trim();
}

/** Identifies the set of members of a direct room. */
export function directKeyOf(ids: readonly string[]): string {
  return hashText([...ids].sort().join("\n"));
}
