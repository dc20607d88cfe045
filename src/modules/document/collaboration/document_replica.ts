// The copy of a document that editors of this node have open. It follows the log, whichever node or API call appended to it.
import type { Document } from "@hocuspocus/server";
import { applyAwarenessUpdate, encodeAwarenessUpdate } from "y-protocols/awareness";
import { applyUpdate } from "yjs";
import { z } from "@zod/zod";
import { roomStream } from "@/core/event/event.ts";
import { logOf } from "@/core/log.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";
import type { ContentLog } from "../content/log.ts";
import type { DocumentKind } from "../content/update_scan.ts";
import type { DocumentRow } from "../tables.ts";

/** Signals within this time share one read of the log. */
const DEBOUNCE_MS = 3;
/** The engine's origin for changes of other nodes: sent to editors, but not stored again. */
const REMOTE_ORIGIN = { source: "redis" };

/** What nodes publish about the editors of a document. Without `update` it requests the awareness of the others. */
const AwarenessMessage = z.object({ node: z.string(), update: z.string().optional() });

const log = logOf("document");

type Deps = {
  bus: Bus;
  log: Pick<ContentLog, "updatesSince">;
  /** Id of this process, whose own messages the bus returns. */
  node: string;
  /** An event of the room may have changed access; `removed` are those who certainly lost it. */
  onRoomEvent: (replica: DocumentReplica, removed: readonly string[] | "*") => void;
  /**
   * Resolves when the editors of this node may receive changes of others; `undefined` if they certainly may. Rejects while
   * their access cannot be checked.
   */
  verify: (replica: DocumentReplica) => Promise<void> | undefined;
};

export class DocumentReplica {
  readonly document: Document;
  readonly tenantId: string;
  readonly roomId: string | null;
  readonly kind: DocumentKind;
  /** The fragment of a rich document; null until its first content names it. */
  fragment: string | null;
  readonly #deps: Deps;
  readonly #subscriptions: readonly Promise<BusSubscription>[];
  /** All updates up to this revision are in the document. */
  #appliedRevision = 0;
  /** Later revisions that are in it as well. */
  readonly #appliedAhead = new Set<number>();
  #targetRevision = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<void> | undefined;
  /** As of the last update of an editor of this node. */
  accessStamp: string | undefined;
  /** Versions of everything that access depends on, by name, as of the last check of all editors. */
  checkedAccess: ReadonlyMap<string, number | undefined> = new Map();
  #isClosed = false;

  constructor(deps: Deps, document: Document, row: Pick<DocumentRow, "tenant_id" | "room_id" | "kind" | "fragment">) {
    const { tenant_id: tenantId, room_id: roomId } = row;
    this.#deps = deps;
    this.document = document;
    this.tenantId = tenantId;
    this.roomId = roomId;
    this.kind = row.kind;
    this.fragment = row.fragment;
    this.#subscriptions = [
      deps.bus.subscribe(this.#topic, this.#onAwareness),
      ...roomId === null ? [] : [deps.bus.subscribe(streamKey(tenantId, roomStream(roomId)), this.#onRoomMessage)],
    ];
    document.on("destroy", () => this.close());
  }

  /** Loads the document from the log, and requests the awareness of the other nodes. */
  async load(): Promise<void> {
    await Promise.all(this.#subscriptions);
    await this.#catchUp(true);
    this.#broadcast({});
  }

  /** The log has reached a revision; it is read soon unless it is applied already. */
  onRevision(revision: number): void {
    this.#targetRevision = Math.max(this.#targetRevision, revision);
    if (this.#isClosed || this.#targetRevision <= this.#appliedRevision || this.#appliedRevision === 0) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#running = (this.#running ?? Promise.resolve()).then(() => this.#catchUp(false));
    }, DEBOUNCE_MS);
  }

  /** An editor of this node wrote a revision, which the engine applies to the document itself. */
  markApplied(revision: number): void {
    this.#appliedAhead.add(revision);
    this.#advance();
  }

  /** Publishes the awareness of these clients of this node. */
  broadcastAwareness(clients: readonly number[]): void {
    if (clients.length === 0) return;
    this.#broadcast({ update: encodeAwarenessUpdate(this.document.awareness, [...clients]).toBase64() });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    // Each by itself: one may fail while another succeeds. `load` has thrown the failure.
    for (const subscription of this.#subscriptions) void subscription.then((one) => one.close(), () => {});
  }

  /** Reads the log without waiting for a signal. */
  async refresh(): Promise<void> {
    await this.#catchUp(true);
  }

  /** Resolves when no read of the log is running. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #catchUp(isForced: boolean): Promise<void> {
    if (this.#isClosed || (!isForced && this.#targetRevision <= this.#appliedRevision)) return;
    try {
      const { updates, revision } = await this.#deps.log.updatesSince(
        this.tenantId,
        this.document.name,
        this.#appliedRevision,
      );
      if (updates.length > 0) await this.#deps.verify(this);
      for (const update of updates) applyUpdate(this.document, update, REMOTE_ORIGIN);
      this.#appliedRevision = Math.max(this.#appliedRevision, revision);
      this.#advance();
      if (this.#targetRevision > this.#appliedRevision) this.onRevision(this.#targetRevision);
    } catch (cause) {
      if (isForced) throw cause;
      // The next signal, or the next comparison with the store, retries it.
      log.warn("catching up a document failed", { document: this.document.name, cause: String(cause) });
    }
  }

  #advance(): void {
    for (const revision of this.#appliedAhead) {
      if (revision <= this.#appliedRevision) this.#appliedAhead.delete(revision);
    }
    while (this.#appliedAhead.delete(this.#appliedRevision + 1)) this.#appliedRevision++;
  }

  get #topic(): string {
    return streamKey(this.tenantId, `document:${this.document.name}`);
  }

  #broadcast(message: { update?: string }): void {
    const channel = `document:${this.document.name}`;
    const json = JSON.stringify({ node: this.#deps.node, ...message });
    this.#deps.bus.publish(this.#topic, { kind: "ephemeral", event: { tenantId: this.tenantId, channel, json } });
  }

  readonly #onAwareness = (message: BusMessage): void => {
    if (message.kind !== "ephemeral" || this.#isClosed) return;
    const { node, update } = AwarenessMessage.parse(JSON.parse(message.event.json));
    if (node === this.#deps.node) return;
    if (update === undefined) return this.broadcastAwareness([...this.document.awareness.getStates().keys()]);
    const apply = (): void => {
      if (!this.#isClosed) applyAwarenessUpdate(this.document.awareness, Uint8Array.fromBase64(update), REMOTE_ORIGIN);
    };
    const verified = this.#deps.verify(this);
    if (verified === undefined) apply();
    // Awareness is not stored, and clients repeat it.
    else verified.then(apply, () => {});
  };

  readonly #onRoomMessage = (message: BusMessage): void => {
    if (message.kind !== "events") return;
    for (const { type, effect } of message.events) {
      if (!type.startsWith("member.") && !type.startsWith("room.")) continue;
      const isFinal = effect?.kind === "evict" && effect.resubscribe !== true;
      this.#deps.onRoomEvent(this, isFinal ? effect.principalIds : []);
    }
  };
}
