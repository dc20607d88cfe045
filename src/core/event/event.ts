// Events: what changed, as stored in the log of a stream and published to subscribers. And what is published only: ephemeral
// events for clients, signals for nodes.
import type { z } from "@zod/zod";
import type { Actor } from "../actor.ts";

/** What delivering an event does besides. It is stored with the event, so it survives a lost bus message. */
export type EventEffect =
  /** End the subscriptions of these principals to this stream; `resubscribe` lets the client subscribe again at once. */
  | { kind: "evict"; principalIds: readonly string[] | "*"; reason: string; resubscribe?: true }
  /** Close the sockets of this principal stream: all of them, or those of one token. */
  | { kind: "disconnect"; tokenId?: string; reason: string }
  /** It concerns an older position of the stream: readers from whom that is hidden receive it redacted (`redactFor`). */
  | { kind: "concerns"; seq: number };

/** Who caused an event. */
export type EventActor = Pick<Actor, "principalId" | "kind">;

/** An event about to be written. `stream` is `room:<id>` or `principal:<id>` within the tenant. */
export type EventDraft = {
  tenantId: string;
  stream: string;
  type: string;
  /** Absent for the gateway itself. */
  actor?: EventActor | undefined;
  data: unknown;
  effect?: EventEffect;
};

/** An event as stored in the log. */
export type StoredEvent = {
  tenantId: string;
  stream: string;
  epoch: string;
  /** Position in the stream: starts at 1, grows by exactly 1. The `offset` of `/ws`. */
  seq: number;
  type: string;
  /** The publication `{id, type, at, actor, data}`, encoded once. */
  json: string;
  effect?: EventEffect;
};

/** A publication that is not in the log: typing, presence, deltas, signals. */
export type EphemeralEvent = {
  tenantId: string;
  channel: string;
  json: string;
  /** `ClientInfo` of the publisher, encoded, when a client published it. */
  infoJson?: string;
  /** Only these principals receive it; absent = every subscriber. */
  principalIds?: readonly string[] | undefined;
  /** A client joined or left: `json` is its `ClientInfo`; only subscribers that requested join and leave pushes receive it. */
  push?: "join" | "leave";
};

declare const signalName: unique symbol;

/** A message for every node that is not stored; `defineSignal` makes it. */
export type Signal = { kind: string & { readonly [signalName]: true }; tenantId: string; id: string };

/** A kind of signal: creates those that are sent, and recognizes those that are received. */
type SignalKind = { create(tenantId: string, id: string): Signal; matches(signal: Signal): boolean };

const hints = new Set<Signal["kind"]>();

/**
 * Defines a kind of signal. The module that sends it does so once, and exports it to those that receive it. A write resolves once
 * all nodes have its signals, so that none acts on rights that it ended; for one that `isHint`, it does not wait.
 */
export function defineSignal(name: string, { isHint = false } = {}): SignalKind {
  const kind = name as Signal["kind"]; // the only place that makes one
  if (isHint) hints.add(kind);
  return { create: (tenantId, id) => ({ kind, tenantId, id }), matches: (signal) => signal.kind === kind };
}

export function isHint({ kind }: Signal): boolean {
  return hints.has(kind);
}

const ALL = "*";
const accessEnded = defineSignal("access_ended");

/** What all nodes are sent about evictions: subscriptions may depend on other streams than their own. */
export function accessSignalsOf(events: readonly StoredEvent[]): Signal[] {
  const signals = new Map<string, Signal>();
  for (const { tenantId, effect } of events) {
    if (effect?.kind !== "evict") continue;
    for (const id of effect.principalIds === "*" ? [ALL] : effect.principalIds) {
      signals.set(`${tenantId}/${id}`, accessEnded.create(tenantId, id));
    }
  }
  return [...signals.values()];
}

/** Whether the signal says that a principal may have lost access to a stream. */
export function mayEndAccess(signal: Signal, tenantId: string, principalIds: readonly (string | null)[]): boolean {
  return accessEnded.matches(signal) && signal.tenantId === tenantId &&
    (signal.id === ALL || principalIds.includes(signal.id));
}

/** The state of a stream: `floor` is the last seq that was trimmed from the log (0 = none). */
export type StreamPosition = { epoch: string; head: number; floor: number };

/** Kinds of streams that are written to the log, named by the prefix of their names. */
type StreamKind = "room" | "principal" | "plugin";

/** A type of durable event: what its `data` contains and where it appears. */
export type EventType = {
  type: string;
  summary: string;
  data: z.ZodType;
  /** Scope that a token needs to receive it; for others its content is removed. */
  scope: string;
  /** Kinds of streams it appears on; default rooms only. */
  streams?: readonly StreamKind[];
};

/** Types of events that all need the same scope. */
export function eventTypes(scope: string, types: readonly Omit<EventType, "scope">[]): readonly EventType[] {
  return types.map((type) => ({ ...type, scope }));
}

/** Whether events of this type appear on streams of this kind. */
export function appearsOn({ streams = ["room"] }: EventType, kind: string): boolean {
  return streams.some((stream) => stream === kind);
}

const ROOM_PREFIX = "room:";

export function roomStream(roomId: string): string {
  return ROOM_PREFIX + roomId;
}

/** The id of the room whose stream it is; `undefined` if it is another one. */
export function roomOfStream(stream: string): string | undefined {
  return stream.startsWith(ROOM_PREFIX) ? stream.slice(ROOM_PREFIX.length) : undefined;
}

/** The stream of a plugin: what it is asked. */
export function pluginStream(pluginId: string): string {
  return `plugin:${pluginId}`;
}

const PRINCIPAL_PREFIX = "principal:";

/** The stream of a principal, which all of its devices receive. */
export function principalStream(principalId: string): string {
  return PRINCIPAL_PREFIX + principalId;
}

/** The id of the principal whose stream it is; `undefined` if it is another one. */
export function principalOfStream(stream: string): string | undefined {
  return stream.startsWith(PRINCIPAL_PREFIX) ? stream.slice(PRINCIPAL_PREFIX.length) : undefined;
}

/** Who changes something: a caller, or the gateway itself in a tenant. */
type EventSource = Actor | { tenantId: string };

/** An event on the stream of a room. */
export function roomEvent(by: EventSource, roomId: string, type: string, data: unknown): EventDraft {
  return eventOn(roomStream(roomId), by, type, data);
}

/** An event on the stream of a principal. */
export function principalEvent(by: EventSource, principalId: string, type: string, data: unknown): EventDraft {
  return eventOn(principalStream(principalId), by, type, data);
}

function eventOn(stream: string, by: EventSource, type: string, data: unknown): EventDraft {
  return { tenantId: by.tenantId, stream, type, actor: "principalId" in by ? by : undefined, data };
}
