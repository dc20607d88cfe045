// Presence of many rooms in one call, for lists of rooms.
import { z } from "@zod/zod";
import { roomStream } from "@/core/event/event.ts";
import { exampleId } from "@/core/id.ts";
import { type Context, defineOperation, type Operation } from "@/core/operation.ts";
import { PrincipalId, type PrincipalVisibility } from "@/modules/identity/mod.ts";
import { PRESENCE_MAX, type RoomAccess, RoomId } from "@/modules/room/mod.ts";
import type { Presence } from "@/ports/presence.ts";
import { streamKey } from "@/ports/store.ts";

const ROOMS_MAX = 100;

const PresenceList = z.strictObject({
  roomIds: z.array(RoomId).min(1).max(ROOMS_MAX).describe(
    "Rooms to query; rooms not visible to the caller are ignored",
  ),
});
type PresenceList = z.output<typeof PresenceList>;

const RoomPresence = z.object({
  roomId: RoomId,
  principalIds: z.array(PrincipalId).nullable().describe(
    "Principals subscribed to the room on `/ws`, without duplicates, ordered by id; null if presence is not " +
      `available because the room has more than ${PRESENCE_MAX} members or connections`,
  ),
}).meta({ id: "RoomPresence" });
const RoomPresences = z.object({
  items: z.array(RoomPresence).describe("One entry per room, in the order of the request"),
}).meta({ id: "RoomPresences" });
type RoomPresences = z.output<typeof RoomPresences>;

type Deps = {
  roomAccess: Pick<RoomAccess, "findMany">;
  presence: Pick<Presence, "listMany">;
  visibility: Pick<PrincipalVisibility, "filterVisibleIds">;
};

/** Lists the principals present in rooms. */
export class PresenceService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list({ actor }: Context, { roomIds }: PresenceList): Promise<RoomPresences> {
    const grants = await this.#deps.roomAccess.findMany(actor, roomIds);
    const visible = [...new Set(roomIds)].filter((id) => grants.has(id));
    const served = visible.filter((id) => (grants.get(id)?.room.member_count ?? Infinity) <= PRESENCE_MAX);
    const keyOf = (id: string): string => streamKey(actor.tenantId, roomStream(id));
    const clients = await this.#deps.presence.listMany(served.map(keyOf));
    const present = new Map(served.flatMap((id): [string, string[]][] => {
      const users = (clients.get(keyOf(id)) ?? []).map(({ user }) => user);
      return users.length <= PRESENCE_MAX ? [[id, [...new Set(users)].sort()]] : [];
    }));
    const seen = await this.#deps.visibility.filterVisibleIds(actor, [...new Set([...present.values()].flat())]);
    return {
      items: visible.map((roomId) => ({
        roomId,
        principalIds: present.get(roomId)?.filter((id) => seen.has(id)) ?? null,
      })),
    };
  }
}

export function presenceOperations(presence: PresenceService): Operation[] {
  return [
    defineOperation({
      name: "presence.list",
      summary: "List the principals present in rooms",
      description:
        "Returns the same principals as the command `presence` of each room on `/ws`, without a subscription, " +
        "with a delay of up to 30 seconds. Guests of the tenant see only those that `principal.read` returns to them. For live changes, subscribe with `join_leave`.",
      access: { scope: "room.read" },
      http: { method: "GET", path: "/v1/collaboration/presence", status: 200 },
      input: PresenceList,
      output: RoomPresences,
      example: { roomIds: [exampleId("room")] },
      run: (context, input) => presence.list(context, input),
    }),
  ];
}
