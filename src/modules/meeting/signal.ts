// The signalling relay: what peers of a small call tell each other before they are connected, passed to the one addressed.
import { type Actor, hasScope } from "@/core/actor.ts";
import type { ChannelKind } from "@/core/channel.ts";
import type { Clock } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { isMuted, type RoomGate } from "@/modules/room/mod.ts";
import type { Store } from "@/ports/store.ts";
import { isPresent } from "./presenter.ts";
import { Signal, SIGNAL_MAX_BYTES } from "./schema.ts";
import { MeetingStore } from "./store.ts";
import type { MeetingTables, ParticipantRow } from "./tables.ts";

type Deps = { store: Store<MeetingTables>; clock: Clock; gate: RoomGate };

/** The channel `meeting:<id>`: for those who are in the meeting, for as long as they are. */
export function meetingChannel(deps: Deps): ChannelKind {
  return {
    prefix: "meeting",
    summary: "Signalling between the participants of a meeting; join it first",
    isDurable: false,
    presenceMax: 0,
    async authorize(actor, id) {
      await ownIn(deps, actor, id);
    },
    ephemeral: {
      "meeting.signal": {
        summary: "Session descriptions and candidates for one other participant; nobody else gets them",
        data: Signal,
        maxBytes: SIGNAL_MAX_BYTES,
        recipients: (data, { actor, id }) => recipientsOf(deps, actor, id, Signal.parse(data)),
      },
    },
  };
}

/** The principal behind the participant addressed, and a sender who is who they say. */
async function recipientsOf(deps: Deps, actor: Actor, id: string, { to, from }: Signal): Promise<readonly string[]> {
  const people = await joinedIn(deps, actor.tenantId, id);
  const own = people.filter((person) => person.principal_id === actor.principalId);
  if (from !== undefined && !own.some((person) => person.id === from)) {
    throw new Fault("forbidden", "/from: not a participant of the caller's");
  }
  const addressed = people.find((person) => person.id === to);
  if (addressed === undefined) throw new Fault("not_found", "/to: no such participant in the meeting");
  return [addressed.principal_id];
}

/** Throws unless the actor is in the meeting, and still has access to its room. */
async function ownIn(deps: Deps, actor: Actor, id: string): Promise<void> {
  if (!hasScope(actor, "meeting.write")) throw new Fault("scope_missing", "Needs meeting.write");
  const row = await new MeetingStore(deps.store.db).find(actor.tenantId, id);
  const entry = row === undefined ? undefined : await deps.gate.look(actor, row.room_id);
  if (entry === undefined) throw new Fault("not_found", "No such meeting, or not visible to the caller");
  if (isMuted(actor, entry.room)) throw new Fault("agent_muted", "The room's agentPolicy lets this agent read only");
  const isIn = (await joinedIn(deps, actor.tenantId, id)).some((person) => person.principal_id === actor.principalId);
  if (entry.role === null || !isIn) throw new Fault("forbidden", "Join the meeting first");
}

async function joinedIn({ store, clock }: Deps, tenantId: string, id: string): Promise<ParticipantRow[]> {
  const people = await new MeetingStore(store.db).live(tenantId, id);
  return people.filter((person) => person.state === "joined" && isPresent(person, clock.now()));
}
