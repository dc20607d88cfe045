// One connection's subscription to one channel: buffers publications until its reply is sent, and catches up from the log
// while the client lags by more than fits its outbox.
import { nextTurn } from "@/core/caller.ts";
import { delay } from "@/core/time/clock.ts";
import type { StoredEvent } from "@/core/event/event.ts";
import { type EventView, isHidden, redactFor } from "@/core/event/event_view.ts";
import { logOf } from "@/core/log.ts";
import { DISCONNECT, withReason } from "../shared/disconnect.ts";
import type { ChannelFanout, ChannelSubscriber, EncodedPush, SubscriberConnection } from "./channel_fanout.ts";
import { messageOf } from "./outbox.ts";
import { encodePush, ERRORS, ProtocolError, UNSUBSCRIBE } from "./protocol.ts";
import { PAGE_SIZE } from "./recovery_cache.ts";

/** `pending`: delivers nothing. `buffering`: buffers pushes. `catching_up`: reads the log. `live`: delivers pushes. */
type SubscriptionPhase = "pending" | "buffering" | "catching_up" | "live" | "ended";

/** Interval of checks whether a slow client has read. */
const BACKPRESSURE_POLL_MS = 20;

const log = logOf("ws");

/** Added to its channel when constructed, so that no removal is missed. */
export class Subscription implements ChannelSubscriber {
  readonly fanout: ChannelFanout;
  readonly connection: SubscriberConnection;
  /** Created by the server at connect; the client cannot end it. */
  readonly isServerSide: boolean;
  readonly wantsJoinLeave: boolean;
  /** Positions up to here are hidden from the subscriber; later events about them are redacted. */
  hiddenUpTo = 0;
  #phase: SubscriptionPhase = "pending";
  #buffered: EncodedPush[] | undefined;
  /** Seq of the last event in the reply, if the reply does not include all missed events. */
  #catchUpFrom: number | undefined;
  #endCode = 0;

  constructor(
    fanout: ChannelFanout,
    connection: SubscriberConnection,
    options: { isServerSide: boolean; wantsJoinLeave: boolean },
  ) {
    this.fanout = fanout;
    this.connection = connection;
    this.isServerSide = options.isServerSide;
    this.wantsJoinLeave = options.wantsJoinLeave;
    fanout.add(this);
  }

  /** Whether the client has its reply. */
  get isLive(): boolean {
    return this.#phase === "live" || this.#phase === "catching_up";
  }

  get view(): EventView {
    return { hiddenUpTo: this.hiddenUpTo, filter: this.connection.eventFilter };
  }

  deliver(push: EncodedPush): void {
    if (this.#phase === "live") this.#push(push);
    else if (this.#phase === "buffering") (this.#buffered ??= []).push(push);
    else if (this.#phase === "catching_up" && push.afterSeq === undefined) this.#push(push);
  }

  /** From here on no push is missed: call synchronously with reading the position. */
  startBuffering(): void {
    this.assertOpen();
    this.#phase = "buffering";
  }

  /** The reply ends with this position; later events are read from the log after the reply. */
  catchUpFrom(seq: number): void {
    this.#catchUpFrom = seq;
  }

  /**
   * Up to `limit` events after a position as visible to the subscriber; `undefined` if the log no longer has all of them. Others
   * have their turn before.
   */
  async read(after: number, limit: number): Promise<readonly StoredEvent[] | undefined> {
    await nextTurn();
    const events = await this.fanout.read(after, limit);
    // Unless an event is hidden, this very array is returned: `RecoveryCache` encodes an array once for all subscribers.
    const { view } = this;
    if (!events?.some((event) => isHidden(event, view))) return events;
    return events.map((event) => redactFor(event, view));
  }

  /** Delivers buffered and later pushes; call right after the reply was queued. */
  activate(): void {
    if (this.#phase !== "buffering") return;
    const buffered = this.#buffered ?? [];
    this.#buffered = undefined;
    if (this.#catchUpFrom === undefined) {
      this.#phase = "live";
      for (const push of buffered) this.deliver(push);
    } else {
      void this.#catchUp(this.#catchUpFrom);
    }
    // Delivering the buffer may have closed the connection.
    if (this.isLive) this.fanout.announceJoin(this);
  }

  /** Throws the error of the reply if the subscription ended while the reply was prepared. */
  assertOpen(): void {
    if (this.#phase !== "ended") return;
    throw new ProtocolError(this.#endCode < UNSUBSCRIBE.insufficientState ? ERRORS.permissionDenied : ERRORS.internal);
  }

  /** Ends it from the server and notifies the client. */
  end(code: number, reason: string): void {
    const wasLive = this.isLive;
    this.unsubscribe();
    this.#endCode = code;
    if (!wasLive) return;
    if (this.isServerSide) {
      this.connection.close(
        code < UNSUBSCRIBE.insufficientState ? withReason(DISCONNECT.forced, reason) : DISCONNECT.insufficientState,
      );
    } else {
      const push = encodePush(this.fanout.channel, "unsubscribe", JSON.stringify({ code, reason }));
      if (!this.connection.push(messageOf(push))) this.connection.close(DISCONNECT.slow);
    }
  }

  /** Ends it without notifying the client, which asked for it or has disconnected. */
  unsubscribe(): void {
    if (this.#phase === "ended") return;
    const wasLive = this.isLive;
    this.#phase = "ended";
    this.#buffered = undefined;
    this.connection.removeSubscription(this.fanout.channel);
    this.fanout.remove(this, wasLive);
  }

  /** A push that does not fit is read from the log later, as fast as the client reads. */
  #push(push: EncodedPush): void {
    if (this.connection.push(push)) return;
    if (push.afterSeq === undefined) this.connection.discard(push.count);
    else void this.#catchUp(push.afterSeq);
  }

  /** Reads the log until the client is up to date. After a gap or a failed read the client resubscribes from its position. */
  async #catchUp(from: number): Promise<void> {
    this.#phase = "catching_up";
    let last = from;
    try {
      while (this.#phase === "catching_up") {
        if (this.fanout.head <= last) {
          this.#phase = "live";
        } else if (this.connection.isBackpressured) {
          await delay(BACKPRESSURE_POLL_MS);
        } else {
          const events = await this.read(last, PAGE_SIZE);
          if (events === undefined) throw new Error("Events are no longer in the log");
          for (const event of events) {
            // Events after the head will be delivered as pushes; those that do not fit are read again.
            if (this.#phase !== "catching_up" || event.seq > this.fanout.head || this.connection.isBackpressured) break;
            if (!this.connection.push(this.fanout.pushOf(event))) return this.connection.close(DISCONNECT.slow);
            last = event.seq;
          }
        }
      }
    } catch (thrown) {
      log.warn("recovery aborted", { channel: this.fanout.channel, cause: String(thrown) });
      this.end(UNSUBSCRIBE.insufficientState, DISCONNECT.insufficientState.reason);
    }
  }
}
