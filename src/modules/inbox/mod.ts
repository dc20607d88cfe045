// The inbox module: agents outside lease what notified them, over HTTP, without a connection that stays open.
import type { Actor } from "@/core/actor.ts";
import { exampleId } from "@/core/id.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import type { NotificationModule } from "@/modules/notification/mod.ts";
import { StreamWaiter } from "@/modules/sync/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { deliveriesSchema, InboxAck, InboxAcked, InboxPull } from "./schema.ts";
import { InboxService } from "./service.ts";

const PATH = "/v1/collaboration/agents/:id/inbox";

export function inboxModule(
  { store, clock, bus }: Platform,
  { notifications, schemas, revalidate }: Pick<NotificationModule, "notifications" | "schemas"> & {
    revalidate: (actor: Actor) => Promise<Actor | undefined>;
  },
): Module {
  const waiter = new StreamWaiter(bus);
  const inbox = new InboxService({ store, clock, waiter, notifications, revalidate });
  return {
    name: "inbox",
    migrations,
    erases,
    operations: [
      defineOperation({
        name: "inbox.pull",
        summary: "Lease unread notifications of an agent outside, for one of its workers",
        description:
          "Mentions, direct messages and all else that notifies the agent, the oldest first. What is not acknowledged before the " +
          "lease ends is delivered again. Nothing is stored for agents that do not use it.",
        access: { scope: "notification.write" },
        http: { method: "POST", path: `${PATH}/pull`, status: 200 },
        input: InboxPull,
        output: deliveriesSchema(schemas),
        example: { id: "me", max: 5, leaseSeconds: 60 },
        run: (context, input) => inbox.pull(context, input),
      }),
      defineOperation({
        name: "inbox.ack",
        summary: "Acknowledge a delivery, give it back or extend its lease",
        description: "A delivery whose lease was lost fails with `conflict`.",
        access: { scope: "notification.write" },
        http: { method: "POST", path: `${PATH}/:deliveryId/ack`, status: 200 },
        input: InboxAck,
        output: InboxAcked,
        faults: ["conflict"],
        example: { id: "me", deliveryId: exampleId("dlv"), outcome: "done" },
        run: (context, input) => inbox.ack(context, input),
      }),
    ],
    maintenance: { inbox: () => inbox.purge() },
    drain: () => waiter.stop(),
  };
}
