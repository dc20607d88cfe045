// The push module: subscriptions of browsers and devices, and what is sent to them when their person gets notifications.
import { z } from "@zod/zod";
import { defineJob, type JobDraft } from "@/core/job.ts";
import type { Module } from "@/core/module.ts";
import type { Platform } from "@/ports/platform.ts";
import { PUSH_JOB, PushAnnouncer } from "./announcer.ts";
import { pushOperations } from "./api.ts";
import { applicationKeys } from "./application_keys.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { SUBSCRIPTIONS_MAX } from "./schema.ts";
import { PushService } from "./service.ts";

const END_JOB = "push.end";
/** Until then a later notification is the better reason to try again. */
const ATTEMPTS_MAX = 5;

type Deps = Pick<ConstructorParameters<typeof PushService>[0], "identity" | "notifications" | "revalidate"> & {
  /** As in the settings; absent where nothing is pushed. */
  contact: string | undefined;
  hosts: readonly string[];
  /** Secrets of the gateway: the newest, and the one before it where there was one. */
  secrets: readonly Uint8Array[];
};

export function pushModule({ store, clock, cpu, metrics, outbound }: Platform, deps: Deps): Module {
  const { contact, hosts, secrets } = deps;
  const settings = contact === undefined ? undefined : { contact, hosts, keys: applicationKeys(secrets) };
  const push = new PushService({ ...deps, settings, store, clock, cpu, metrics, outbound });
  const announcer = new PushAnnouncer({ store, clock });
  return {
    name: "push",
    tags: { "push-subscriptions": "Notifications on browsers and devices whose client is closed." },
    operations: pushOperations(push),
    migrations,
    erases,
    jobs: [
      defineJob({
        kind: PUSH_JOB,
        payload: z.strictObject({ id: z.string() }),
        maxAttempts: ATTEMPTS_MAX,
        run: ({ tenantId, payload }) => push.push(tenantId, payload.id),
        // The notification is in the list, and the next one is pushed again.
        onDeadLetter: () => Promise.resolve(),
      }),
      defineJob({
        kind: END_JOB,
        payload: z.strictObject({ tokenId: z.string() }),
        run: ({ tenantId, payload }) => push.deleteByToken(tenantId, payload.tokenId),
      }),
    ],
    jobsOn: {
      token_ended: (tenantId, tokenId): JobDraft => ({ tenantId, kind: END_JOB, payload: { tokenId }, key: tokenId }),
    },
    maintenance: { push_subscriptions: () => push.purgeAbandoned() },
    onCommit: (events) => settings !== undefined && announcer.add(events),
    stop: () => announcer.flush(),
    capability: () => ({
      enabled: settings !== undefined,
      publicKey: settings?.keys[0]?.publicKey ?? null,
      subscriptions: SUBSCRIPTIONS_MAX,
    }),
  };
}
