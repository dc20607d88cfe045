// Brings the index up to what rooms have logged: in the background soon after a commit, and before an answer that needs it.
import { nextTurn } from "@/core/clock.ts";
import { roomStream, type StoredEvent } from "@/core/event.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type { SearchTables } from "./index/store.ts";
import { type IndexedMessage, MessageRows } from "./message/store.ts";
import { entryOf, isLive } from "./message_source.ts";
import type { SearchIndex } from "./search_index.ts";
import { type RoomLag, SearchStore } from "./store.ts";

/** Positions of rooms' lines read in one transaction, for which writers wait: in the background, and while a search waits. */
const BATCH = 64;
const BATCH_CATCHING_UP = 256;
/** And so many UTF-16 units of texts, at least one whole text: a long one costs as much as hundreds of short ones. */
export const UNITS_MAX = 16_000;
const ROOMS_PER_SWEEP = 500;
const BACKGROUND_AFTER_MS = 300;
/** How long indexing rests after each step, as a multiple of the step: in quiet times, and while more comes in than it does. */
const REST_QUIET = 2;
const REST_BUSY = 29;
const SWEEP_EVERY_MS = 300_000;

const ROOM = roomStream("");

const log = logOf("search");

type Deps = { store: Store<SearchTables>; index: SearchIndex };
type Room = Pick<RoomLag, "tenantId" | "roomId">;

/**
 * Each room has a cursor on its line of events, taken and moved in the transaction that indexes. A room's events are
 * gap-free in commit order, so nothing that was acknowledged can slip in behind the cursor; a crash leaves it where it was.
 */
export class SearchIndexer {
  readonly #deps: Deps;
  readonly #dirty = new Map<string, Room>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sweep: ReturnType<typeof setInterval> | undefined;
  #running: Promise<void> | undefined;
  #isStopped = true;
  /** Messages that came in since the last step. */
  #arrived = 0;
  /** Code of the last failure in the background; `null` when the last run was fine. */
  lastError: string | null = null;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Starts work in the background, first with what an earlier run or another node left. */
  start(): void {
    this.#isStopped = false;
    this.#sweep = setInterval(() => void this.#findWork(), SWEEP_EVERY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#findWork();
    }, BACKGROUND_AFTER_MS);
  }

  /** Ends when the batch that runs has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#sweep);
    await this.#running;
  }

  /** To be told of every commit on this node; costs a look at each event. */
  heard(events: readonly Pick<StoredEvent, "tenantId" | "stream" | "type">[]): void {
    if (this.#isStopped) return;
    for (const { tenantId, stream, type } of events) {
      if (type.startsWith("message.") && stream.startsWith(ROOM)) {
        this.#arrived++;
        this.#add({ tenantId, roomId: stream.slice(ROOM.length) });
      }
    }
    this.#schedule();
  }

  /** Indexes what these rooms have logged by now; `false` when `isLate` ended it before that. */
  async catchUp(rooms: readonly Room[], isLate: () => boolean): Promise<boolean> {
    // Rooms in one order, so that two nodes never wait for each other in a ring.
    const waiting = rooms.toSorted((a, b) => a.roomId < b.roomId ? -1 : 1);
    while (waiting.length > 0) {
      if (isLate()) return false;
      await this.#step(waiting, BATCH_CATCHING_UP, false);
      await nextTurn();
    }
    return true;
  }

  /** Removes what the index keeps of a room. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    const { store, index } = this.#deps;
    await index.purgeRoom(tenantId, roomId);
    await store.write((tx) => new SearchStore(tx.db, store.dialect).removeCursor(tenantId, roomId));
  }

  /** Removes messages of a room that are gone for good; part of the transaction that removes them. */
  async forget(tenantId: string, roomId: string, messageIds: readonly string[]): Promise<void> {
    const { store, index } = this.#deps;
    await store.write(async (tx) => {
      // Whoever indexes the room now may have read them before they went; what it writes is waited for.
      await new SearchStore(tx.db, store.dialect).takeCursor(tenantId, roomId);
      await index.remove(tenantId, "message", messageIds);
    });
  }

  /**
   * One transaction: up to `budget` positions of the first rooms. Removes from `waiting` those that are done. In the
   * background nodes take turns, or several would take the time of several from those who send; `false` = not this one's.
   */
  async #step(waiting: Room[], budget: number, isBackground: boolean): Promise<boolean> {
    const { store, index } = this.#deps;
    const done = await store.write(async (tx) => {
      const search = new SearchStore(tx.db, store.dialect);
      if (isBackground && !await search.isAlone()) return undefined;
      const live: IndexedMessage[] = [];
      let room = 0;
      for (let [left, units] = [budget, UNITS_MAX]; left > 0 && units > 0 && room < waiting.length;) {
        const { tenantId, roomId } = waiting[room] ?? { tenantId: "", roomId: "" };
        const stream = await search.unindexed(tenantId, roomId);
        const cursor = stream === undefined ? undefined : await search.takeCursor(tenantId, roomId);
        // Another node may have been here while the cursor was waited for.
        if (stream === undefined || cursor === undefined || stream.head <= cursor.seq) {
          room++;
          left--;
          continue;
        }
        // Events that told of changes are gone: all messages of the room are looked at again.
        const known = Math.max(cursor.seq, cursor.floor);
        const isCut = stream.floor > known;
        const from = isCut ? 0 : cursor.seq;
        let to = Math.min(stream.head, from + left);
        let { ids, rows, floor } = await this.#touched(tx, tenantId, roomId, from, to);
        while (lengthOf(rows) > units && to - from > 1) {
          to = Math.ceil((from + to) / 2);
          ({ ids, rows, floor } = await this.#touched(tx, tenantId, roomId, from, to));
        }
        // Some went while these were read: once more, now that it is known.
        if (floor > Math.max(known, stream.floor)) continue;
        units -= lengthOf(rows);
        for (const row of rows.filter(isLive)) {
          live.push(row);
          ids.delete(row.id);
        }
        await index.remove(tenantId, "message", [...ids]);
        await search.moveCursor(tenantId, roomId, { seq: to, floor: isCut ? stream.floor : cursor.floor });
        left -= to - from;
        if (to === stream.head) room++;
      }
      await index.put(...live.map(entryOf));
      return room;
    });
    waiting.splice(0, done ?? 0);
    return done !== undefined;
  }

  /**
   * What came or was changed at the positions `from < seq <= to` of a room: ids, and the rows of those that are there; and
   * up to where the events that told of it are gone, where that matters.
   */
  async #touched(
    { db }: Pick<Transaction<SearchTables>, "db">,
    tenantId: string,
    roomId: string,
    from: number,
    to: number,
  ): Promise<{ ids: Set<string>; rows: IndexedMessage[]; floor: number }> {
    const messages = new MessageRows(db);
    const rows = await messages.indexedBetween(tenantId, roomId, from, to);
    const ids = new Set(rows.map((row) => row.id));
    // Each place of the line is one event: where each made a message, none changed one.
    if (rows.length < to - from) {
      const search = new SearchStore(db, this.#deps.store.dialect);
      const { ids: changed, floor } = await search.changed(tenantId, roomId, from, to);
      const missing = changed.difference(ids);
      rows.push(...await messages.indexedByIds(tenantId, [...missing]));
      return { ids: ids.union(missing), rows, floor };
    }
    return { ids, rows, floor: 0 };
  }

  #add(room: Room): void {
    this.#dirty.set(`${room.tenantId}/${room.roomId}`, room);
  }

  #schedule(): void {
    // A timer that is set stays: were it put off by every commit, indexing would never begin under a steady load.
    if (this.#isStopped || this.#dirty.size === 0 || this.#running !== undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#running = this.#work().finally(() => {
        this.#running = undefined;
        this.#schedule();
      });
    }, BACKGROUND_AFTER_MS);
  }

  async #work(): Promise<void> {
    const waiting = [...this.#dirty.values()].sort((a, b) => a.roomId < b.roomId ? -1 : 1);
    this.#dirty.clear();
    try {
      while (waiting.length > 0 && !this.#isStopped) {
        const startedAt = performance.now();
        const isDone = await this.#step(waiting, BATCH, true);
        // Whoever sends goes first, but a long flood must not leave too much behind for the searches after it.
        const rest = this.#arrived > BATCH ? REST_BUSY : REST_QUIET;
        this.#arrived = 0;
        const restMs = isDone ? (performance.now() - startedAt) * rest : BACKGROUND_AFTER_MS;
        await new Promise((resolve) => setTimeout(resolve, restMs));
      }
      this.lastError = null;
    } catch (cause) {
      this.lastError = Fault.from(cause).code;
      log.warning("indexing failed; it will be tried again", { code: this.lastError });
      for (const room of waiting) this.#add(room);
    }
  }

  async #findWork(): Promise<void> {
    try {
      const { store } = this.#deps;
      for (const room of await new SearchStore(store.db, store.dialect).laggingAnywhere(ROOMS_PER_SWEEP)) {
        this.#add(room);
      }
    } catch (cause) {
      this.lastError = Fault.from(cause).code;
    }
    this.#schedule();
  }
}

function lengthOf(rows: readonly IndexedMessage[]): number {
  return rows.reduce((sum, { text }) => sum + (text?.length ?? 0), 0);
}
