// Read receipts: publishes read positions to the other members of small rooms.
import { type Clock, iso } from "@/core/time/clock.ts";
import { roomStream, type StoredEvent } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { logOf } from "@/core/log.ts";
import type { Bus } from "@/ports/bus.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { RoomTables } from "./store.ts";
import type { MemberRead } from "./schema.ts";
import { type ReadPositionRow, ReadReceiptStore } from "./read_receipt_store.ts";

/** Minimum time between two receipts of one reader in a room. */
const INTERVAL_MS = 1000;
/** Maximum number of pending receipts; beyond it, receipts are skipped. */
const READERS_MAX = 10_000;
/** Receipts per query: as many as `unread.read_all` commits together. Their rooms have at most `PRESENCE_MAX` members. */
const BATCH_MAX = 100;
const QUERIES_MAX = 4;

const log = logOf("room");

type Deps = { store: Store<RoomTables>; clock: Clock; bus: Bus };
/** A reader in a room; `hasMoved` since its position was last read. */
type PendingReceipt = { key: string; tenantId: string; roomId: string; principalId: string; hasMoved: boolean };

/** A receipt is not stored. If one is lost, the next one or the list of members has the position. */
export class ReadReceipts {
  readonly #deps: Deps;
  readonly #pending = new Map<string, PendingReceipt>();
  /** To be published now. */
  readonly #due = new Set<PendingReceipt>();
  /** Just published, in the order in which their intervals end. */
  readonly #coolingDown: { receipt: PendingReceipt; until: number }[] = [];
  readonly #running = new Set<Promise<void>>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Receives the events that this node committed. */
  onCommit(events: readonly StoredEvent[]): void {
    if (this.#isStopped) return;
    for (const { tenantId, stream, type, json } of events) {
      if (type === "read.updated") this.#add(tenantId, stream.slice(stream.indexOf(":") + 1), roomIdIn(json));
    }
    this.#run();
  }

  /** Publishes what is pending, and resolves when done; nothing is published after it. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#endIntervals();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Number of pending receipts. */
  get size(): number {
    return this.#pending.size;
  }

  #add(tenantId: string, principalId: string, roomId: string): void {
    const key = `${streamKey(tenantId, roomStream(roomId))}/${principalId}`;
    const known = this.#pending.get(key);
    if (known !== undefined) {
      known.hasMoved = true;
    } else if (this.#pending.size < READERS_MAX) {
      const receipt = { key, tenantId, roomId, principalId, hasMoved: true };
      this.#pending.set(key, receipt);
      this.#due.add(receipt);
    }
  }

  #run(): void {
    for (const { tenantId } of this.#due) {
      if (this.#running.size === QUERIES_MAX) return;
      const receipts = this.#takeBatch(tenantId);
      const publishing = this.#publish(tenantId, receipts).catch((cause) => {
        log.warn("publishing read receipts failed", { code: Fault.from(cause).code });
      }).then(() => {
        this.#running.delete(publishing);
        this.#startIntervals(receipts);
        this.#run();
      });
      this.#running.add(publishing);
    }
  }

  /** Takes the receipts for one query. */
  #takeBatch(tenantId: string): PendingReceipt[] {
    const taken: PendingReceipt[] = [];
    for (const receipt of this.#due) {
      if (taken.length === BATCH_MAX) break;
      if (receipt.tenantId !== tenantId) continue;
      taken.push(receipt);
      this.#due.delete(receipt);
      receipt.hasMoved = false;
    }
    return taken;
  }

  /** Publishes the current positions: of several moves only the last. */
  async #publish(tenantId: string, receipts: readonly PendingReceipt[]): Promise<void> {
    const { store, clock, bus } = this.#deps;
    const roomIds = [...new Set(receipts.map(({ roomId }) => roomId))];
    const readers = Map.groupBy(
      await new ReadReceiptStore(store.db).sharedPositions(tenantId, roomIds),
      (row) => row.room_id,
    );
    const at = iso(clock.now());
    for (const { roomId, principalId } of receipts) {
      const sharing = readers.get(roomId) ?? [];
      const reader = sharing.find((row) => row.principal_id === principalId);
      const principalIds = sharing.flatMap((row) => row === reader ? [] : [row.principal_id]);
      if (reader === undefined || principalIds.length === 0) continue;
      const channel = roomStream(roomId);
      const event = { tenantId, channel, json: publicationOf(reader, at), principalIds };
      bus.publish(streamKey(tenantId, channel), { kind: "ephemeral", event });
    }
  }

  #startIntervals(receipts: readonly PendingReceipt[]): void {
    const until = performance.now() + INTERVAL_MS;
    this.#coolingDown.push(...receipts.map((receipt) => ({ receipt, until })));
    if (this.#isStopped) this.#endIntervals();
    else if (this.#timer === undefined) this.#scheduleNext();
  }

  #scheduleNext(): void {
    const [next] = this.#coolingDown;
    this.#timer = next && setTimeout(() => {
      this.#endIntervals();
      this.#scheduleNext();
    }, Math.max(0, next.until - performance.now()));
  }

  /** Ends the intervals that are over, on stop all of them: readers that moved since are due, others are dropped. */
  #endIntervals(): void {
    clearTimeout(this.#timer);
    const now = performance.now();
    const later = this.#isStopped ? -1 : this.#coolingDown.findIndex(({ until }) => until > now);
    for (const { receipt } of this.#coolingDown.splice(0, later === -1 ? this.#coolingDown.length : later)) {
      if (receipt.hasMoved) this.#due.add(receipt);
      else this.#pending.delete(receipt.key);
    }
    this.#run();
  }
}

function roomIdIn(json: string): string {
  const { data }: { data: { roomId: string } } = JSON.parse(json);
  return data.roomId;
}

/** The publication, as subscribers receive it. */
function publicationOf(
  { room_id: roomId, principal_id: principalId, last_read_seq: lastReadSeq, kind }: ReadPositionRow,
  at: string,
): string {
  const data: MemberRead = { roomId, principalId, lastReadSeq };
  return JSON.stringify({ type: "member.read", at, actor: { id: principalId, kind }, data });
}
