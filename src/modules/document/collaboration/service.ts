// Live editing: the Hocuspocus engine between editors' sockets and the log. Write-ahead: an update is committed before it is
// applied to the document, before others receive it, and before it is acknowledged as saved.
import type { Hocuspocus, WebSocketLike } from "@hocuspocus/server";
import { delay, MINUTE_MS, nextTick } from "@/core/time/clock.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import type { WriteBudget } from "@/core/limit/write_budget.ts";
import { chargeTick, chargeTo, runAsCaller } from "@/core/caller.ts";
import type { Signal } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { logOf } from "@/core/log.ts";
import { type Bus, type BusSubscription, CONTROL_TOPIC } from "@/ports/bus.ts";
import { principalChanged } from "@/modules/identity/mod.ts";
import { contentChanged, type ContentLog } from "../content/log.ts";
import { type ContentService, MissingDependency } from "../content/service.ts";
import { classifyUpdate, isEmptyUpdate } from "../content/crdt.ts";
import { estimateEncodeMs, estimateMergeMs, markAsRelay } from "../content/merge_cost.ts";
import { checkShape } from "../rich/update_shape.ts";
import { EDITORS_MAX, UPDATE_MAX_BYTES } from "../schema.ts";
import { accessChanged } from "../service.ts";
import { DocumentStore } from "../store.ts";
import {
  chargeUpdates,
  ConnectionRefused,
  discardFrames,
  type EditorConnection,
  type EditorContext,
  filterOwnStates,
  type HocuspocusModule,
  type Send,
} from "./editor_connection.ts";
import { DocumentReplica } from "./document_replica.ts";
import type { EditorFrame } from "./editor_frame.ts";
import { OPEN_WAIT_MS, takeTurn, WaitingFrames } from "./frame_queue.ts";
import { EditorAccess, type EditorAccessDeps } from "./editor_access.ts";
import { RunningWork } from "./running_work.ts";
import { acknowledgeSync, deferUpdate, readSync } from "./sync_status.ts";
import { isAccessFault, refuseUpdate } from "./update_refusal.ts";
import { CLOSE, documentIdOf, EditorSocket, type SocketHooks } from "./editor_socket.ts";
import { SocketCounts, type SocketLimits } from "./socket_counts.ts";

const TICK_MS = 1000;
/** Sockets without a frame for this long are closed; clients send one every 15 seconds. */
const IDLE_MS = MINUTE_MS;
/** Messages of the sync protocol. */
const STEP = { one: 0, update: 2 };

type Deps = EditorAccessDeps & {
  bus: Bus;
  log: ContentLog;
  contents: ContentService;
  cpu: CpuBudget;
  bytes: WriteBudget;
};
export type CollaborationOptions = SocketLimits & {
  authTimeoutMs: number;
  /** Other nodes may write to a document as well, and their messages may be lost. */
  isShared: boolean;
};

const logger = logOf("document");

export class CollaborationService {
  readonly #deps: Deps;
  readonly #options: CollaborationOptions;
  readonly #node = newId("node");
  readonly #replicas = new Map<string, DocumentReplica>();
  readonly #sockets = new Set<EditorSocket>();
  readonly #work = new RunningWork();
  readonly #waiting = new WaitingFrames();
  readonly #counts: SocketCounts;
  readonly #editorAccess: EditorAccess;
  #engine: Promise<Hocuspocus<EditorContext>> | undefined;
  #hocuspocus: HocuspocusModule | undefined;
  #control: BusSubscription | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #isClosing = false;

  constructor(deps: Deps, options: CollaborationOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#counts = new SocketCounts(options);
    this.#editorAccess = new EditorAccess(deps, this.#replicas, this.#send, this.#work);
    const { bus } = deps;
    const { onLost, onRecovered } = bus;
    bus.onLost = () => {
      onLost();
      this.#editorAccess.markUncertain();
    };
    bus.onRecovered = () => {
      onRecovered();
      this.#editorAccess.markUncertain();
    };
  }

  /** Serves an open socket; loads the engine on first use. The caller passes on every message and the close. */
  async open(webSocket: WebSocketLike, request: Request, hooks: SocketHooks): Promise<EditorSocket> {
    const engine = await (this.#engine ??= this.#start().catch((error) => {
      this.#engine = undefined;
      throw error;
    }));
    const socket = new EditorSocket(webSocket, hooks, {
      authTimeoutMs: this.#options.authTimeoutMs,
      waiting: this.#waiting,
      onClosed: (one) => {
        this.#sockets.delete(one);
        this.#counts.delete(one);
      },
      onRejected: (one, frame, rejection) => this.#rejectUpdate(one, frame, rejection),
    });
    this.#sockets.add(socket);
    // The engine adds the rest of the context after authentication.
    socket.attach((open) => engine.handleConnection(open, request, { socket } as EditorContext));
    if (this.#isClosing) socket.close(CLOSE.shutdown);
    return socket;
  }

  get isDraining(): boolean {
    return this.#isClosing;
  }

  /**
   * Closes all documents, which may contain updates that the store has lost. Editors reconnect and send those again, before
   * any that depend on them.
   */
  disconnectAll(): void {
    for (const socket of [...this.#sockets]) socket.close(CLOSE.retry);
  }

  /** Closes every socket and waits for running work. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    for (const socket of [...this.#sockets]) socket.close(CLOSE.shutdown);
    const engine = await this.#engine;
    // Connections acknowledge the updates that are still being written.
    for (let waits = 0; engine !== undefined && engine.documents.size > 0 && waits < 200; waits++) await delay(10);
    for (const replica of this.#replicas.values()) replica.close();
    await Promise.all([...this.#replicas.values()].map((replica) => replica.idle()));
    this.#control?.close();
    await this.#work.idle();
  }

  async #start(): Promise<Hocuspocus<EditorContext>> {
    this.#hocuspocus = await import("@hocuspocus/server");
    const { Hocuspocus } = this.#hocuspocus;
    this.#control = await this.#deps.bus.subscribe(CONTROL_TOPIC, (message) => {
      if (message.kind === "signal") this.#onSignal(message.signal);
    });
    this.#timer = setInterval(() => this.#editorAccess.tick(this.#options.isShared), TICK_MS);
    return new Hocuspocus<EditorContext>({
      quiet: true,
      timeout: IDLE_MS,
      // Updates are stored before they are applied, so the engine has nothing to store.
      debounce: 0,
      maxUnauthenticatedQueueSize: UPDATE_MAX_BYTES * 2,
      onAuthenticate: (hook) => this.#work.add(this.#authenticate(hook)),
      onTokenSync: ({ connection, token }) => this.#work.add(this.#editorAccess.renewToken(connection, token)),
      onLoadDocument: ({ document, context }) => this.#load(document, context),
      // The engine unloads a document by its name, also one that was opened again since. And a new connection is not counted in
      // the microtasks between finding its document and adding it: a tick later it is.
      beforeUnloadDocument: ({ instance, document }) =>
        instance.documents.get(document.name) === document
          ? nextTick()
          : Promise.reject(new ConnectionRefused("unloaded")),
      // Access may have changed while the document was loading.
      connected: ({ connection }) => Promise.resolve(this.#editorAccess.revalidateSoon(connection)),
      // The current frame is processed, also of a closed editor: the engine prints every error thrown here.
      beforeHandleMessage: async ({ connection, context: { socket, account } }) => {
        // Frames from before authentication have not waited.
        await takeTurn(account)?.catch(() => socket.close(CLOSE.rateLimited));
        if (account.isOverdrawn()) socket.close(CLOSE.cpuLimit);
        if (socket.isClosed) discardFrames(connection);
        // What the engine does with a frame, such as applying awareness, is not measured by itself.
        chargeTick(account);
      },
      beforeSync: ({ connection, document, type, payload }) =>
        this.#acceptUpdate(connection, document.name, type, payload),
      beforeHandleAwareness: ({ document, connection, states }) => {
        if (connection === undefined) return Promise.resolve();
        filterOwnStates(document, connection, states);
        return this.#verifyAwareness(document.name, states);
      },
      onAwarenessUpdate: ({ documentName, added, updated, removed, connection }) => {
        if (connection !== undefined || removed.length > 0) {
          this.#replicas.get(documentName)?.broadcastAwareness([...added, ...updated, ...removed]);
        }
        return Promise.resolve();
      },
    });
  }

  async #authenticate(
    { token, documentName, context, connectionConfig, requestParameters, instance }: {
      token: string;
      documentName: string;
      context: EditorContext;
      connectionConfig: { readOnly: boolean };
      requestParameters: URLSearchParams;
      instance: Hocuspocus;
    },
  ): Promise<Partial<EditorContext>> {
    const { socket } = context;
    try {
      const actor = await this.#deps.authenticate(token);
      if (!socket.isOriginAllowed(actor.tenantId)) throw new ConnectionRefused("origin-not-allowed");
      const account = this.#deps.cpu.accountOf(actor);
      if (socket.isClosed || !this.#counts.add(socket, actor)) throw new ConnectionRefused("connection-limit");
      if (account.isOverdrawn()) throw new ConnectionRefused("too-much-work");
      // Those of a socket that is known have waited.
      if (socket.account === undefined) await takeTurn(account, OPEN_WAIT_MS);
      if (socket.isClosed) throw new ConnectionRefused("closed");
      const access = await chargeTo(account, () => this.#deps.documentAccess.editorAccess(actor, documentName));
      if (access === undefined) throw new ConnectionRefused("permission-denied");
      const generation = requestParameters.get("generation");
      if (generation !== null && generation !== access.row.generation) {
        throw new ConnectionRefused("generation-changed");
      }
      if ((instance.documents.get(documentName)?.getConnectionsCount() ?? 0) >= EDITORS_MAX) {
        throw new ConnectionRefused("too-many-editors");
      }
      if (socket.isClosed) throw new ConnectionRefused("closed");
      socket.markAuthenticated(account, access.row);
      connectionConfig.readOnly = !access.canWrite;
      // The engine then opens the document, and sends the awareness of all its editors.
      chargeTick(account);
      return { actor, canWrite: access.canWrite, account, unacknowledged: 1 };
    } catch (thrown) {
      if (thrown instanceof ConnectionRefused) throw thrown;
      const { code, spec } = Fault.from(thrown);
      if (spec.level === "error") logger.error("opening a document failed", { cause: String(thrown) });
      // After a refusal the client would wait until the authentication timeout closes its socket.
      if (isUnavailable(thrown)) socket.close(CLOSE.retry);
      if (code === "rate_limited") throw new ConnectionRefused("too-much-work");
      throw new ConnectionRefused(spec.status === 401 ? code.replaceAll("_", "-") : "unavailable");
    }
  }

  async #load(document: DocumentReplica["document"], { actor, account, socket }: EditorContext): Promise<void> {
    try {
      const row = await this.#work.add(new DocumentStore(this.#deps.store.db).find(actor.tenantId, document.name));
      if (row === undefined) throw new ConnectionRefused("permission-denied");
      const { bus, log } = this.#deps;
      const replica = new DocumentReplica(
        {
          bus,
          log,
          node: this.#node,
          onRoomEvent: (one, removed) => this.#editorAccess.onAccessChanged(one, removed),
          verify: (one) => this.#editorAccess.verify(one),
        },
        document,
        row,
      );
      this.#replicas.set(document.name, replica);
      document.on("destroy", () => {
        if (this.#replicas.get(document.name) === replica) this.#replicas.delete(document.name);
      });
      markAsRelay(document);
      await replica.load();
      account.consume(estimateEncodeMs(document));
      if (this.#hocuspocus !== undefined) chargeUpdates(this.#hocuspocus, document);
    } catch (thrown) {
      if (!(thrown instanceof ConnectionRefused)) logger.error("loading a document failed", { cause: String(thrown) });
      if (isUnavailable(thrown)) socket.close(CLOSE.retry);
      // The engine drops it without destroying it, and the timer of its awareness would never stop.
      document.destroy();
      throw new ConnectionRefused("unavailable");
    }
  }

  /**
   * Writes an editor's update to the log before the engine applies and acknowledges it. If the update is rejected, the
   * connection is read-only for this frame: the engine then sends "not saved" and does not apply it. Only a rejection does
   * that: an update in the log must be applied, even if the editor has lost its access in the meantime.
   */
  async #acceptUpdate(connection: EditorConnection, name: string, step: number, update: Uint8Array): Promise<void> {
    const { context, document } = connection;
    // To respond to these, the engine reads the whole document.
    if (step === STEP.one || !context.canWrite) context.account.consume(estimateEncodeMs(document));
    if (step === STEP.one) {
      context.vector ??= update;
      return;
    }
    const isSync = step !== STEP.update;
    connection.readOnly = !context.canWrite || (!isSync && context.hasSynced === undefined);
    if (!context.canWrite && isSync) return readSync(connection, update);
    if (connection.readOnly) return deferUpdate(context, update);
    context.hasSynced = true;
    try {
      this.#deps.bytes.assertAvailable(context.account.key);
      await chargeTo(context.account, () => this.#append(connection, name, update));
      if (isSync) acknowledgeSync(connection, this.#send);
    } catch (thrown) {
      const fault = Fault.from(thrown);
      connection.readOnly = true;
      if (fault.spec.status >= 500) {
        // Whether it was written is unknown: the client reconnects and sends again what is missing. No error if it closes.
        if (this.#replicas.has(name)) logger.error("storing failed", { document: name, cause: String(thrown) });
        return context.socket.close(CLOSE.retry);
      }
      // It may be accepted later. What is typed until then depends on it, so the client sends all of it when it reconnects.
      if (fault.code === "rate_limited") return context.socket.close(CLOSE.rateLimited);
      // It depends on an unsaved one, which the sync after a reconnect includes. A sync that lacks one is of another document.
      if (fault instanceof MissingDependency && !isSync) return context.socket.close(CLOSE.retry);
      if (isAccessFault(fault)) {
        if (!isSync) deferUpdate(context, update);
        return this.#editorAccess.suspend(connection, fault);
      }
      refuseUpdate(connection, fault, this.#send);
    }
  }

  /** Responds to an update that is not passed to the engine. */
  #rejectUpdate(socket: EditorSocket, { name: address, kind }: EditorFrame, rejection: Fault): void {
    const editors = this.#replicas.get(documentIdOf(address))?.document.getConnections() ?? [];
    const editor = editors.find((one) => one.context.socket === socket && one.messageAddress === address);
    if (editor === undefined) return;
    if (editor.context.canWrite && kind === "first_sync") editor.context.hasSynced = true;
    this.#send(editor, (message) => message.writeSyncStatus(false));
    if (editor.context.canWrite) refuseUpdate(editor, rejection, this.#send);
  }

  async #append(connection: EditorConnection, name: string, update: Uint8Array): Promise<void> {
    if (isEmptyUpdate(update)) return;
    const replica = this.#replicas.get(name);
    if (replica === undefined) throw new Fault("unavailable", "The document is closing");
    const { document, context: { actor, account } } = connection;
    let relation = account.measure(() => classifyUpdate(document, update));
    if (relation === "missing_dependency") {
      // What it depends on may have been written through another node, whose signal has not arrived yet; nor has, perhaps, that of
      // a removal before it.
      this.#editorAccess.suspect(replica);
      await replica.refresh();
      relation = account.measure(() => classifyUpdate(document, update));
    }
    if (relation === "duplicate") return;
    if (relation === "missing_dependency") throw new MissingDependency();
    if (replica.kind === "rich" && replica.fragment === null) {
      // It may have been named through another node, or by a call.
      replica.fragment = (await new DocumentStore(this.#deps.store.db).find(actor.tenantId, name))?.fragment ?? null;
    }
    const fragment = replica.kind === "text"
      ? undefined
      : account.measure(() => checkShape(document, update, replica.fragment));
    const ms = account.measure(() => estimateMergeMs(document, update));
    // Charged in advance until the actual time is known, so that no others start in the meantime.
    account.consume(ms);
    try {
      const write = () => this.#deps.contents.acceptUpdate(actor, name, update, fragment);
      const { row, accessStamp } = await runAsCaller(actor, write);
      if (accessStamp !== replica.accessStamp) this.#editorAccess.suspect(replica);
      replica.accessStamp = accessStamp;
      replica.fragment = row.fragment;
      replica.markApplied(row.revision);
      await this.#editorAccess.verify(replica)?.catch(() => this.#disconnectOthers(connection));
    } finally {
      account.consume(-ms);
    }
  }

  /** A committed update must be applied: editors whose access cannot be checked now reconnect to receive it. */
  #disconnectOthers(connection: EditorConnection): void {
    for (const editor of connection.document.getConnections() as EditorConnection[]) {
      if (editor !== connection) editor.context.socket.close(CLOSE.retry);
    }
  }

  /** Drops awareness while it cannot be checked who may receive it. */
  async #verifyAwareness(name: string, states: Map<number, unknown>): Promise<void> {
    const replica = this.#replicas.get(name);
    if (replica !== undefined) await this.#editorAccess.verify(replica)?.catch(() => states.clear());
  }

  #onSignal(signal: Signal): void {
    const { tenantId, id } = signal;
    if (contentChanged.matches(signal)) {
      const [name = "", revision] = id.split("/");
      this.#replicas.get(name)?.onRevision(Number(revision));
    } else if (accessChanged.matches(signal)) {
      const replica = this.#replicas.get(id);
      if (replica !== undefined) this.#editorAccess.onAccessChanged(replica);
    } else if (principalChanged.matches(signal)) this.#editorAccess.onPrincipalChanged(tenantId, id);
  }

  readonly #send: Send = (editor, write) => {
    if (this.#hocuspocus === undefined) return;
    editor.send(write(new this.#hocuspocus.OutgoingMessage(editor.messageAddress)).toUint8Array());
  };
}

/** Whether a retry may succeed soon, as when the database is unavailable. */
function isUnavailable(thrown: unknown): boolean {
  return Fault.from(thrown).code === "unavailable";
}
