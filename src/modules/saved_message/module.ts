// The saved message module: messages that people save, and reminders of them.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import { MessageAccess, type MessageService } from "@/modules/message/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { RoomAccess, RoomPeople } from "@/modules/room/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { savedMessageApi } from "./api.ts";
import { savedMessageArchive } from "./archive.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { SAVED_MAX } from "./schema.ts";
import { REMIND_JOB, SavedMessageService } from "./service.ts";
import { ERASE_JOB, SavedMessageUpkeep } from "./upkeep.ts";

type Deps = {
  roomAccess: RoomAccess;
  identity: IdentityService;
  notifications: NotificationService;
  messages: MessageService;
  people: RoomPeople;
};

export function savedMessageModule({ store, clock, cursors }: Platform, deps: Deps): Module {
  const { roomAccess, identity, notifications, messages, people } = deps;
  const access = new MessageAccess({ store, roomAccess });
  const upkeep = new SavedMessageUpkeep({ store, identity, access, notifications });
  return {
    name: "saved_message",
    migrations,
    erases,
    archive: savedMessageArchive(store),
    ...savedMessageApi(new SavedMessageService({ store, clock, cursors, messages, access, people })),
    notificationKinds: { message_reminder: "reminders" },
    jobs: [
      defineJob({
        kind: REMIND_JOB,
        payload: z.strictObject({ id: z.string(), remindAt: z.string() }),
        run: ({ tenantId, payload }) => upkeep.remind(tenantId, payload),
      }),
      defineJob({
        kind: ERASE_JOB,
        payload: z.strictObject({ messageIds: z.array(z.string()) }),
        run: ({ tenantId, payload }) => upkeep.erase(tenantId, payload.messageIds),
      }),
    ],
    eraseMessages: (tenantId, _roomId, messageIds) => upkeep.eraseMessages(tenantId, messageIds),
    purgeRoom: (tenantId, roomId) => upkeep.purgeRoom(tenantId, roomId),
    capability: () => ({ perPrincipal: SAVED_MAX }),
  };
}
