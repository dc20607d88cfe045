// Indexes resources from room streams: in the background soon after a commit, and before a search that needs them.
import { compareText } from "@/core/text/text.ts";
import { nextTick } from "@/core/time/clock.ts";
import { roomStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault, isFault } from "@/core/fault.ts";
import { logOf, rateLimitedWarning } from "@/core/log.ts";
import type { SearchEntry, StreamedResource, StreamSource } from "@/core/searchable.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { SearchTables } from "./index_store.ts";
import { IndexThrottle, type ThrottleTime } from "./index_throttle.ts";
import { IndexProgressStore, type RoomLag } from "./progress_store.ts";
import { type SearchIndex, UNITS_MAX } from "./search_index.ts";

/**
 * Positions indexed in one transaction, which blocks writers: in the background, and while a search waits. `UNITS_MAX` bounds
 * the texts as well, but at least one text is indexed, because a long text costs as much as hundreds of short ones.
 */
const BATCH = 64;
const BATCH_CATCHING_UP = 256;
const ROOMS_PER_SWEEP = 500;
const BACKGROUND_AFTER_MS = 300;
const SWEEP_EVERY_MS = 300_000;

const ROOM = roomStream("");

type Deps = { store: Store<SearchTables>; index: SearchIndex; stream: StreamSource; time?: ThrottleTime };
type Room = Pick<RoomLag, "tenantId" | "roomId">;

/**
 * Each room has a cursor on its stream, locked and moved in the transaction that indexes. A room's events are gap-free in
 * commit order, so no acknowledged event can be missed behind the cursor; a crash does not move it.
 */
export class SearchIndexer {
  readonly #deps: Deps;
  readonly #dirty = new Map<string, Room>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sweep: ReturnType<typeof setInterval> | undefined;
  #running: Promise<void> | undefined;
  #looking = Promise.resolve();
  readonly #throttle: IndexThrottle;
  readonly #warnFailed = rateLimitedWarning(logOf("search"), "indexing failed; will retry");
  /** Aborted by `stop`, which also ends a pause between two steps; absent before the start. */
  #stopper: AbortController | undefined;
  /** Positions to read next: twice as many as fitted before, since those of long texts would be read and dropped in each step. */
  #span = BATCH;
  /** Code of the last failure in the background; `null` if the last run succeeded. */
  lastError: string | null = null;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#throttle = new IndexThrottle(BATCH, deps.time);
  }

  /** Prefix of the types of the events that are indexed. */
  get eventPrefix(): string {
    return this.#deps.stream.eventPrefix;
  }

  /** Starts background indexing, first of the backlog of earlier runs and other nodes. */
  start(): void {
    this.#stopper = new AbortController();
    const look = (): void => {
      this.#looking = this.#enqueueLagging();
    };
    this.#sweep = setInterval(look, SWEEP_EVERY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      look();
    }, BACKGROUND_AFTER_MS);
  }

  /** Resolves when the current step has ended, and a look for others. */
  async stop(): Promise<void> {
    this.#stopper?.abort();
    clearTimeout(this.#timer);
    clearInterval(this.#sweep);
    await this.#looking;
    await this.#running;
  }

  /** Receives the events of every commit on this node. */
  onEvents(events: readonly Pick<StoredEvent, "tenantId" | "stream" | "type">[]): void {
    if (this.#stopper?.signal.aborted ?? true) return;
    for (const { tenantId, stream, type } of events) {
      if (type.startsWith(this.#deps.stream.eventPrefix) && stream.startsWith(ROOM)) {
        this.#throttle.countEvent();
        this.#add({ tenantId, roomId: stream.slice(ROOM.length) });
      }
    }
    this.#schedule();
  }

  /** Indexes the current events of these rooms; `false` if `isLate` ended it early, or the store takes no writes. */
  async catchUp(rooms: readonly Room[], isLate: () => boolean): Promise<boolean> {
    // In a common order, so that two nodes cannot deadlock.
    const waiting = rooms.toSorted((a, b) => compareText(a.roomId, b.roomId));
    while (waiting.length > 0) {
      if (isLate()) return false;
      try {
        await this.#step(waiting, BATCH_CATCHING_UP, false);
      } catch (thrown) {
        // On a full disk, what is indexed can still be read.
        if (isFault(thrown, "unavailable")) return false;
        throw thrown;
      }
      await nextTick();
    }
    return true;
  }

  /** Removes a room from the index. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    const { store, index } = this.#deps;
    await index.purgeRoom(tenantId, roomId);
    await store.write((tx) => new IndexProgressStore(tx.db, store.dialect).removeCursor(tenantId, roomId));
  }

  /** Removes permanently deleted resources of a room, within the transaction that deletes them. */
  async remove(tenantId: string, roomId: string, ids: readonly string[]): Promise<void> {
    const { store, index, stream } = this.#deps;
    await store.write(async (tx) => {
      // Waits for a concurrent indexing of the room, which may have read them before the deletion.
      await new IndexProgressStore(tx.db, store.dialect).lockCursor(tenantId, roomId);
      await index.remove(tenantId, stream.kind, ids);
    });
  }

  /**
   * Indexes up to `budget` positions of the first rooms in one transaction, and removes completed rooms from `waiting`. In the
   * background one node at a time indexes, to limit the load on senders. Returns the number of indexed positions; `undefined`
   * if another node has the lock.
   */
  async #step(waiting: Room[], budget: number, isBackground: boolean): Promise<number | undefined> {
    const { store, index, stream: source } = this.#deps;
    const done = await store.write(async (tx) => {
      const progress = new IndexProgressStore(tx.db, store.dialect);
      if (isBackground && !await progress.tryLockBackground()) return undefined;
      const entries: SearchEntry[] = [];
      let room = 0;
      let indexed = 0;
      let span = this.#span;
      for (let [left, units] = [budget, UNITS_MAX]; left > 0 && units > 0 && room < waiting.length;) {
        const { tenantId, roomId } = waiting[room] ?? { tenantId: "", roomId: "" };
        const stream = await progress.unindexed(tenantId, roomId);
        const cursor = stream === undefined ? undefined : await progress.lockCursor(tenantId, roomId);
        // Another node may have indexed it while this one waited for the cursor.
        if (stream === undefined || cursor === undefined || stream.head <= cursor.seq) {
          room++;
          left--;
          continue;
        }
        // If events of changes were trimmed unread, all resources of the room are indexed again.
        const known = Math.max(cursor.seq, cursor.floor);
        const isTrimmed = stream.floor > known;
        const from = isTrimmed ? 0 : cursor.seq;
        let to = Math.min(stream.head, from + Math.min(left, span));
        let { ids, resources, floor } = await this.#changedResources(tx, tenantId, roomId, from, to);
        if (to - from === span) span = Math.min(2 * span, BATCH_CATCHING_UP);
        while (textUnits(resources) > units && to - from > 1) {
          to = Math.ceil((from + to) / 2);
          span = to - from;
          ({ ids, resources, floor } = await this.#changedResources(tx, tenantId, roomId, from, to));
        }
        // Events were trimmed in between: repeats with the new floor.
        if (floor > Math.max(known, stream.floor)) continue;
        units -= textUnits(resources);
        for (const { id, entry } of resources) {
          if (entry === undefined) continue;
          entries.push(entry);
          ids.delete(id);
        }
        await index.remove(tenantId, source.kind, [...ids]);
        await progress.moveCursor(tenantId, roomId, { seq: to, floor: isTrimmed ? stream.floor : cursor.floor });
        left -= to - from;
        indexed += to - from;
        if (to === stream.head) room++;
      }
      await index.put(...entries);
      return { rooms: room, indexed, span };
    });
    this.#span = done?.span ?? this.#span;
    waiting.splice(0, done?.rooms ?? 0);
    return done?.indexed;
  }

  /**
   * Resources created or changed by the events `from < seq <= to` of a room, with all ids, and the floor of the stream if it
   * matters: older events are trimmed.
   */
  async #changedResources(
    { db }: Pick<Transaction<SearchTables>, "db">,
    tenantId: string,
    roomId: string,
    from: number,
    to: number,
  ): Promise<{ ids: Set<string>; resources: StreamedResource[]; floor: number }> {
    const { store, stream } = this.#deps;
    const resources = await stream.findBetween(db, tenantId, roomId, from, to);
    const ids = new Set(resources.map(({ id }) => id));
    // Each position is one event: if each created a resource, none changed one.
    if (resources.length === to - from) return { ids, resources, floor: 0 };
    const { events, floor } = await new IndexProgressStore(db, store.dialect).changes(
      stream,
      tenantId,
      roomId,
      from,
      to,
    );
    const missing = new Set(events.flatMap((event) => stream.idsIn(event))).difference(ids);
    resources.push(...await stream.findMany(db, tenantId, [...missing]));
    return { ids: ids.union(missing), resources, floor };
  }

  #add(room: Room): void {
    this.#dirty.set(`${room.tenantId}/${room.roomId}`, room);
  }

  #schedule(): void {
    // A set timer is not postponed by further commits: under a steady load indexing would never begin.
    const signal = this.#stopper?.signal;
    if (signal === undefined || signal.aborted || this.#dirty.size === 0 && !this.#deps.index.needsMerge) return;
    if (this.#running !== undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#running = this.#work(signal).finally(() => {
        this.#running = undefined;
        this.#schedule();
      });
    }, BACKGROUND_AFTER_MS);
  }

  async #work(signal: AbortSignal): Promise<void> {
    const waiting = [...this.#dirty.values()].sort((a, b) => compareText(a.roomId, b.roomId));
    this.#dirty.clear();
    try {
      while (!signal.aborted) {
        await this.#merge(signal);
        if (waiting.length === 0) break;
        this.#throttle.beginStep();
        const indexed = await this.#step(waiting, BATCH, true);
        if (indexed === undefined) await this.#throttle.wait(BACKGROUND_AFTER_MS, signal);
        else await this.#throttle.restAfterStep(indexed, signal);
      }
      if (waiting.length === 0 && this.#dirty.size === 0) this.#throttle.clearBacklog();
      this.lastError = null;
    } catch (cause) {
      this.lastError = Fault.from(cause).code;
      this.#warnFailed({ code: this.lastError });
      for (const room of waiting) this.#add(room);
    }
  }

  /** Merges what was written, in parts. */
  async #merge(signal: AbortSignal): Promise<void> {
    do {
      this.#throttle.beginStep();
      if (!await this.#deps.index.merge()) return;
      await this.#throttle.restAfterStep(0, signal);
    } while (!signal.aborted);
  }

  async #enqueueLagging(): Promise<void> {
    try {
      const { store } = this.#deps;
      const rooms = await new IndexProgressStore(store.db, store.dialect).laggingInAllTenants(ROOMS_PER_SWEEP);
      for (const room of rooms) this.#add(room);
      this.#throttle.raiseBacklog(rooms.reduce((sum, { behind }) => sum + behind, 0));
    } catch (cause) {
      this.lastError = Fault.from(cause).code;
    }
    this.#schedule();
  }
}

function textUnits(resources: readonly StreamedResource[]): number {
  return resources.reduce((sum, { entry }) => sum + (entry?.texts.join("").length ?? 0), 0);
}
