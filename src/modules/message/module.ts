// The message module: messages with threads, reactions, pins, read positions, scheduling and retention.
import { z } from "@zod/zod";
import { defineJob } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { Rates } from "@/core/operation.ts";
import type { FileAttachments } from "@/modules/file/mod.ts";
import type { CredentialGuard, IdentityService } from "@/modules/identity/mod.ts";
import type { NotificationService } from "@/modules/notification/mod.ts";
import type { RoomAccess, RoomPeople } from "@/modules/room/mod.ts";
import type { RetentionService as TenantRetention, TenantService } from "@/modules/tenant/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { countCommitted, messageApi } from "./api.ts";
import type { MessageFilter } from "./filter.ts";
import { migrations } from "./migrations.ts";
import { messageErasure } from "./principal_erasure.ts";
import { MessageNotifier, NOTIFY_JOB, NotifyPayload, type TriggerAgents } from "./notifier.ts";
import { PinService } from "./pins.ts";
import { ReactionService } from "./reactions.ts";
import type { UnreadCounter } from "./read_state/unread_counts.ts";
import { ReadStateService } from "./read_state/service.ts";
import { EXPIRE_JOB, type RetentionDeps, RetentionService } from "./retention.ts";
import { type RunMessages, ScheduledService, SEND_JOB } from "./scheduled/service.ts";
import { MessageSender } from "./sender.ts";
import { threadArchive } from "./thread/archive.ts";
import { ThreadService } from "./thread/service.ts";
import { MessageSearchable } from "./searchable.ts";
import { MessageService } from "./service.ts";
import { type EraseDerived, MessageTombstones } from "./tombstone.ts";

type Deps = {
  roomAccess: RoomAccess;
  tenants: TenantService;
  retention: TenantRetention;
  identity: IdentityService;
  credentials: CredentialGuard;
  notifications: NotificationService;
  people: RoomPeople;
  unreads: UnreadCounter;
  files: FileAttachments;
  unindex: RetentionDeps["unindex"];
  triggerAgents: TriggerAgents;
  runMessages: RunMessages;
  rate: Rates;
  filter: MessageFilter;
};

type MessageModule = Module & { messages: MessageService; sender: MessageSender };

export function messageModule({ store, clock, cursors, metrics, holds, modules }: Platform, deps: Deps): MessageModule {
  const { roomAccess, tenants, identity, credentials, notifications, people, unreads, files, unindex, rate, filter } =
    deps;
  const { triggerAgents, runMessages } = deps;
  const eraseDerived: EraseDerived = async (tenantId, roomId, messageIds) => {
    for (const { eraseMessages } of modules) await eraseMessages?.(tenantId, roomId, messageIds);
  };
  const tombstones = new MessageTombstones({ store, clock, files, holds, eraseDerived });
  const messages = new MessageService({ store, clock, cursors, roomAccess, tenants, people, holds, tombstones });
  const sender = new MessageSender({ store, clock, roomAccess, files, credentials });
  const scheduled = new ScheduledService({
    store,
    clock,
    cursors,
    sender,
    identity,
    notifications,
    files,
    runMessages,
    filter,
  });
  const retention = new RetentionService({
    store,
    clock,
    notifications,
    files,
    scheduled,
    holds,
    retention: deps.retention,
    unindex,
    eraseDerived,
  });
  const notifier = new MessageNotifier({ store, clock, roomAccess, notifications, triggerAgents });
  const reactions = new ReactionService({ store, clock, cursors, roomAccess, people });
  const pins = new PinService({ store, clock, roomAccess, people });
  const threads = new ThreadService({ store, clock, cursors, roomAccess, people, messages });
  const readState = new ReadStateService({ store, clock, roomAccess, notifications, unreads });

  return {
    name: "message",
    migrations,
    erases: messageErasure(tombstones, scheduled),
    archive: threadArchive(store),
    search: new MessageSearchable({ store, present: (actor, rows) => messages.present(actor, rows) }),
    ...messageApi({ sender, messages, reactions, pins, readState, scheduled, threads, rate, metrics, filter }),
    resourceScopes: { scheduled_message: "message.read" },
    notificationKinds: {
      mention: "mentions",
      direct_message: "directMessages",
      reply: "replies",
      scheduled_message_failed: null,
    },
    jobs: [
      defineJob({
        kind: NOTIFY_JOB,
        payload: NotifyPayload,
        run: ({ tenantId, payload }) => notifier.run(tenantId, payload),
      }),
      defineJob({
        kind: EXPIRE_JOB,
        payload: z.strictObject({ roomId: z.string() }),
        run: ({ tenantId, payload }) => retention.expire(tenantId, payload.roomId),
      }),
      defineJob({
        kind: SEND_JOB,
        payload: z.strictObject({ id: z.string() }),
        async run({ tenantId, payload }) {
          const startedAt = performance.now();
          const message = await scheduled.deliver(tenantId, payload.id);
          if (message !== undefined) countCommitted(metrics, message, startedAt);
        },
        onDeadLetter: ({ tenantId, payload, reason }) => scheduled.abandon(tenantId, payload.id, reason),
      }),
    ],
    async purgeRoom(tenantId, roomId) {
      await scheduled.purgeRoom(tenantId, roomId);
      await messages.purgeRoom(tenantId, roomId);
    },
    maintenance: { messages: () => retention.enqueueDue() },
    messages,
    sender,
  };
}
