// Mentions: who may be named in a room, and who may call everybody.
import { type Actor, isAtLeast, ROOM_ROLES } from "@/core/actor.ts";
import { Fault } from "@/core/fault.ts";
import { mayName, type Pass, type RoomGate } from "@/modules/room/mod.ts";
import type { Mentions } from "./schema.ts";

/** Above this many members only moderators may mention everybody. */
const ROOM_MENTION_MEMBERS = 100;

/** Throws unless everybody mentioned exists and sees the room. Costs nothing where nobody is. */
export async function checkMentions(
  gate: RoomGate,
  actor: Actor,
  { room, role }: Pass,
  { principalIds, room: everybody }: Mentions,
): Promise<void> {
  if (
    everybody && room.member_count > ROOM_MENTION_MEMBERS && !isAtLeast(ROOM_ROLES, role ?? "observer", "moderator")
  ) {
    throw new Fault(
      "forbidden",
      `/mentions/room: above ${ROOM_MENTION_MEMBERS} members only moderators mention everybody`,
    );
  }
  if (principalIds.length === 0) return;
  const seeing = [...(await gate.seeing(room, principalIds)).values()];
  const fit = new Set(seeing.filter((visitor) => mayName(actor, visitor)).map(({ id }) => id));
  const errors = principalIds.flatMap((id, place) =>
    fit.has(id)
      ? []
      : [{ pointer: `/mentions/principalIds/${place}`, code: "not_found", detail: `Nobody here is ${id}` }]
  );
  const first = errors[0];
  if (first === undefined) return;
  throw new Fault("validation_failed", `${first.pointer}: nobody who sees the room has this id`, { errors });
}
