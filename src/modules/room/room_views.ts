// What a page of rooms includes: the newest messages and the other members of direct rooms, each by one query.
import type { Actor } from "@/core/actor.ts";
import { directRoomName } from "./direct_room.ts";
import { hiddenUpTo } from "./room_access.ts";
import type { RoomPeople } from "./people.ts";
import type { ViewedRoom } from "./store.ts";
import type { Direct, LastMessage, RoomInclude } from "./view_schema.ts";

/** Reads the newest message after a position in each of these rooms. */
export type ReadLastMessages = (
  tenantId: string,
  rooms: readonly { roomId: string; after: number }[],
) => Promise<ReadonlyMap<string, LastMessage>>;

/** What is presented with a room. */
type RoomExtras = { direct?: Direct; lastMessage?: LastMessage | null };

type Deps = { people: RoomPeople; readLastMessages: ReadLastMessages };

export class RoomViews {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** What is presented with each of these rooms, which the actor can see. */
  async loadExtras(
    actor: Actor,
    rooms: readonly ViewedRoom[],
    include: readonly RoomInclude[],
  ): Promise<(room: ViewedRoom) => RoomExtras> {
    const { people, readLastMessages } = this.#deps;
    const directIds = rooms.filter(({ kind }) => kind === "direct").map(({ id }) => id);
    const wantsLast = include.includes("lastMessage");
    const positions = wantsLast ? rooms.map((room) => ({ roomId: room.id, after: hiddenUpTo({ room }) })) : [];
    const [others, last] = await Promise.all([
      people.otherMembers(actor, directIds),
      positions.length === 0 ? new Map<string, LastMessage>() : readLastMessages(actor.tenantId, positions),
    ]);
    return (room) => ({
      ...room.kind === "direct" ? { direct: directOf(room, others.get(room.id) ?? []) } : {},
      ...wantsLast ? { lastMessage: last.get(room.id) ?? null } : {},
    });
  }
}

/** A direct room without other members has its stored name. */
function directOf({ name }: ViewedRoom, principals: Direct["principals"]): Direct {
  return {
    name: principals.length === 0 ? name : directRoomName(principals.map(({ displayName }) => displayName)),
    principals,
  };
}
