// What the own stream of a former member says of the room: no device that was away learns of it what it did not know.
import { principalStream } from "@/core/event/event.ts";
import { redactEvents } from "@/ports/sql/event_redaction.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { NewRoomData } from "./presenter.ts";
import type { MemberRow } from "./tables.ts";

type Joined = Partial<NewRoomData> & { roomId: string };

/** Removes the room from the events with which these members joined. The caller has locked their streams. */
export async function redactJoining(
  tx: AnyTransaction,
  members: readonly Pick<MemberRow, "tenant_id" | "principal_id" | "room_id" | "joined_at">[],
  now: string,
): Promise<void> {
  const withoutRoom = ({ room, omitted: _, ...rest }: Joined): unknown => room && rest;
  for (const { tenant_id: tenantId, principal_id, room_id: roomId, joined_at: from } of members) {
    const events = { tenantId, stream: principalStream(principal_id), type: "member.joined", from };
    const changed = await redactEvents(tx.db, { ...events, to: from }, roomId, withoutRoom);
    // Who was imported joined before there was an event.
    if (changed === 0) await redactEvents(tx.db, { ...events, to: now }, roomId, withoutRoom);
  }
}
