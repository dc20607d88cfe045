// Enqueues what is to be pushed, some time after notifications were committed.
//
// A push is a hint: the notification itself is stored, and each push looks at all that are new. So this may miss some when the
// process ends, and costs a commit with notifications nothing but a set in memory. There is one job for a subscription, however
// many notifications it has, and a person who reads them at once is not disturbed.
import type { Clock } from "@/core/time/clock.ts";
import { principalOfStream, type StoredEvent } from "@/core/event/event.ts";
import type { JobDraft } from "@/core/job.ts";
import { logOf } from "@/core/log.ts";
import type { Store } from "@/ports/store.ts";
import { PushStore, type PushTables } from "./store.ts";

export const PUSH_JOB = "push.send";
/** Jobs start at multiples of this, so that those who get notifications without a pause get pushes nevertheless. */
const STEP_MS = 2000;
const COLLECT_MS = 500;
const PRINCIPALS_MAX = 10_000;
const QUERY_PRINCIPALS = 500;

const log = logOf("push");

export class PushAnnouncer {
  readonly #deps: { store: Store<PushTables>; clock: Clock };
  /** Principals with new notifications, by tenant. */
  #waiting = new Map<string, Set<string>>();
  #count = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = Promise.resolve();

  constructor(deps: { store: Store<PushTables>; clock: Clock }) {
    this.#deps = deps;
  }

  /** Takes note of the events of a commit. */
  add(events: readonly StoredEvent[]): void {
    for (const { type, tenantId, stream } of events) {
      const principalId = type === "notification.created" ? principalOfStream(stream) : undefined;
      if (principalId === undefined || this.#count >= PRINCIPALS_MAX) continue;
      const principals = this.#waiting.get(tenantId) ?? new Set();
      this.#waiting.set(tenantId, principals);
      this.#count += principals.has(principalId) ? 0 : 1;
      principals.add(principalId);
    }
    if (this.#count > 0) this.#timer ??= setTimeout(() => void this.flush(), COLLECT_MS);
  }

  /** Enqueues jobs for what was added. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waiting = this.#waiting;
    this.#waiting = new Map();
    this.#count = 0;
    return this.#running = this.#running.then(() => this.#enqueueAll(waiting)).catch((error: unknown) => {
      log.warn("pushes were not enqueued", { error });
    });
  }

  async #enqueueAll(waiting: ReadonlyMap<string, ReadonlySet<string>>): Promise<void> {
    for (const [tenantId, principals] of waiting) {
      const ids = [...principals];
      for (let at = 0; at < ids.length; at += QUERY_PRINCIPALS) {
        await this.#enqueue(tenantId, ids.slice(at, at + QUERY_PRINCIPALS));
      }
    }
  }

  async #enqueue(tenantId: string, principalIds: readonly string[]): Promise<void> {
    const { store, clock } = this.#deps;
    const ids = await new PushStore(store.db).idsOf(tenantId, principalIds);
    if (ids.length === 0) return;
    const runAt = (Math.floor(clock.now() / STEP_MS) + 1) * STEP_MS;
    const drafts = ids.map((id): JobDraft => ({ tenantId, kind: PUSH_JOB, payload: { id }, runAt, key: id }));
    await store.write((tx) => tx.enqueue(...drafts));
  }
}
