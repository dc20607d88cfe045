// Sync: state and positions from which a client continues, over `/ws` or by deltas, without gaps or duplicates.
import type { Actor } from "@/core/actor.ts";
import type { Module } from "@/core/module.ts";
import type { IdentityService, PrincipalVisibility } from "@/modules/identity/mod.ts";
import type { UnreadCounter } from "@/modules/message/mod.ts";
import type { RoomAccess, RoomViews } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { syncApi } from "./api.ts";
import { PresenceService } from "./presence.ts";
import { SyncService } from "./service.ts";
import { StreamWaiter } from "./stream_waiter.ts";

export { StreamWaiter };

export function syncModule(
  { store, clock, cursors, bus, presence, eventFilterOf }: Platform,
  { roomAccess, ...deps }: {
    visibility: PrincipalVisibility;
    roomAccess: RoomAccess;
    identity: IdentityService;
    revalidate: (actor: Actor) => Promise<Actor | undefined>;
    unreads: UnreadCounter;
    views: RoomViews;
  },
): Module {
  const waiter = new StreamWaiter(bus);
  const sync = new SyncService({ ...deps, store, clock, cursors, waiter, presence, eventFilterOf });
  return {
    name: "sync",
    ...syncApi(sync, new PresenceService({ roomAccess, presence, visibility: deps.visibility })),
    drain: () => waiter.stop(),
  };
}
