// Listens to resources for one `subscriptions/listen` request: the bus that the SDK reads, which has only what this caller may
// see. Its rights are checked again before each notification, and it ends with the token or when it may read nothing.
import type { ServerEvent, ServerEventBus } from "@modelcontextprotocol/server";
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import type { StoredEvent } from "@/core/event/event.ts";
import { failureOf, logOf } from "@/core/log.ts";
import type { Bus, BusSubscription } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";

/** Changes within this time are one notification. */
const COALESCE_MS = 250;
const RETRY_MS = 5000;
/** In case the signal of a change was lost. */
const RECHECK_MS = 30_000;
/** Notifications that a client may leave unread. */
const UNREAD_MAX = 200;

/** A resource, and the events that change it. */
export type Target = { uri: string; streams: readonly string[]; matches: (event: StoredEvent) => boolean };

type Deps = {
  bus: Bus;
  clock: Clock;
  /** The actor with its current rights, if it still has any. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
  /** Whether the actor may read the resource now. */
  canRead: (actor: Actor, uri: string) => Promise<boolean>;
  /** Called once, when nothing more is to be expected. */
  onEnd: () => void;
};

const log = logOf("mcp");

export class ResourceListener implements ServerEventBus {
  readonly #deps: Deps;
  #actor: Actor;
  readonly #targets = new Map<string, { target: Target; subscriptions: BusSubscription[] }>();
  readonly #changed = new Set<string>();
  /** Those that may no longer be readable. */
  readonly #suspect = new Set<string>();
  #notify: ((event: ServerEvent) => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #recheck: ReturnType<typeof setInterval> | undefined;
  #checking: Promise<void> = Promise.resolve();
  #unread = 0;
  #hasEnded = false;

  constructor(actor: Actor, deps: Deps) {
    this.#actor = actor;
    this.#deps = deps;
  }

  get actor(): Actor {
    return this.#actor;
  }

  /** Begins to listen. What changes from now on is noted, so rights are to be checked after this. */
  async add(target: Target): Promise<void> {
    const entry = { target, subscriptions: [] as BusSubscription[] };
    this.#targets.set(target.uri, entry);
    for (const stream of target.streams) {
      const subscription = await this.#deps.bus.subscribe(streamKey(this.#actor.tenantId, stream), (message) => {
        if (message.kind !== "events") return;
        if (message.events.some((event) => target.matches(event))) this.#changed.add(target.uri);
        // A membership that ends says so in the room, whatever is listened to there.
        if (message.events.some(({ type }) => type.startsWith("member."))) this.#suspect.add(target.uri);
        if (this.#changed.size > 0 || this.#suspect.size > 0) this.#schedule(COALESCE_MS);
      });
      if (this.#hasEnded) subscription.close();
      else entry.subscriptions.push(subscription);
    }
  }

  /** Starts the periodic check; the token ends at its expiry. */
  start(): void {
    this.#recheck = setInterval(() => this.check(), RECHECK_MS);
    Deno.unrefTimer(this.#recheck as unknown as number);
  }

  /** Part of the SDK's interface: nothing is published by way of it. */
  publish(): void {}

  subscribe(listener: (event: ServerEvent) => void): () => void {
    this.#notify = listener;
    this.check();
    return () => this.end();
  }

  /** Checks the rights to all resources soon. */
  check(): void {
    for (const uri of this.#targets.keys()) this.#suspect.add(uri);
    this.#schedule(0);
  }

  /** A notification has been read by the client. */
  markRead(): void {
    this.#unread = Math.max(0, this.#unread - 1);
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    clearInterval(this.#recheck);
    for (const uri of [...this.#targets.keys()]) this.#remove(uri);
    this.#deps.onEnd();
  }

  /** Checks what is suspect or has changed, and notifies of the latter. */
  #schedule(delayMs: number): void {
    if (this.#hasEnded || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#checking = this.#checking.then(() => this.#run());
    }, delayMs);
  }

  async #run(): Promise<void> {
    try {
      await this.#checkRights();
    } catch (cause) {
      // The store is unavailable, or the caller has used its share: nothing is sent until the rights can be read.
      log.warn("checking the rights of a listener failed", failureOf(cause));
      this.#schedule(RETRY_MS);
    }
  }

  async #checkRights(): Promise<void> {
    if (this.#hasEnded || this.#notify === undefined) return;
    const { clock, revalidate, canRead } = this.#deps;
    const { expiresAt = Infinity } = this.#actor;
    const actor = expiresAt <= clock.now() ? undefined : await revalidate(this.#actor);
    if (actor === undefined) return this.end();
    this.#actor = actor;
    for (const uri of new Set([...this.#suspect, ...this.#changed])) {
      const isReadable = this.#targets.has(uri) && await canRead(actor, uri);
      this.#suspect.delete(uri);
      const hasChanged = this.#changed.delete(uri);
      if (!isReadable) this.#remove(uri);
      else if (hasChanged && !this.#hasEnded) this.#send(uri);
    }
    if (this.#targets.size === 0) this.end();
  }

  #send(uri: string): void {
    // A client that does not read must not fill the memory.
    if (++this.#unread > UNREAD_MAX) return this.end();
    this.#notify?.({ kind: "resource_updated", uri });
  }

  #remove(uri: string): void {
    for (const subscription of this.#targets.get(uri)?.subscriptions ?? []) subscription.close();
    this.#targets.delete(uri);
  }
}
