// Live co-editing: the Hocuspocus engine between editors' sockets and the log. The log comes first: an update is on disk
// before it is in the document, before others see it, and before its editor is told that it is saved.
import type { Hocuspocus, WebSocketLike } from "@hocuspocus/server";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { logOf } from "@/core/log.ts";
import { type Bus, type BusSubscription, CONTROL_TOPIC } from "@/ports/bus.ts";
import type { Signal } from "@/ports/store.ts";
import { type ContentLog, MOVED_SIGNAL } from "../content/log.ts";
import { type ContentService, foreign } from "../content/service.ts";
import { isEmptyUpdate, isWithin, relationOf } from "../crdt.ts";
import { readingMs, weigh } from "../weight.ts";
import { EDITORS_MAX, UPDATE_MAX_BYTES } from "../schema.ts";
import { RIGHTS_SIGNAL } from "../service.ts";
import type { Shares } from "../share.ts";
import { DocumentStore } from "../store.ts";
import { type Editing, type Editor, type Library, Refusal, type Send } from "./editor.ts";
import { Follower } from "./follower.ts";
import type { Frame } from "./frame.ts";
import { EditorRights, type RightsDeps } from "./rights.ts";
import { documentOf, ENDED, type SocketMeta, SyncSession } from "./session.ts";

const TICK_MS = 1000;
/** Silence that ends a socket; clients speak every 15 seconds. */
const IDLE_MS = 60_000;
const STEP = { one: 0, update: 2 };
/** An editor is one client in a document, and another when it notices that its number is taken. */
const CLIENTS_MAX = 8;

type Deps = RightsDeps & { bus: Bus; log: ContentLog; contents: ContentService; shares: Shares };
export type SyncOptions = {
  authTimeoutMs: number;
  connectionsPerPrincipal?: number | undefined;
  /** Members are held to a share of the node's time. */
  isCapped: boolean;
  /** Other nodes may move a document, and what they say may be lost. */
  isShared: boolean;
};

const logger = logOf("document");

export class SyncService {
  readonly #deps: Deps;
  readonly #options: SyncOptions;
  readonly #node = newId("node");
  readonly #followers = new Map<string, Follower>();
  readonly #sessions = new Set<SyncSession>();
  readonly #rights: EditorRights;
  #engine: Promise<Hocuspocus<Editing>> | undefined;
  #library: Library | undefined;
  #control: BusSubscription | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #isClosing = false;

  constructor(deps: Deps, options: SyncOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#rights = new EditorRights(deps, this.#followers, this.#send);
  }

  /** Loads the engine, on first use. */
  async ready(): Promise<void> {
    await (this.#engine ??= this.#start());
  }

  /** Takes over an open socket; `ready` has to have been waited for. Give it every message and its end. */
  async open(socket: WebSocketLike, request: Request, meta: SocketMeta): Promise<SyncSession> {
    const engine = await (this.#engine ??= this.#start());
    const session = new SyncSession(socket, meta, {
      authTimeoutMs: this.#options.authTimeoutMs,
      onGone: (one) => this.#sessions.delete(one),
      onRefused: (one, frame, refusal) => this.#refused(one, frame, refusal),
    });
    this.#sessions.add(session);
    // The engine makes the rest of the context when it knows who it is.
    session.attach(engine.handleConnection(socket, request, { session } as Editing));
    if (this.#isClosing) session.end(ENDED.shutdown);
    return session;
  }

  get isDraining(): boolean {
    return this.#isClosing;
  }

  /**
   * Lets go of all documents, which may have more than the store by now: their editors come back and bring what it lacks, and
   * do not go on with what builds on that.
   */
  startOver(): void {
    for (const session of [...this.#sessions]) session.end(ENDED.again);
  }

  /** Closes every socket and lets running work end. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    for (const session of [...this.#sessions]) session.end(ENDED.shutdown);
    const engine = await this.#engine;
    // Updates that are being written are still answered for by their connections.
    for (let waits = 0; engine !== undefined && engine.documents.size > 0 && waits < 200; waits++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    for (const follower of this.#followers.values()) follower.close();
    await Promise.all([...this.#followers.values()].map((follower) => follower.settled()));
    this.#control?.close();
  }

  async #start(): Promise<Hocuspocus<Editing>> {
    this.#library = await import("@hocuspocus/server");
    const { Hocuspocus } = this.#library;
    this.#control = await this.#deps.bus.subscribe(CONTROL_TOPIC, (message) => {
      if (message.kind === "signal") this.#heard(message.signal);
    });
    this.#timer = setInterval(() => this.#rights.tick(this.#options.isShared), TICK_MS);
    return new Hocuspocus<Editing>({
      quiet: true,
      timeout: IDLE_MS,
      // Nothing is stored at this point any more.
      debounce: 0,
      maxUnauthenticatedQueueSize: UPDATE_MAX_BYTES * 2,
      onAuthenticate: (hook) => this.#authenticate(hook),
      onTokenSync: ({ connection, token }) => this.#rights.renew(connection, token),
      onLoadDocument: ({ document, context }) => this.#load(document, context),
      // Rights may have changed while the document was loaded.
      connected: ({ connection }) => Promise.resolve(this.#rights.recheckSoon(connection)),
      // What waits in the queue of an editor is not worked off for somebody who has to go, but for the frame at hand: the
      // engine prints whatever stops one.
      beforeHandleMessage: ({ connection, context: { session, share } }) => {
        if (share.waitMs > 0) {
          session.end(ENDED.work);
          connection["messageQueue"].length = 0;
        }
        return Promise.resolve();
      },
      beforeSync: ({ connection, document, type, payload }) => this.#accept(connection, document.name, type, payload),
      beforeHandleAwareness: ({ document, connection, states }) => {
        if (connection !== undefined) keepOwn(document, connection, states);
        return Promise.resolve();
      },
      onAwarenessUpdate: ({ documentName, added, updated, removed, connection }) => {
        if (connection !== undefined || removed.length > 0) {
          this.#followers.get(documentName)?.tellAwareness([...added, ...updated, ...removed]);
        }
        return Promise.resolve();
      },
    });
  }

  async #authenticate(
    { token, documentName, context, connectionConfig, requestParameters, instance }: {
      token: string;
      documentName: string;
      context: Editing;
      connectionConfig: { readOnly: boolean };
      requestParameters: URLSearchParams;
      instance: Hocuspocus;
    },
  ): Promise<Partial<Editing>> {
    const { session } = context;
    try {
      const actor = await this.#deps.authenticate(token);
      if (!session.mayActIn(actor.tenantId)) throw new Refusal("origin-not-allowed");
      const principal = `${actor.tenantId}/${actor.principalId}`;
      const others = [...this.#sessions].filter((one) => one !== session && one.principal === principal).length;
      if (others >= (this.#options.connectionsPerPrincipal ?? Infinity)) throw new Refusal("connection-limit");
      const share = this.#deps.shares.of(actor);
      if (share.waitMs > 0) throw new Refusal("too-much-work");
      const editing = await this.#deps.gate.editing(actor, documentName);
      if (editing === undefined) throw new Refusal("permission-denied");
      const generation = requestParameters.get("generation");
      if (generation !== null && generation !== editing.row.generation) throw new Refusal("generation-changed");
      if ((instance.documents.get(documentName)?.getConnectionsCount() ?? 0) >= EDITORS_MAX) {
        throw new Refusal("too-many-editors");
      }
      session.authenticated(principal, share);
      connectionConfig.readOnly = !editing.canWrite;
      return { actor, canWrite: editing.canWrite, share };
    } catch (thrown) {
      if (thrown instanceof Refusal) throw thrown;
      const { code, kind } = Fault.from(thrown);
      if (kind.level === "error") logger.error("a document could not be opened", { cause: String(thrown) });
      throw new Refusal(kind.status === 401 ? code.replaceAll("_", "-") : "unavailable");
    }
  }

  async #load(document: Follower["document"], { actor, share }: Editing): Promise<void> {
    try {
      const row = await new DocumentStore(this.#deps.store.db).find(actor.tenantId, document.name);
      if (row === undefined) throw new Refusal("permission-denied");
      const { bus, log } = this.#deps;
      const follower = new Follower(
        { bus, log, node: this.#node, onRoomEvent: (one, gone) => this.#rights.moved(one, gone) },
        document,
        actor.tenantId,
        row.room_id,
      );
      this.#followers.set(document.name, follower);
      document.on("destroy", () => {
        if (this.#followers.get(document.name) === follower) this.#followers.delete(document.name);
      });
      await follower.load();
      share.spend(readingMs(document));
      this.#timeUpdates(document);
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) logger.error("a document could not be loaded", { cause: String(thrown) });
      // The engine drops it without an end, and its presence would be looked after for ever.
      document.destroy();
      throw new Refusal("unavailable");
    }
  }

  /**
   * Writes an editor's update to the log before the engine applies it and says that it is saved. What is refused makes the
   * connection read-only for this one frame: the engine then answers "not saved", and nobody else sees it. Nothing else makes
   * it so: what is in the log has to get into the document, whatever became of the editor's rights meanwhile.
   */
  async #accept(connection: Editor, name: string, step: number, update: Uint8Array): Promise<void> {
    const { context, document } = connection;
    // The engine goes over the document to answer these.
    if (step === STEP.one || !context.canWrite) context.share.spend(readingMs(document));
    if (step === STEP.one) {
      context.vector ??= update;
      return;
    }
    connection.readOnly = !context.canWrite;
    if (!context.canWrite) return;
    if (step === STEP.update && context.hasSynced === undefined) return this.#leaveToSync(connection, update);
    context.hasSynced = true;
    try {
      await this.#append(connection, name, update);
      for (; (context.owed ?? 0) > 0; context.owed = (context.owed ?? 0) - 1) {
        this.#send(connection, (message) => message.writeSyncStatus(true));
      }
    } catch (thrown) {
      const fault = Fault.from(thrown);
      connection.readOnly = true;
      if (fault.kind.status >= 500) {
        // Nobody knows whether it was written: the client comes back and sends again what is missing.
        logger.error("an update could not be stored", { document: name, cause: String(thrown) });
        return context.session.end(ENDED.again);
      }
      tellRefused(connection, fault);
    }
  }

  /** Answers an update that the engine does not get to see. */
  #refused(session: SyncSession, { name: address, kind }: Frame, refusal: Fault): void {
    const editors = this.#followers.get(documentOf(address))?.document.getConnections() ?? [];
    const editor = editors.find((one) => one.context.session === session && one.messageAddress === address);
    if (editor === undefined) return;
    if (editor.context.canWrite) {
      if (kind === "first_sync") editor.context.hasSynced = true;
      tellRefused(editor, refusal);
    }
    this.#send(editor, (message) => message.writeSyncStatus(false));
  }

  async #append(connection: Editor, name: string, update: Uint8Array): Promise<void> {
    if (isEmptyUpdate(update)) return;
    const follower = this.#followers.get(name);
    if (follower === undefined) throw new Fault("unavailable", "The document is closing");
    const { document, context: { actor, share } } = connection;
    let relation = share.time(() => relationOf(document, update));
    if (relation === "foreign") {
      // Its beginning may have come through another node, which we have not heard of yet.
      await follower.refresh();
      relation = share.time(() => relationOf(document, update));
    }
    if (relation === "known") return;
    if (relation === "foreign") throw foreign();
    const ms = share.time(() => weigh(document, update));
    // Until that is done, and the time it took is counted, so that no others are let in on it.
    share.spend(ms);
    try {
      follower.made(await this.#deps.contents.accept(actor, name, update));
    } finally {
      share.spend(-ms);
    }
  }

  /**
   * What a client sends between coming back and its first sync builds on what that sync is about to bring, and the sync
   * brings it again: it is not kept, and answered when the sync is on disk. Updates from before it came back were waiting
   * in the client, which has stopped counting them; an answer to those would pass for one to something newer.
   */
  #leaveToSync(connection: Editor, update: Uint8Array): void {
    const { context } = connection;
    connection.readOnly = true;
    if (context.vector === undefined || !isWithin(context.vector, update)) context.owed = (context.owed ?? 0) + 1;
  }

  /** Counts the time that updates of editors take to get into a document. */
  #timeUpdates(document: Follower["document"]): void {
    let startedAt = 0;
    document.on("beforeAllTransactions", () => {
      startedAt = performance.now();
    });
    document.on("afterAllTransactions", (_, [first]) => {
      const origin: unknown = first?.origin;
      if (!this.#library?.isTransactionOrigin(origin) || origin.source !== "connection") return;
      origin.connection.context.share.spend(performance.now() - startedAt);
    });
  }

  #heard({ kind, tenantId, id }: Signal): void {
    if (kind === MOVED_SIGNAL) {
      const [name = "", revision] = id.split("/");
      this.#followers.get(name)?.moved(Number(revision));
    } else if (kind === RIGHTS_SIGNAL) {
      const follower = this.#followers.get(id);
      if (follower !== undefined) this.#rights.moved(follower);
    } else if (kind === "principal") this.#rights.principalMoved(tenantId, id);
  }

  readonly #send: Send = (editor, write) => {
    if (this.#library === undefined) return;
    editor.send(write(new this.#library.OutgoingMessage(editor.messageAddress)).toUint8Array());
  };
}

/** Says by name why what an editor sent is not taken, and so not saved. */
function tellRefused(editor: Editor, { code, message }: Fault): void {
  editor.sendStateless(JSON.stringify({ type: "document.refused", code, detail: message }));
}

/** Clients repeat to us what they hear of each other; each says how it is doing, and for no other and not for a crowd. */
function keepOwn(document: Follower["document"], editor: Editor, states: Map<number, unknown>): void {
  const own = document.getClients(editor);
  let free = CLIENTS_MAX - own.size;
  for (const client of states.keys()) {
    if (own.has(client)) continue;
    if (document.awareness.getStates().has(client) || free-- <= 0) states.delete(client);
  }
}
