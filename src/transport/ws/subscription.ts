// One connection's subscription to one feed: holds back what is published until its reply has been written, and follows
// the log for as long as the client is further behind than one reply can make good.
import { Buffer } from "node:buffer";
import type { Actor } from "@/core/actor.ts";
import { isHidden, shownTo, type StoredEvent } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import type { ClientInfo } from "@/ports/presence.ts";
import { because, CLOSE, UNSUBSCRIBE, type Verdict } from "./close.ts";
import type { Feed } from "./feed.ts";
import { encodePublication, encodePush, ERRORS, WireFault } from "./frame.ts";

/** Encoded pushes that go to many sockets: lines, their weight, how many publications they are, and whether the log has them. */
export type Batch = {
  readonly text: string;
  readonly bytes: number;
  readonly count: number;
  readonly isLogged: boolean;
};

/** The connection, as far as a subscription knows it. */
export interface Listener {
  readonly client: string;
  readonly actor: Actor | undefined;
  /** Whether so much waits for it that more should wait with whoever has it. */
  readonly isBehind: boolean;
  info(): ClientInfo;
  push(text: string, bytes: number, count: number): void;
  /** The subscription is over; the listener forgets it. */
  forget(subscription: Subscription): void;
  close(verdict: Verdict): void;
}

/** Waiting: hears only its end. Holding: keeps what is published. Following: reads the log. Live: passes on what is published. */
type Phase = "waiting" | "holding" | "following" | "live" | "ended";

const PAGE = 100;
/** How soon a reader that is behind is looked at again. */
const PATIENCE_MS = 20;

const log = logOf("ws");

/** Of one who may see nothing of a stream: after every position. */
const EVERYTHING = Number.MAX_SAFE_INTEGER;

/** Made for one listener, in its feed from the start, so that a removal cannot slip in between. */
export class Subscription {
  readonly feed: Feed;
  readonly listener: Listener;
  /** Made by the server at connect; the client cannot end it. */
  readonly isServerSide: boolean;
  readonly wantsJoinLeave: boolean;
  /** Positions up to here are never shown to the listener; later events about them come empty. */
  hiddenUpTo = 0;
  #phase: Phase = "waiting";
  #held: Batch[] | undefined;
  /** Place of the last event the client has, where the reply does not bring it up to date. */
  #followFrom: number | undefined;
  #endedWith = 0;

  constructor(feed: Feed, listener: Listener, options: { isServerSide: boolean; wantsJoinLeave: boolean }) {
    this.feed = feed;
    this.listener = listener;
    this.isServerSide = options.isServerSide;
    this.wantsJoinLeave = options.wantsJoinLeave;
    feed.add(this);
  }

  /** Whether the client has its reply. */
  get isLive(): boolean {
    return this.#phase === "live" || this.#phase === "following";
  }

  /** From here on it hears only its end: the token may see nothing of this. */
  mute(): void {
    this.hiddenUpTo = EVERYTHING;
  }

  deliver(batch: Batch): void {
    if (this.hiddenUpTo === EVERYTHING) return;
    if (this.#phase === "live") this.#pass(batch);
    else if (this.#phase === "holding") (this.#held ??= []).push(batch);
    else if (this.#phase === "following" && !batch.isLogged) this.#pass(batch);
  }

  /** From here on nothing is missed: call in the same breath as the position is read. */
  hold(): void {
    this.assertOpen();
    this.#phase = "holding";
  }

  /** The reply ends with this place: what lies beyond comes from the log, after the reply, as fast as it is read. */
  followFrom(seq: number): void {
    this.#followFrom = seq;
  }

  /** Events right after a place as the listener may see them, at most `limit`; `undefined` when the log does not have them whole. */
  async read(after: number, limit: number): Promise<readonly StoredEvent[] | undefined> {
    const events = await this.feed.read(after, limit);
    // Where nothing is hidden it is this very array, no copy: `Pages` encodes one once for all who come back for it.
    if (!events?.some((event) => isHidden(event, this.hiddenUpTo))) return events;
    return events.map((event) => shownTo(event, this.hiddenUpTo));
  }

  /** Passes on what was held and everything after; call right after the reply was queued. */
  goLive(): void {
    if (this.#phase !== "holding") return;
    const held = this.#held ?? [];
    this.#held = undefined;
    if (this.#followFrom === undefined) {
      this.#phase = "live";
      for (const batch of held) this.#pass(batch);
    } else {
      this.#phase = "following";
      void this.#follow(this.#followFrom);
    }
    this.feed.arrived(this);
  }

  /** Throws what the reply must say when it ended while the reply was being prepared. */
  assertOpen(): void {
    if (this.#phase !== "ended") return;
    throw new WireFault(this.#endedWith < UNSUBSCRIBE.insufficientState ? ERRORS.permissionDenied : ERRORS.internal);
  }

  /** Ends it from the server's side and tells the client. */
  end(code: number, reason: string): void {
    const wasLive = this.isLive;
    this.leave();
    this.#endedWith = code;
    if (!wasLive) return;
    if (this.isServerSide) {
      this.listener.close(
        code < UNSUBSCRIBE.insufficientState ? because(CLOSE.forced, reason) : CLOSE.insufficientState,
      );
    } else {
      const push = encodePush(this.feed.channel, "unsubscribe", JSON.stringify({ code, reason }));
      this.listener.push(push, push.length, 0);
    }
  }

  /** Ends it without a word: the client asked, or is gone. */
  leave(): void {
    if (this.#phase === "ended") return;
    const wasLive = this.isLive;
    this.#phase = "ended";
    this.#held = undefined;
    this.listener.forget(this);
    this.feed.remove(this, wasLive);
  }

  #pass({ text, bytes, count }: Batch): void {
    this.listener.push(text, bytes, count);
  }

  /** Reads on until the client has what everybody has. A hole, or a log that is away, sends it back with the place it has. */
  async #follow(from: number): Promise<void> {
    let last = from;
    try {
      while (this.#phase === "following") {
        if (this.feed.head <= last) {
          this.#phase = "live";
        } else if (this.listener.isBehind) {
          await new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
        } else {
          const events = await this.read(last, PAGE);
          if (events === undefined) throw new Error("Events are gone from the log");
          for (const { json, seq } of events) {
            // What the feed has not told yet it will tell, and what does not fit is read again.
            if (this.#phase !== "following" || seq > this.feed.head || this.listener.isBehind) break;
            const push = encodePush(this.feed.channel, "pub", encodePublication(json, seq));
            this.listener.push(push, Buffer.byteLength(push), 1);
            last = seq;
          }
        }
      }
    } catch (thrown) {
      log.warn("a recovery broke off", { channel: this.feed.channel, cause: String(thrown) });
      this.end(UNSUBSCRIBE.insufficientState, CLOSE.insufficientState.reason);
    }
  }
}
