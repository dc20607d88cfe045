// One webhook, leased by one run on one node: the attempts that it makes, and what they mean for the webhook.
import { type Clock, iso } from "@/core/time/clock.ts";
import { newId } from "@/core/id.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Slots } from "@/core/limit/slots.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { Secrets } from "../secrets.ts";
import { type DeliveryRow, FRESH, type WebhookRow, type WebhookTables } from "../tables.ts";
import type { Payload } from "./payload.ts";
import type { Attempt, WebhookSender } from "./sender.ts";
import { DeliveryStore } from "./store.ts";

/** Longer than an attempt and a commit take: a lease that is renewed in time cannot end during an attempt. */
export const LEASE_MS = 45_000;
const RENEW_BELOW_MS = 25_000;

export type LeaseDeps = {
  store: Store<WebhookTables>;
  clock: Clock;
  metrics: Metrics;
  sender: WebhookSender;
  secrets: Secrets;
  /** Concurrent calls, by tenant and by owner in it. */
  slots: Slots;
};

/** How a node stops: first no attempt begins, later those under way are cut off. */
type StopSignals = { end: AbortSignal; cut: AbortSignal };

/** Why a run ends before all is delivered. */
export type Verdict =
  | { kind: "unavailable"; error: string; retryAfterMs: number | undefined }
  | { kind: "gone" }
  | { kind: "secret_lost" }
  /** The lease was lost, the webhook changed, or the node stops: another run continues. */
  | { kind: "ended" };

export type EventRef = Pick<DeliveryRow, "stream" | "epoch" | "seq" | "type">;

export class WebhookLease {
  readonly owner: string;
  readonly #deps: LeaseDeps;
  readonly #signals: StopSignals;
  #row: WebhookRow;
  #until: number;
  #count: number;
  #verdict: Verdict | undefined;
  #hasDelivered = false;
  #attempts: Omit<DeliveryRow, "slot">[] = [];

  constructor(deps: LeaseDeps, row: WebhookRow, signals: StopSignals) {
    this.#deps = deps;
    this.#signals = signals;
    this.#row = row;
    this.owner = row.lease_owner ?? "";
    this.#until = Date.parse(row.lease_until ?? "");
    this.#count = row.delivery_count;
  }

  get row(): WebhookRow {
    return this.#row;
  }

  /** Aborts when no further attempt is to begin. */
  get signal(): AbortSignal {
    return this.#signals.end;
  }

  get verdict(): Verdict | undefined {
    return this.#verdict;
  }

  get isOver(): boolean {
    return this.#verdict !== undefined || this.#signals.end.aborted;
  }

  end(verdict: Verdict): void {
    this.#verdict ??= verdict;
  }

  /**
   * Sends a payload once; `undefined` if the run is over, before the attempt or by it. After a wait it sends what `reload` resolves
   * to instead, or nothing.
   */
  async attempt(
    given: Payload,
    event: EventRef,
    attempt: number,
    reload: () => Promise<Payload | undefined>,
  ): Promise<Attempt | undefined> {
    const { clock, slots, sender, secrets, metrics } = this.#deps;
    const { tenant_id: tenantId, charged_id: chargedId } = this.#row;
    using slot = await slots.acquire([tenantId, streamKey(tenantId, chargedId)]);
    const leftMs = this.#until - clock.now();
    // More than its length: the clock was set back, and the lease as stored is cut to its length.
    if (leftMs < RENEW_BELOW_MS || leftMs > LEASE_MS) await this.commit();
    if (this.isOver) return undefined;
    const signing = secrets.of(this.#row, clock.now());
    if (signing === undefined) {
      this.end({ kind: "secret_lost" });
      return undefined;
    }
    const payload = slot.hasWaited || attempt > 1 ? await reload() : given;
    if (payload === undefined) return undefined;
    const at = iso(clock.now());
    const result = await sender.send({ url: this.#row.url, secrets: signing }, payload, this.#signals.cut);
    // A node that stops cuts its calls off. That says nothing of the endpoint.
    if (this.#signals.cut.aborted && result.outcome === "unavailable") return undefined;
    metrics.webhookDeliveries.inc({ outcome: result.outcome });
    this.#attempts.push(deliveryRow(this.#row, event, { eventId: payload.id, attempt, at, result }));
    if (result.outcome === "delivered") this.#hasDelivered = true;
    if (result.outcome === "gone") this.end({ kind: "gone" });
    if (result.outcome === "unavailable") {
      const error = result.error ?? `http_${result.httpStatus}`;
      this.end({ kind: "unavailable", error, retryAfterMs: result.retryAfterMs });
    }
    return result.outcome === "delivered" || result.outcome === "refused" ? result : undefined;
  }

  /** The last attempt of an event was one too many. */
  markParked(eventId: string): void {
    this.#deps.metrics.webhookDeliveries.inc({ outcome: "parked" });
    const last = this.#attempts.findLast((row) => row.event_id === eventId);
    if (last !== undefined) last.outcome = "parked";
  }

  /**
   * Stores what was done, together with `work`, and renews the lease; false if the lease was lost, or `work` says so. What is
   * not committed when the process ends is delivered again, with the same ids.
   */
  async commit(work: (deliveries: DeliveryStore) => Promise<boolean | void> = async () => {}): Promise<boolean> {
    const { store, clock } = this.#deps;
    const attempts = this.#attempts;
    this.#attempts = [];
    const count = this.#count;
    this.#count += attempts.length;
    const until = clock.now() + LEASE_MS;
    const recovered = this.#hasDelivered && this.#row.failures > 0 ? FRESH : {};
    const result = await store.write(async (tx) => {
      const deliveries = new DeliveryStore(tx.db);
      const row = await deliveries.renew(this.#row, this.owner, {
        lease_until: iso(until),
        delivery_count: count + attempts.length,
        ...recovered,
      });
      if (row === undefined) return undefined;
      await deliveries.addDeliveries(attempts, count);
      // What a former address got is delivered again, to the one that the webhook has now.
      return { row, isDone: row.url === this.#row.url && await work(deliveries) !== false };
    });
    if (result === undefined) {
      this.end({ kind: "ended" });
      return false;
    }
    this.#until = until;
    if (result.row.version !== this.#row.version) this.end({ kind: "ended" });
    this.#row = result.row;
    return result.isDone;
  }
}

function deliveryRow(
  { tenant_id, id }: WebhookRow,
  { stream, epoch, seq, type }: EventRef,
  { eventId, attempt, at, result }: { eventId: string; attempt: number; at: string; result: Attempt },
): Omit<DeliveryRow, "slot"> {
  return {
    tenant_id,
    webhook_id: id,
    id: newId("dlv"),
    event_id: eventId,
    stream,
    epoch,
    seq,
    type,
    attempt,
    outcome: result.outcome,
    http_status: result.httpStatus,
    error: result.error,
    duration_ms: result.durationMs,
    at,
    next_attempt_at: null,
  };
}
