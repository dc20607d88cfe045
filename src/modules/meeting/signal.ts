// The signaling relay: session descriptions and candidates of peers in a small call, delivered to the addressed participant.
import { type Actor, hasScope } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/event/channel.ts";
import type { Clock } from "@/core/time/clock.ts";
import { Fault, notVisible } from "@/core/fault.ts";
import { assertUnmuted, type RoomAccess } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { isPresent } from "./presenter.ts";
import { Signal, SIGNAL_MAX_BYTES } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingTables, ParticipantRow } from "./tables.ts";

type Deps = { store: Store<MeetingTables>; clock: Clock; roomAccess: RoomAccess };

/** The channel `meeting:<id>`, for participants of the meeting while they have joined. */
export function meetingChannel(deps: Deps): ChannelKind {
  return {
    prefix: "meeting",
    summary: "Signaling between the participants of a meeting; requires having joined it",
    isDurable: false,
    presenceMax: 0,
    async authorize(actor, id) {
      await assertJoined(deps, actor, id);
    },
    ephemeral: {
      "meeting.signal": {
        summary: "Session descriptions and candidates, delivered only to the participant in `to`",
        data: Signal,
        maxBytes: SIGNAL_MAX_BYTES,
        recipients: (data, { actor, id }) => recipientsOf(deps, actor, id, Signal.parse(data)),
      },
    },
  };
}

/** The principal of the addressed participant; throws if `from` is not a participation of the sender. */
async function recipientsOf(deps: Deps, actor: Actor, id: string, { to, from }: Signal): Promise<readonly string[]> {
  const participants = await joinedIn(deps, actor.tenantId, id);
  const own = participants.filter((participant) => participant.principal_id === actor.principalId);
  if (from !== undefined && !own.some((participant) => participant.id === from)) {
    throw new Fault("forbidden", "/from: not a participation of the caller");
  }
  const addressed = participants.find((participant) => participant.id === to);
  if (addressed === undefined) throw new Fault("not_found", "/to: no such participant in the meeting");
  return [addressed.principal_id];
}

/** Throws unless the actor has joined the meeting and still has access to its room. */
async function assertJoined(deps: Deps, actor: Actor, id: string): Promise<void> {
  if (!hasScope(actor, "meeting.write")) throw new Fault("scope_missing", "Requires the scope meeting.write");
  const row = await new MeetingStore(deps.store.db).find(actor.tenantId, id);
  const grant = row === undefined ? undefined : await deps.roomAccess.find(actor, row.room_id);
  if (grant === undefined) throw notVisible("meeting");
  assertUnmuted(actor, grant.room);
  const participants = await joinedIn(deps, actor.tenantId, id);
  const isIn = participants.some((one) => one.principal_id === actor.principalId);
  if (grant.role === null || !isIn) throw new Fault("forbidden", "Join the meeting first");
}

async function joinedIn({ store, clock }: Deps, tenantId: string, id: string): Promise<ParticipantRow[]> {
  const participants = await new MeetingStore(store.db).currentParticipants(tenantId, id);
  return participants.filter((participant) => participant.state === "joined" && isPresent(participant, clock.now()));
}
