// What a page of rooms includes: the newest messages and the other members of direct rooms, each by one query.
import type { Actor } from "@/core/actor.ts";
import { directRoomName } from "./direct_room.ts";
import { hiddenUpTo, type RoomGrant } from "./room_access.ts";
import type { RoomPeople } from "./people.ts";
import type { ViewedRoom } from "./store.ts";
import type { Direct, MessagePreview, RoomInclude } from "./view_schema.ts";

/** Messages of a room after a position. */
type After = { roomId: string; after: number };

/** Reads previews of messages. */
export type MessagePreviews = {
  /** The newest message in each of these rooms. */
  newest(tenantId: string, rooms: readonly After[]): Promise<ReadonlyMap<string, MessagePreview>>;
  /** The pinned messages of a room, most recently pinned first. */
  pinned(tenantId: string, room: After): Promise<MessagePreview[]>;
};

/** What is presented with a room. */
type RoomExtras = { direct?: Direct; lastMessage?: MessagePreview | null };

type Deps = { people: RoomPeople; previews: MessagePreviews };

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
    const { people, previews } = this.#deps;
    const directIds = rooms.filter(({ kind }) => kind === "direct").map(({ id }) => id);
    const wantsLast = include.includes("lastMessage");
    const positions = wantsLast ? rooms.map((room) => ({ roomId: room.id, after: hiddenUpTo({ room }) })) : [];
    const [others, last] = await Promise.all([
      people.otherMembers(actor, directIds),
      positions.length === 0 ? new Map<string, MessagePreview>() : previews.newest(actor.tenantId, positions),
    ]);
    return (room) => ({
      ...room.kind === "direct" ? { direct: directOf(room, others.get(room.id) ?? []) } : {},
      ...wantsLast ? { lastMessage: last.get(room.id) ?? null } : {},
    });
  }

  /** The pinned messages of a room that its reader may see. */
  pinnedIn(actor: Actor, grant: RoomGrant): Promise<MessagePreview[]> {
    return this.#deps.previews.pinned(actor.tenantId, { roomId: grant.room.id, after: hiddenUpTo(grant) });
  }
}

/** A direct room without other members has its stored name. */
function directOf({ name }: ViewedRoom, principals: Direct["principals"]): Direct {
  return {
    name: principals.length === 0 ? name : directRoomName(principals.map(({ displayName }) => displayName)),
    principals,
  };
}
