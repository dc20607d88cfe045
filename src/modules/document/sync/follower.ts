// A document that editors of this node have open: kept level with the log, whichever node or API call moved it.
import type { Document } from "@hocuspocus/server";
import { applyAwarenessUpdate, encodeAwarenessUpdate } from "y-protocols/awareness";
import { applyUpdate } from "yjs";
import { z } from "@zod/zod";
import { roomStream } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import type { Bus, BusMessage, BusSubscription } from "@/ports/bus.ts";
import { streamKey } from "@/ports/store.ts";
import type { ContentLog } from "../content/log.ts";

/** Signals of edits that come together are answered by one look at the log. */
const GATHER_MS = 3;
/** The origin of what others did, as the engine knows it: to be passed on to editors, not to be stored again. */
const ELSEWHERE = { source: "redis" };

/** What nodes tell each other about who is in a document; `update` is absent in a question. */
const Word = z.object({ node: z.string(), update: z.string().optional() });

const log = logOf("document");

type Deps = {
  bus: Bus;
  log: ContentLog;
  /** This process, as its own messages come back. */
  node: string;
  /** Something in the room may have changed who may be here; `gone` are those who surely may not. */
  onRoomEvent: (follower: Follower, gone: readonly string[] | "*") => void;
};

export class Follower {
  readonly document: Document;
  readonly tenantId: string;
  readonly roomId: string | null;
  readonly #deps: Deps;
  readonly #subscriptions: Promise<BusSubscription[]>;
  /** Everything up to here is in the document. */
  #seen = 0;
  /** Revisions beyond that which are in it as well. */
  readonly #ahead = new Set<number>();
  #wanted = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running: Promise<void> | undefined;
  /** What rights depended on when they were last looked at, in short. */
  #rights: string | undefined;
  #isClosed = false;

  constructor(deps: Deps, document: Document, tenantId: string, roomId: string | null) {
    this.#deps = deps;
    this.document = document;
    this.tenantId = tenantId;
    this.roomId = roomId;
    this.#subscriptions = Promise.all([
      deps.bus.subscribe(this.#topic, this.#onWord),
      ...roomId === null ? [] : [deps.bus.subscribe(streamKey(tenantId, roomStream(roomId)), this.#onRoom)],
    ]);
    document.on("destroy", () => this.close());
  }

  /** Fills the document from the log, and asks the other nodes who is in it. */
  async load(): Promise<void> {
    await this.#subscriptions;
    await this.#level(true);
    this.#say({});
  }

  /** The log has moved to a revision; unless it is here already, it will be soon. */
  moved(revision: number): void {
    this.#wanted = Math.max(this.#wanted, revision);
    if (this.#isClosed || this.#wanted <= this.#seen || this.#seen === 0) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#running = (this.#running ?? Promise.resolve()).then(() => this.#level(false));
    }, GATHER_MS);
  }

  /** Whether what rights depend on is another than the last time this was asked. */
  haveRightsMoved(rights: string): boolean {
    const before = this.#rights;
    this.#rights = rights;
    return before !== undefined && before !== rights;
  }

  /** An editor of this node made a revision, which the engine puts into the document itself. */
  made(revision: number): void {
    this.#ahead.add(revision);
    this.#advance();
  }

  /** Tells the other nodes how these editors of ours are doing. */
  tellAwareness(clients: readonly number[]): void {
    if (clients.length === 0) return;
    this.#say({ update: encodeAwarenessUpdate(this.document.awareness, [...clients]).toBase64() });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    void this.#subscriptions.then((all) => all.forEach((one) => one.close()), () => {});
  }

  /** Reads whatever there is beyond what has been heard of. */
  async refresh(): Promise<void> {
    await this.#level(true);
  }

  /** Waits for reading that is under way. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #level(isAsked: boolean): Promise<void> {
    if (this.#isClosed || (!isAsked && this.#wanted <= this.#seen)) return;
    try {
      const { updates, revision } = await this.#deps.log.since(this.tenantId, this.document.name, this.#seen);
      for (const update of updates) applyUpdate(this.document, update, ELSEWHERE);
      this.#seen = Math.max(this.#seen, revision);
      this.#advance();
      if (this.#wanted > this.#seen) this.moved(this.#wanted);
    } catch (cause) {
      if (isAsked) throw cause;
      // The next signal, or the next look at all documents, brings it.
      log.warn("a document could not be brought level", { document: this.document.name, cause: String(cause) });
    }
  }

  #advance(): void {
    for (const revision of this.#ahead) if (revision <= this.#seen) this.#ahead.delete(revision);
    while (this.#ahead.delete(this.#seen + 1)) this.#seen++;
  }

  get #topic(): string {
    return streamKey(this.tenantId, `document:${this.document.name}`);
  }

  #say(word: { update?: string }): void {
    const channel = `document:${this.document.name}`;
    const json = JSON.stringify({ node: this.#deps.node, ...word });
    this.#deps.bus.publish(this.#topic, {
      kind: "ephemeral",
      event: { tenantId: this.tenantId, channel, json },
    });
  }

  readonly #onWord = (message: BusMessage): void => {
    if (message.kind !== "ephemeral" || this.#isClosed) return;
    const { node, update } = Word.parse(JSON.parse(message.event.json));
    if (node === this.#deps.node) return;
    if (update === undefined) return this.tellAwareness([...this.document.awareness.getStates().keys()]);
    applyAwarenessUpdate(this.document.awareness, Uint8Array.fromBase64(update), ELSEWHERE);
  };

  readonly #onRoom = (message: BusMessage): void => {
    if (message.kind !== "events") return;
    for (const { type, effect } of message.events) {
      if (!type.startsWith("member.") && !type.startsWith("room.")) continue;
      const isFinal = effect?.kind === "evict" && effect.resubscribe !== true;
      this.#deps.onRoomEvent(this, isFinal ? effect.principalIds : []);
    }
  };
}
