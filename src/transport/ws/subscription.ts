// One connection's subscription to one feed: holds back what is published until its reply has been written.
import type { Actor } from "@/core/actor.ts";
import type { ClientInfo } from "@/ports/presence.ts";
import { because, CLOSE, UNSUBSCRIBE, type Verdict } from "./close.ts";
import type { Feed } from "./feed.ts";
import { encodePush, ERRORS, WireFault } from "./frame.ts";

/** Encoded pushes that go to many sockets: lines, their weight, and how many publications they are. */
export type Batch = { readonly text: string; readonly bytes: number; readonly count: number };

/** The connection, as far as a subscription knows it. */
export interface Listener {
  readonly client: string;
  readonly actor: Actor | undefined;
  info(): ClientInfo;
  push(text: string, bytes: number, count: number): void;
  /** The subscription is over; the listener forgets it. */
  forget(subscription: Subscription): void;
  close(verdict: Verdict): void;
}

/** Waiting: hears only its end. Holding: keeps what is published. Live: passes it on. */
type Phase = "waiting" | "holding" | "live" | "ended";

/** Made for one listener, in its feed from the start, so that a removal cannot slip in between. */
export class Subscription {
  readonly feed: Feed;
  readonly listener: Listener;
  /** Made by the server at connect; the client cannot end it. */
  readonly isServerSide: boolean;
  readonly wantsJoinLeave: boolean;
  /** Positions up to here are never shown to the listener. */
  hiddenUpTo = 0;
  #phase: Phase = "waiting";
  #held: Batch[] | undefined;
  #endedWith = 0;

  constructor(feed: Feed, listener: Listener, options: { isServerSide: boolean; wantsJoinLeave: boolean }) {
    this.feed = feed;
    this.listener = listener;
    this.isServerSide = options.isServerSide;
    this.wantsJoinLeave = options.wantsJoinLeave;
    feed.add(this);
  }

  get isLive(): boolean {
    return this.#phase === "live";
  }

  deliver(batch: Batch): void {
    if (this.#phase === "live") this.listener.push(batch.text, batch.bytes, batch.count);
    else if (this.#phase === "holding") (this.#held ??= []).push(batch);
  }

  /** From here on nothing is missed: call in the same breath as the position is read. */
  hold(): void {
    this.assertOpen();
    this.#phase = "holding";
  }

  /** Passes on what was held and everything after; call right after the reply was queued. */
  goLive(): void {
    if (this.#phase !== "holding") return;
    this.#phase = "live";
    for (const batch of this.#held ?? []) this.listener.push(batch.text, batch.bytes, batch.count);
    this.#held = undefined;
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
}
