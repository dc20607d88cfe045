// The room module: rooms with members, roles, bans, settings of members, and the event history.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module, ModuleGauge } from "@/core/module.ts";
import type { GroupService } from "@/modules/group/mod.ts";
import { type IdentityService, PrincipalId, type PrincipalVisibility } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { roomApi } from "./api.ts";
import { PURGE_JOB, RoomDeletion } from "./room_deletion.ts";
import type { RoomAccess } from "./room_access.ts";
import { RoomGroups } from "./group_members.ts";
import { RoomMembers } from "./members.ts";
import { migrations } from "./migrations.ts";
import { roomErasure } from "./principal_erasure.ts";
import { RoomPeople } from "./people.ts";
import type { CountUnread } from "./presenter.ts";
import { MemberProfileSync, PROFILE_JOB, profileJob } from "./profile_sync.ts";
import { ReadReceipts } from "./read_receipts.ts";
import { RoomId } from "./schema.ts";
import { RoomService } from "./service.ts";
import { RoomSettingsService } from "./room_settings.ts";
import { RoomStore } from "./store.ts";
import {
  OWNERSHIP_TRANSFER_JOB,
  ownershipClaimJob,
  OwnershipTransfer,
  ownershipTransferJob,
} from "./ownership_transfer.ts";
import { type MessagePreviews, RoomViews } from "./room_views.ts";

const LARGEST_ROOMS = 100;

type Deps = {
  roomAccess: RoomAccess;
  retention: RetentionService;
  identity: IdentityService;
  groups: GroupService;
  visibility: PrincipalVisibility;
  notifications: NotificationService;
  membersMax: number;
  countUnread: CountUnread;
  previews: MessagePreviews;
  /** Whether metrics may name rooms by their ids. */
  exposesRoomIds: boolean;
};

type RoomModule = Module & { members: RoomMembers; people: RoomPeople; views: RoomViews };

export function roomModule(platform: Platform, deps: Deps): RoomModule {
  const { store, clock, bus, cursors, metrics, eventFilterOf, holds, modules } = platform;
  const { roomAccess, identity, visibility, notifications, membersMax, countUnread } = deps;
  const members = new RoomMembers({ store, clock, cursors, roomAccess, identity, notifications, membersMax });
  const people = new RoomPeople({ store, clock, visibility });
  const views = new RoomViews({ people, previews: deps.previews });
  const onCreated = () => metrics.roomsCreated.inc();
  const rooms = new RoomService({
    views,
    store,
    clock,
    cursors,
    roomAccess,
    retention: deps.retention,
    members,
    identity,
    notifications,
    countUnread,
    onCreated,
    eventFilterOf,
  });
  const ownership = new OwnershipTransfer(store);
  const purgeHooks = () => modules.flatMap((module) => module.purgeRoom ?? []);
  const deletion = new RoomDeletion({ store, clock, roomAccess, ownership, holds, purgeHooks });
  const profiles = new MemberProfileSync({ store, clock });
  const receipts = new ReadReceipts({ store, clock, bus });
  return {
    name: "room",
    migrations,
    erases: roomErasure({ store, clock, members }),
    ...roomApi({
      rooms,
      deletion,
      members,
      groups: new RoomGroups({ store, roomAccess, identity, groups: deps.groups, members }),
      settings: new RoomSettingsService({ store, clock, roomAccess }),
      roomAccess,
      visibility,
    }),
    notificationKinds: { invitation: "invitations" },
    jobs: [
      defineJob({
        kind: PURGE_JOB,
        payload: z.strictObject({ roomId: RoomId }),
        isLongRunning: true,
        run: ({ tenantId, payload }) => deletion.purge(tenantId, payload.roomId),
      }),
      defineJob({
        kind: OWNERSHIP_TRANSFER_JOB,
        payload: z.strictObject({ principalId: PrincipalId, rooms: z.enum(["owned", "all"]).default("owned") }),
        run: ({ tenantId, payload }) => ownership.transferRooms(tenantId, payload.principalId, payload.rooms),
      }),
      defineJob({
        kind: PROFILE_JOB,
        payload: z.strictObject({ principalId: PrincipalId }),
        isLongRunning: true,
        run: ({ tenantId, payload }) => profiles.propagate(tenantId, payload.principalId),
      }),
    ],
    onCommit: (events) => receipts.onCommit(events),
    stop: () => receipts.stop(),
    jobsOn: {
      disabled: (...ids) => [ownershipTransferJob(...ids), profileJob(...ids)],
      enabled: (...ids) => [ownershipClaimJob(...ids), profileJob(...ids)],
      profile: profileJob,
    },
    canRead: { room: async (actor, ids, db) => new Set((await roomAccess.findMany(actor, ids, db)).keys()) },
    gauges: [memberGauge(platform, deps.exposesRoomIds)],
    members,
    people,
    views,
  };
}

/** The largest rooms by members, and all others together: one label per room would be unbounded. */
function memberGauge({ store, metrics }: Platform, exposesRoomIds: boolean): ModuleGauge {
  return {
    gauge: metrics.roomMembers,
    async collect(gauge) {
      const { rooms: largest, total } = await new RoomStore(store.db).largestRooms(LARGEST_ROOMS);
      gauge.reset();
      let rest = total;
      for (const [rank, { id, members: count }] of largest.entries()) {
        gauge.set({ room: exposesRoomIds ? id : `#${rank + 1}` }, count);
        rest -= count;
      }
      gauge.set({ room: "_other" }, rest);
    },
  };
}
