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
): Promise<void> {
  for (const { tenant_id: tenantId, principal_id, room_id: roomId, joined_at: at } of members) {
    const range = { tenantId, stream: principalStream(principal_id), type: "member.joined", from: at, to: at };
    await redactEvents(tx.db, range, roomId, ({ room, omitted: _, ...rest }: Joined) => room && rest);
  }
}
