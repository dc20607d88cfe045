// Events: what changed, as written to the log of a stream and as published to whoever listens.
import type { z } from "@zod/zod";
import type { Actor } from "./actor.ts";

/** What passing an event on takes besides handing it over; kept with the event, so it survives a lost bus message. */
export type EventEffect =
  /** End the subscriptions of these principals to this stream; `resubscribe` lets the client ask again at once. */
  | { kind: "evict"; principalIds: readonly string[] | "*"; reason: string; resubscribe?: true }
  /** Close the sockets of this principal stream: all of them, or those of one token. */
  | { kind: "disconnect"; tokenId?: string; reason: string }
  /** It tells of something older that stands at this place: who may not see that place gets the event as `shownTo` says. */
  | { kind: "about"; seq: number };

/** An event about to be written. `stream` is `room:<id>` or `principal:<id>` within the tenant. */
export type EventDraft = {
  tenantId: string;
  stream: string;
  type: string;
  /** Who did it; absent when the gateway itself did. */
  actor?: Pick<Actor, "principalId" | "kind">;
  data: unknown;
  effect?: EventEffect;
};

/** An event as it stands in the log. */
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

/** The type that an event has for those from whom it is hidden. */
export const HIDDEN_TYPE = "message.hidden";

/** Whether positions up to `hiddenUpTo` being hidden from somebody hides this event, which stands after them. */
export function isHidden({ effect }: Pick<StoredEvent, "effect">, hiddenUpTo: number): boolean {
  return effect?.kind === "about" && effect.seq <= hiddenUpTo;
}

/** The event with nothing in it but its place, so that the stream has no hole for those from whom it is hidden. */
export function emptied(event: StoredEvent): StoredEvent {
  const { id, at } = JSON.parse(event.json);
  return { ...event, type: HIDDEN_TYPE, json: JSON.stringify({ id, type: HIDDEN_TYPE, at, actor: null, data: {} }) };
}

/** The event as somebody gets it from whom positions up to `hiddenUpTo` are hidden. Every way out of the log passes here. */
export function shownTo(event: StoredEvent, hiddenUpTo: number): StoredEvent {
  return isHidden(event, hiddenUpTo) ? emptied(event) : event;
}

/** A publication that is not in the log: typing, presence, deltas, signals. */
export type EphemeralEvent = {
  tenantId: string;
  channel: string;
  json: string;
  /** `ClientInfo` of the publisher, encoded, when a client published it. */
  infoJson?: string;
  /** Only these principals get it; absent = every subscriber. */
  principalIds?: readonly string[];
  /** Someone came or went: `json` is their `ClientInfo`, and only subscribers who asked for join and leave get it. */
  push?: "join" | "leave";
};

/** Where a stream stands: `floor` is the last seq no longer in the log (0 = everything is there). */
export type StreamPosition = { epoch: string; head: number; floor: number };

/** Kinds of streams that are written to the log, named by the prefix of their names. */
export type StreamKind = "room" | "principal";

/** A type of durable event: what its `data` holds and where it appears. Read by the documents, and checked by the tests. */
export type EventType = {
  type: string;
  summary: string;
  data: z.ZodType;
  /** Kinds of streams it appears on; default rooms only. */
  streams?: readonly StreamKind[];
};

/** Whether events of this type appear on streams of this kind. */
export function appearsOn({ streams = ["room"] }: EventType, kind: string): boolean {
  return streams.some((stream) => stream === kind);
}

/** The stream of a room. */
export function roomStream(roomId: string): string {
  return `room:${roomId}`;
}

/** The stream of a principal: what all of their devices hear. */
export function principalStream(principalId: string): string {
  return `principal:${principalId}`;
}
