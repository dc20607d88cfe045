// What the clients of a tenant have not read. The runtime cannot drop what it was given, so it gets a share of a tenant at most;
// the rest waits in outboxes, up to as much again. Clients of other tenants notice nothing.
import { tenantOfCharged } from "@/core/actor.ts";
import { Places } from "@/core/limit/slots.ts";

/** A message in outboxes. */
type WaitingMessage = {
  readonly bytes: number;
  /** Number of slow clients it waits for; only the first one takes memory. */
  waiting: number;
};

/** An outbox as its tenant sees it. */
type CountedOutbox = {
  readonly owner: string | undefined;
  /** What waits here since its client is slow. */
  readonly waitingBytes: number;
  /** Counts exactly what the runtime has. */
  measure(): void;
  /** Closes the connection. */
  onOverflow(): void;
};

/** Large messages that the runtime has of a tenant beyond its share. A client that reads takes one in milliseconds. */
const LARGE_MESSAGES = { perOwner: 4, perTenant: 128, perNode: 160 };
/** What is counted is an upper bound until it is measured, after it has grown by this part of the share. */
const MEASURE_PART = 8;

/** The backlogs of all tenants. */
export class Backlog {
  readonly #tenantMaxBytes: number;
  readonly #tenants = new Map<string, TenantBacklog>();
  readonly #places = new Places("large messages", LARGE_MESSAGES);

  constructor(tenantMaxBytes: number) {
    this.#tenantMaxBytes = tenantMaxBytes;
  }

  /** Adds an outbox to that of its tenant, until it is removed there. `owner` is a key as returned by `chargedTo`. */
  add(outbox: CountedOutbox, owner: string): TenantBacklog {
    const tenantId = tenantOfCharged(owner);
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      tenant = new TenantBacklog(this.#tenantMaxBytes, this.#places, () => this.#tenants.delete(tenantId));
      this.#tenants.set(tenantId, tenant);
    }
    tenant.outboxes.add(outbox);
    return tenant;
  }
}

export class TenantBacklog {
  readonly outboxes = new Set<CountedOutbox>();
  readonly #maxBytes: number;
  readonly #places: Places;
  readonly #onEmpty: () => void;
  /** What the runtime has, or more: an upper bound. */
  #sentBytes = 0;
  #measureAt: number;
  /** What waits in outboxes of slow clients. */
  #waitingBytes = 0;

  constructor(maxBytes: number, places: Places, onEmpty: () => void) {
    this.#maxBytes = maxBytes;
    this.#measureAt = maxBytes;
    this.#places = places;
    this.#onEmpty = onEmpty;
  }

  /** Whether the runtime has its share, so that it gets more only for clients that have read all. */
  get isFull(): boolean {
    if (this.#sentBytes > this.#measureAt) {
      for (const outbox of this.outboxes) outbox.measure();
      this.#measureAt = Math.max(this.#maxBytes, this.#sentBytes + this.#maxBytes / MEASURE_PART);
    }
    return this.#sentBytes > this.#maxBytes;
  }

  delete(outbox: CountedOutbox): void {
    this.outboxes.delete(outbox);
    if (this.outboxes.size === 0) this.#onEmpty();
  }

  /** The runtime has so many bytes more, or less. */
  countSent(bytes: number): void {
    this.#sentBytes += bytes;
  }

  /** A place for a large message; `undefined` if there is none now. */
  enterPlace(owner: string): Disposable | undefined {
    return this.#places.fullOf(owner) === undefined ? this.#places.enter(owner) : undefined;
  }

  /** Counts a message that a slow client waits for. One of several clients takes memory once. */
  addWaiting(message: WaitingMessage): void {
    if (message.waiting++ === 0) this.#waitingBytes += message.bytes;
  }

  removeWaiting(message: WaitingMessage): void {
    if (--message.waiting === 0) this.#waitingBytes -= message.bytes;
  }

  /** Closes slow connections until the rest fits: first those of the owner for whom most waits, and of these the slowest. */
  relieve(): void {
    if (this.#waitingBytes <= this.#maxBytes) return;
    const slow = [...this.outboxes].filter(({ waitingBytes }) => waitingBytes > 0);
    const sums = new Map<string | undefined, number>();
    for (const { owner, waitingBytes } of slow) sums.set(owner, (sums.get(owner) ?? 0) + waitingBytes);
    const sumOf = ({ owner }: CountedOutbox): number => sums.get(owner) ?? 0;
    slow.sort((one, other) => sumOf(other) - sumOf(one) || other.waitingBytes - one.waitingBytes);
    for (const outbox of slow) {
      if (this.#waitingBytes <= this.#maxBytes) return;
      outbox.onOverflow();
    }
  }
}
