// From settings to the limits that each part works with, and to the list that clients may read.
import type { Rate } from "@/core/operation.ts";
import type { Config } from "@/config.ts";
import { withoutCaps, WS_LIMITS, type WsLimits } from "@/transport/ws/limits.ts";

/** What a client needs, in the first frame after it was away, to ask for one of its channels from where it was. */
const SUBSCRIBE_BYTES = 240;

/** Limits that `SVC_RATE_LIMIT=off` lifts. */
const IS_CAP = /_(PER_SECOND|PER_MINUTE|BURST)$|_CONNECTIONS/;

export type Limits = {
  /** Whether anything is counted against rates and numbers of connections. */
  isOn: boolean;
  requests: Rate;
  writes: Rate;
  unauthenticated: Rate;
  /** Uses of refresh tokens from one address. */
  refreshes: Rate;
  messages: { human: Rate; agent: Rate };
  files: { fileMaxBytes: number; tenantMaxBytes: number };
  ws: WsLimits;
  /** By name, as capabilities and `me` show them. */
  shown: Readonly<Record<string, number>>;
};

/** The limits in force. */
export function limitsOf({ settings }: Config): Limits {
  const perMinute = (count: number, burst: number): Rate => ({ perSecond: count / 60, burst });
  const isAlone = settings.SVC_REDIS_URL === undefined && settings.SVC_DATABASE_URL.startsWith("sqlite:");
  const { connectMaxBytes, inboxMaxBytes } = WS_LIMITS;
  const firstFrameBytes = connectMaxBytes + SUBSCRIBE_BYTES * settings.SVC_LIMIT_SUBSCRIPTIONS;
  const ws: WsLimits = {
    ...WS_LIMITS,
    // Refused for its size, a client would not come back. More than waits for its turn is refused in any case.
    frameMaxBytes: Math.max(settings.SVC_LIMIT_FRAME_BYTES, Math.min(firstFrameBytes, inboxMaxBytes)),
    outboxMaxBytes: settings.SVC_LIMIT_OUTBOX_BYTES,
    replyMaxEvents: settings.SVC_LIMIT_RECOVERY_EVENTS,
    // A reply is added while half of the outbox may be waiting there already.
    replyMaxBytes: Math.floor(settings.SVC_LIMIT_OUTBOX_BYTES / 4),
    subscriptionsMax: settings.SVC_LIMIT_SUBSCRIPTIONS,
    rate: { perSecond: settings.SVC_LIMIT_COMMANDS_PER_SECOND, burst: settings.SVC_LIMIT_COMMANDS_BURST },
    connectionsPerPrincipal: settings.SVC_LIMIT_CONNECTIONS_PER_PRINCIPAL,
    connectionsPerAddress: settings.SVC_LIMIT_CONNECTIONS_PER_ADDRESS,
    connectionsPerNode: settings.SVC_LIMIT_CONNECTIONS,
    // Only where no other process can write, nothing can be missed.
    ...(isAlone ? {} : { compareHeadsMs: 2000 }),
  };
  const shown = Object.fromEntries(
    Object.entries(settings).filter(([name]) =>
      name.startsWith("SVC_LIMIT_") && (settings.SVC_RATE_LIMIT || !IS_CAP.test(name))
    ).map(([name, value]) => [
      name.slice("SVC_LIMIT_".length).toLowerCase().replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      Number(value),
    ]),
  );
  return {
    isOn: settings.SVC_RATE_LIMIT,
    requests: perMinute(settings.SVC_LIMIT_REQUESTS_PER_MINUTE, settings.SVC_LIMIT_REQUESTS_BURST),
    writes: perMinute(settings.SVC_LIMIT_WRITES_PER_MINUTE, settings.SVC_LIMIT_WRITES_BURST),
    unauthenticated: perMinute(
      settings.SVC_LIMIT_UNAUTHENTICATED_PER_MINUTE,
      settings.SVC_LIMIT_UNAUTHENTICATED_PER_MINUTE,
    ),
    refreshes: perMinute(settings.SVC_LIMIT_REFRESHES_PER_MINUTE, settings.SVC_LIMIT_REFRESHES_PER_MINUTE),
    messages: {
      human: { perSecond: settings.SVC_LIMIT_MESSAGES_PER_SECOND, burst: settings.SVC_LIMIT_MESSAGES_BURST },
      agent: {
        perSecond: settings.SVC_LIMIT_AGENT_MESSAGES_PER_SECOND,
        burst: settings.SVC_LIMIT_AGENT_MESSAGES_BURST,
      },
    },
    files: { fileMaxBytes: settings.SVC_LIMIT_FILE_BYTES, tenantMaxBytes: settings.SVC_LIMIT_TENANT_FILE_BYTES },
    ws: settings.SVC_RATE_LIMIT ? ws : withoutCaps(ws),
    shown: { ...shown, frameBytes: ws.frameMaxBytes },
  };
}
