// One connection's subscription to one feed: holds back what is published until its reply has been written, and follows
// the log for as long as the client lacks more than it may be given at once.
import type { Actor } from "@/core/actor.ts";
import { isHidden, shownTo, type StoredEvent } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import type { ClientInfo } from "@/ports/presence.ts";
import { because, CLOSE, UNSUBSCRIBE, type Verdict } from "./close.ts";
import type { Feed } from "./feed.ts";
import { encodePush, ERRORS, WireFault } from "./frame.ts";
import { PAGE } from "./pages.ts";

/** Encoded pushes that go to many sockets: lines, their weight, and how many publications they are. */
export type Batch = {
  readonly text: string;
  readonly bytes: number;
  readonly count: number;
  /** The place before the first of them, where the log has them. */
  readonly after: number | undefined;
};

/** The connection, as far as a subscription knows it. */
export interface Listener {
  readonly client: string;
  readonly actor: Actor | undefined;
  /** Whether so much waits for it that more should wait with whoever has it. */
  readonly isBehind: boolean;
  info(): ClientInfo;
  /** False where this is too much at once for a client that reads well. */
  push(text: string, bytes: number, count: number): boolean;
  /** Goes without so many publications, which no log has. */
  drop(count: number): void;
  /** The subscription is over; the listener forgets it. */
  forget(subscription: Subscription): void;
  close(verdict: Verdict): void;
}

/** Waiting: hears only its end. Holding: keeps what is published. Following: reads the log. Live: passes on what is published. */
type Phase = "waiting" | "holding" | "following" | "live" | "ended";

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

  /** Whether it hears nothing but its end. */
  get isMuted(): boolean {
    return this.hiddenUpTo === EVERYTHING;
  }

  /** The token may see nothing of it any more. */
  mute(): void {
    this.hiddenUpTo = EVERYTHING;
    if (this.#phase === "following") this.#phase = "live";
  }

  /** The token may see it again: the client comes back for what it did not hear. */
  unmute(): void {
    if (this.isMuted) this.end(UNSUBSCRIBE.insufficientState, CLOSE.insufficientState.reason);
  }

  deliver(batch: Batch): void {
    if (this.isMuted) return;
    if (this.#phase === "live") this.#pass(batch);
    else if (this.#phase === "holding") (this.#held ??= []).push(batch);
    else if (this.#phase === "following" && batch.after === undefined) this.#pass(batch);
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
    if (this.#followFrom === undefined || this.isMuted) {
      this.#phase = "live";
      for (const batch of held) this.deliver(batch);
    } else {
      void this.#follow(this.#followFrom);
    }
    // What it heard first may have been more than it takes.
    if (this.isLive) this.feed.arrived(this);
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
      if (!this.listener.push(push, push.length, 0)) this.listener.close(CLOSE.slow);
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

  /** What does not fit at once is read from the log instead, as fast as the client reads. */
  #pass({ text, bytes, count, after }: Batch): void {
    if (this.listener.push(text, bytes, count)) return;
    if (after === undefined) this.listener.drop(count);
    else void this.#follow(after);
  }

  /** Reads on until the client has what everybody has. A hole, or a log that is away, sends it back with the place it has. */
  async #follow(from: number): Promise<void> {
    this.#phase = "following";
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
          for (const event of events) {
            // What the feed has not told yet it will tell, and what does not fit is read again.
            if (this.#phase !== "following" || event.seq > this.feed.head || this.listener.isBehind) break;
            const { text, bytes, count } = this.feed.pushOf(event);
            if (!this.listener.push(text, bytes, count)) return this.listener.close(CLOSE.slow);
            last = event.seq;
          }
        }
      }
    } catch (thrown) {
      log.warn("a recovery broke off", { channel: this.feed.channel, cause: String(thrown) });
      this.end(UNSUBSCRIBE.insufficientState, CLOSE.insufficientState.reason);
    }
  }
}
