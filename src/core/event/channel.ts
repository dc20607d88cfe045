// What a module offers on `/ws` besides its operations: who may subscribe to a kind of channel, what may be published on it.
import type { z } from "@zod/zod";
import type { Actor } from "../actor.ts";

/** A kind of ephemeral publication that clients may make. */
export type EphemeralKind = {
  summary: string;
  /** Strict schema of the publication's `data` field. */
  data: z.ZodType;
  /** Longest encoded `data` in bytes; default 1024. */
  maxBytes?: number;
  /** Principals that receive it; absent = every subscriber of the channel. Throws the Fault that the publisher receives. */
  recipients?(
    data: unknown,
    from: { actor: Actor; id: string },
  ): readonly string[] | undefined | Promise<readonly string[] | undefined>;
};

/** A kind of publication that only the gateway sends, and does not store. */
export type NoticeKind = Pick<EphemeralKind, "summary" | "data">;

/** What an actor may see of a channel. */
export type ChannelGrant = {
  /** Positions up to here are never shown: a recovery or a history starts after it, later events about them are redacted. */
  hiddenUpTo?: number;
};

/** Whose presence guests of the tenant may see; all others see every client. */
export type PresenceVisibility = {
  /** Those of the principals that the viewer may see. */
  filterVisibleIds(viewer: Actor, principalIds: readonly string[]): Promise<ReadonlySet<string>>;
  /** The ids of those guests, all of one tenant, that may see the principal. */
  filterViewers(guests: readonly Actor[], principalId: string): Promise<ReadonlySet<string>>;
};

/** One kind of channel, named by the prefix before the colon. */
export type ChannelKind = {
  /** `room` for channels `room:<id>`. */
  prefix: string;
  summary: string;
  /** Backed by the durable log: recoverable, offsets are seqs. */
  isDurable: boolean;
  /** Presence and join/leave are served while the channel has at most this many subscribers; 0 = never. */
  presenceMax: number;
  /** Absent where every subscriber may know all others. */
  presenceVisibility?: PresenceVisibility;
  /**
   * What is published may be from any stream: a subscription ends when its principal loses access to one. The client subscribes
   * again, and is authorized.
   */
  spansStreams?: boolean;
  /** Throws the Fault that the caller receives when the actor may not do this now. */
  authorize(actor: Actor, id: string, intent: "subscribe" | "publish"): Promise<ChannelGrant | void>;
  /** Publication kinds by name; a client publishes `{type, data}`. */
  ephemeral: Readonly<Record<string, EphemeralKind>>;
  /** What the gateway publishes besides events of the log, by name; default nothing. */
  notices?: Readonly<Record<string, NoticeKind>>;
};
