// Derives the limits of each part from the settings, and the list that clients may read.
import type { StoredResponseLimits } from "@/adapters/store/idempotency_store.ts";
import type { Rate, Rates } from "@/core/operation.ts";
import type { WriteLimits } from "@/core/limit/write_budget.ts";
import { containerMemoryLimit } from "@/runtime/memory.ts";
import { withoutRateLimits, WS_LIMITS, type WsLimits } from "@/transport/shared/socket_limits.ts";
import type { Config } from "./config.ts";

/** Bytes of a command that recovers one channel, in the first frame after a reconnect. */
const SUBSCRIBE_BYTES = 240;

/** Connections of all tenants together, as a multiple of those of one: no tenant takes those of the others. */
const NODE_CONNECTIONS = 1.25;

/** The part of the memory of sockets that may have data which the clients of one tenant have not read. */
const UNREAD_PART = 4;

/** Limits that `SVC_RATE_LIMIT=off` disables. */
const RATE_SETTING = /_(PER_SECOND|PER_MINUTE|PER_DAY|BURST|CPU_PERCENT)$|_CONNECTIONS/;

export type Limits = {
  /** Whether rates and numbers of connections are limited. */
  isEnabled: boolean;
  requests: Rate;
  writes: Rate;
  unauthenticated: Rate;
  /** Uses of refresh tokens from one address. */
  refreshes: Rate;
  messages: Rates;
  /** A service may call this many times as often as a person. */
  serviceFactor: number;
  /** Share of the node's CPU time for one principal; `undefined` when limits are off. */
  cpuPercent: number | undefined;
  /** The same for one tenant, while others are served. */
  tenantCpuPercent: number | undefined;
  /** Agents that one principal may own. */
  agentsPerOwner: number;
  /** `undefined` when limits are off. */
  writtenBytes: WriteLimits | undefined;
  /** Tokens of AI; `undefined` when limits are off. */
  aiTokens: { principalPerDay: number; tenantPerDay: number } | undefined;
  storedResponses: StoredResponseLimits;
  files: { fileMaxBytes: number; tenantMaxBytes: number; memberMaxBytes: number };
  ws: WsLimits;
  /** Growth of memory that unfinished messages of sockets may cause. */
  socketMemoryBytes: number;
  /** By name, as shown by capabilities and `me`. */
  publicLimits: Readonly<Record<string, number>>;
};

/** The limits in force. */
export function limitsOf({ settings }: Config): Limits {
  const perMinute = (count: number, burst: number): Rate => ({ perSecond: count / 60, burst });
  const ws = socketLimitsOf(settings);
  return {
    isEnabled: settings.SVC_RATE_LIMIT,
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
    serviceFactor: settings.SVC_LIMIT_SERVICE_FACTOR,
    cpuPercent: settings.SVC_RATE_LIMIT ? settings.SVC_LIMIT_CPU_PERCENT : undefined,
    tenantCpuPercent: settings.SVC_RATE_LIMIT ? settings.SVC_LIMIT_TENANT_CPU_PERCENT : undefined,
    agentsPerOwner: settings.SVC_LIMIT_AGENTS_PER_OWNER,
    writtenBytes: settings.SVC_RATE_LIMIT
      ? {
        bytesPerMinute: settings.SVC_LIMIT_WRITTEN_BYTES_PER_MINUTE,
        bytesPerDay: settings.SVC_LIMIT_WRITTEN_BYTES_PER_DAY,
        tenantBytesPerDay: settings.SVC_LIMIT_TENANT_WRITTEN_BYTES_PER_DAY,
      }
      : undefined,
    aiTokens: settings.SVC_RATE_LIMIT
      ? {
        principalPerDay: settings.SVC_LIMIT_AI_TOKENS_PER_DAY,
        tenantPerDay: settings.SVC_LIMIT_TENANT_AI_TOKENS_PER_DAY,
      }
      : undefined,
    storedResponses: {
      responseMaxChars: settings.SVC_LIMIT_STORED_RESPONSE_BYTES,
      ownerMaxChars: settings.SVC_LIMIT_STORED_RESPONSES_BYTES,
    },
    files: {
      fileMaxBytes: settings.SVC_LIMIT_FILE_BYTES,
      tenantMaxBytes: settings.SVC_LIMIT_TENANT_FILE_BYTES,
      memberMaxBytes: settings.SVC_LIMIT_MEMBER_FILE_BYTES,
    },
    socketMemoryBytes: socketMemoryOf(settings),
    ws: settings.SVC_RATE_LIMIT ? ws : withoutRateLimits(ws),
    publicLimits: { ...shownSettings(settings), frameBytes: ws.frameMaxBytes },
  };
}

/** The default in a small container leaves memory for everything else. */
function socketMemoryOf({ SVC_LIMIT_SOCKET_MEMORY_BYTES: bytes }: Config["settings"]): number {
  return bytes ?? Math.min(256 * 1024 * 1024, containerMemoryLimit() / 8);
}

function socketLimitsOf(settings: Config["settings"]): WsLimits {
  const isAlone = settings.SVC_REDIS_URL === undefined && settings.SVC_DATABASE_URL.startsWith("sqlite:");
  const { connectMaxBytes, inboxMaxBytes } = WS_LIMITS;
  const firstFrameBytes = connectMaxBytes + SUBSCRIBE_BYTES * settings.SVC_LIMIT_SUBSCRIPTIONS;
  return {
    ...WS_LIMITS,
    // Refused for its size, a client would not come back. More than waits for its turn is refused in any case.
    frameMaxBytes: Math.max(settings.SVC_LIMIT_FRAME_BYTES, Math.min(firstFrameBytes, inboxMaxBytes)),
    outboxMaxBytes: settings.SVC_LIMIT_OUTBOX_BYTES,
    tenantUnreadMaxBytes: socketMemoryOf(settings) / UNREAD_PART,
    replyMaxEvents: settings.SVC_LIMIT_RECOVERY_EVENTS,
    // Half of the outbox may be in use when a reply is added.
    replyMaxBytes: Math.floor(settings.SVC_LIMIT_OUTBOX_BYTES / 4),
    subscriptionsMax: settings.SVC_LIMIT_SUBSCRIPTIONS,
    rate: { perSecond: settings.SVC_LIMIT_COMMANDS_PER_SECOND, burst: settings.SVC_LIMIT_COMMANDS_BURST },
    connectionsPerPrincipal: settings.SVC_LIMIT_CONNECTIONS_PER_PRINCIPAL,
    connectionsPerOwner: settings.SVC_LIMIT_CONNECTIONS_PER_OWNER,
    connectionsPerAddress: settings.SVC_LIMIT_CONNECTIONS_PER_ADDRESS,
    connectionsPerTenant: settings.SVC_LIMIT_CONNECTIONS,
    connectionsPerNode: Math.ceil(settings.SVC_LIMIT_CONNECTIONS * NODE_CONNECTIONS),
    // Events can be missed unless this is the only process that writes.
    ...(isAlone ? {} : { compareHeadsMs: 2000 }),
  };
}

/** Settings of limits by the names that clients see; without rates where they are off. */
function shownSettings(settings: Config["settings"]): Record<string, number> {
  return Object.fromEntries(
    Object.entries(settings).filter(([name, value]) =>
      name.startsWith("SVC_LIMIT_") && value !== undefined && (settings.SVC_RATE_LIMIT || !RATE_SETTING.test(name))
    ).map(([name, value]) => [
      name.slice("SVC_LIMIT_".length).toLowerCase().replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      Number(value),
    ]),
  );
}
