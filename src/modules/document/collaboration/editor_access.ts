// Access of connected editors: revalidated when something may have changed it, and periodically.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/time/clock.ts";
import { coalesce } from "@/core/coalesce.ts";
import { principalStream, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { failureOf, logOf, rateLimitedWarning } from "@/core/log.ts";
import type { Bus } from "@/ports/bus.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { DocumentAccess } from "../access.ts";
import { DocumentStore } from "../store.ts";
import type { DocumentTables } from "../tables.ts";
import type { EditorConnection, Send } from "./editor_connection.ts";
import type { DocumentReplica } from "./document_replica.ts";
import { CLOSE } from "./editor_socket.ts";
import type { RunningWork } from "./running_work.ts";
import { reportRefusal } from "./update_refusal.ts";

const REVALIDATE_TICKS = 30;
const COMPARE_TICKS = 2;
/** A newer token is requested this long before the current one expires. */
const RENEW_MS = 30_000;

const log = logOf("document");

export type EditorAccessDeps = {
  bus: Pick<Bus, "isCurrent">;
  store: Store<DocumentTables>;
  clock: Clock;
  documentAccess: DocumentAccess;
  /** Throws `unauthenticated`, `token_expired` or `token_revoked`. */
  authenticate: (token: string) => Actor | Promise<Actor>;
  /** The current rights of an actor authenticated earlier; `undefined` if it no longer has access. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
};

export class EditorAccess {
  readonly #deps: EditorAccessDeps;
  readonly #replicas: ReadonlyMap<string, DocumentReplica>;
  readonly #send: Send;
  readonly #work: RunningWork;
  /** Documents that may have missed a change of access since their last check, with the number of the latest such occasion. */
  readonly #uncertain = new WeakMap<DocumentReplica, number>();
  #uncertainties = 0;
  readonly #checks = new WeakMap<DocumentReplica, () => Promise<void>>();
  readonly #warnFailed = rateLimitedWarning(log, "revalidating an editor failed; will retry");
  #ticks = 0;

  constructor(deps: EditorAccessDeps, replicas: ReadonlyMap<string, DocumentReplica>, send: Send, work: RunningWork) {
    this.#deps = deps;
    this.#replicas = replicas;
    this.#send = send;
    this.#work = work;
  }

  /** Accepts a newer token on an open connection, of the same principal only. */
  async renewToken(editor: EditorConnection, token: string): Promise<void> {
    const { context } = editor;
    let actor: Actor;
    try {
      actor = await this.#deps.authenticate(token);
    } catch (thrown) {
      if (Fault.from(thrown).spec.retryable !== true) return context.socket.close(CLOSE.unauthorized);
      // Not refused, but not checked either: the next tick requests it again until the current token expires.
      this.#warnFailed(failureOf(thrown));
      context.isTokenUnverified = true;
      delete context.isTokenRequested;
      return;
    }
    const isSame = actor.principalId === context.actor.principalId && actor.tenantId === context.actor.tenantId;
    if (!isSame) return context.socket.close(CLOSE.unauthorized);
    context.actor = actor;
    delete context.isTokenRequested;
    delete context.isTokenUnverified;
    await this.#tryRevalidate(editor);
  }

  /** Reads the current rights of an editor and applies them. */
  async revalidate(editor: EditorConnection): Promise<void> {
    const { context, document } = editor;
    const { actor } = context;
    const current = await this.#deps.revalidate(actor);
    if (current === undefined || !context.socket.isOriginAllowed(actor.tenantId)) {
      return context.socket.close(CLOSE.unauthorized);
    }
    // A newer token or another revalidation was faster, and it is unknown which of the two read later.
    if (context.actor !== actor) return await this.revalidate(editor);
    context.actor = current;
    const access = await this.#deps.documentAccess.editorAccess(context.actor, document.name);
    // It was closed in the meantime; others on its socket are open.
    if (!document.hasConnection(editor)) return;
    if (access === undefined) return this.#disconnect(editor);
    // After a move to another room it must be opened again to subscribe to that room.
    if (access.row.room_id !== this.#replicas.get(document.name)?.roomId) return context.socket.close(CLOSE.retry);
    if (access.canWrite === context.canWrite) return;
    context.canWrite = access.canWrite;
    this.#send(editor, (message) => message.writeAuthenticated(!access.canWrite));
    // Requests the edits that were rejected while it could not write.
    if (access.canWrite) this.#send(editor, (message) => message.createSyncMessage().writeFirstSyncStepFor(document));
  }

  /** The store refused to write for this editor: it is read-only until its rights have been read again, and knows it. */
  suspend(editor: EditorConnection, fault: Fault): void {
    editor.context.canWrite = false;
    reportRefusal(editor, fault);
    this.#send(editor, (message) => message.writeAuthenticated(true));
    this.revalidateSoon(editor);
  }

  /** Revalidates without waiting for the result. */
  revalidateSoon(editor: EditorConnection): void {
    void this.#work.add(this.#tryRevalidate(editor));
  }

  async #tryRevalidate(editor: EditorConnection): Promise<void> {
    try {
      await this.revalidate(editor);
    } catch (cause) {
      // The store is unavailable: the rights stay as they are until a later attempt succeeds.
      this.#warnFailed(failureOf(cause));
    }
  }

  /**
   * To be awaited before editors of this node receive anything: while the bus is unavailable or silent, and until access has
   * been checked after that, a removal may have been missed. Otherwise `undefined`.
   */
  verify(replica: DocumentReplica): Promise<void> | undefined {
    if (!this.#deps.bus.isCurrent) this.suspect(replica);
    return this.#uncertain.has(replica) ? this.#revalidateReplica(replica) : undefined;
  }

  /** Access to the document may have changed on another node, whose message has not arrived. */
  suspect(replica: DocumentReplica): void {
    this.#uncertain.set(replica, ++this.#uncertainties);
  }

  /** The bus was lost or reconnected: changes of access in between may have been missed. */
  markUncertain(): void {
    this.#uncertainties++;
    for (const replica of this.#replicas.values()) this.#uncertain.set(replica, this.#uncertainties);
    void this.#work.add(this.#compareWithStore());
  }

  /** The access to a document may have changed: disconnects `removed` principals at once and revalidates the others. */
  onAccessChanged({ document }: DocumentReplica, removed: readonly string[] | "*" = []): void {
    for (const editor of document.getConnections()) {
      if (removed === "*" || removed.includes(editor.context.actor.principalId)) this.#disconnect(editor);
      else this.revalidateSoon(editor);
    }
  }

  /** A principal has changed, and so may have the access of its agents. */
  onPrincipalChanged(tenantId: string, id: string): void {
    for (const editor of this.#editors()) {
      const { actor } = editor.context;
      const isConcerned = actor.principalId === id || actor.ownerId === id;
      if (actor.tenantId === tenantId && isConcerned) this.revalidateSoon(editor);
    }
  }

  /** Called every second. `isShared`: other nodes write as well, and their messages may be lost. */
  tick(isShared: boolean): void {
    const now = this.#deps.clock.now();
    this.#ticks++;
    // A few at each tick, so that they are not all revalidated at once.
    let offset = this.#ticks;
    for (const editor of [...this.#editors()]) {
      const { context } = editor;
      const { expiresAt = Infinity } = context.actor;
      if (expiresAt <= now) context.socket.close(context.isTokenUnverified ? CLOSE.retry : CLOSE.unauthorized);
      else if (offset++ % REVALIDATE_TICKS === 0) this.revalidateSoon(editor);
      else if (expiresAt <= now + RENEW_MS && context.isTokenRequested === undefined) {
        context.isTokenRequested = true;
        editor.requestToken();
      }
    }
    if (isShared && this.#ticks % COMPARE_TICKS === 0) void this.#work.add(this.#compareWithStore());
  }

  #disconnect(editor: EditorConnection): void {
    const { socket } = editor.context;
    editor.close(CLOSE.forbidden);
    socket.removeEditor(editor.messageAddress);
    if (![...this.#editors()].some((one) => one.context.socket === socket)) socket.close(CLOSE.forbidden);
  }

  *#editors(): Iterable<EditorConnection> {
    for (const { document } of this.#replicas.values()) yield* document.getConnections();
  }

  /** Compares the revisions of open documents, and what access to them depends on, with the store. */
  readonly #compareWithStore = coalesce(async (): Promise<void> => {
    const open = [...this.#replicas.values()];
    if (open.length === 0) return;
    try {
      await this.#revalidateAll(open);
    } catch (cause) {
      log.warn("comparing documents with the log failed", { cause: String(cause) });
    }
  });

  /** Concurrent callers share one check. */
  #revalidateReplica(replica: DocumentReplica): Promise<void> {
    let check = this.#checks.get(replica);
    if (check === undefined) {
      check = coalesce(() => this.#revalidateAll([replica]));
      this.#checks.set(replica, check);
    }
    return check();
  }

  /** Revalidates the editors of these documents whose access may have changed, then catches up with the log. */
  async #revalidateAll(open: readonly DocumentReplica[]): Promise<void> {
    const { store, bus: { isCurrent } } = this.#deps;
    const before = open.map((replica) => this.#uncertain.get(replica));
    const heads = await new DocumentStore(store.db).heads(
      open.map(({ tenantId, document }) => ({ tenantId, id: document.name })),
    );
    const streams = await store.log.heads(open.flatMap(accessStreamsOf));
    await Promise.all(open.map(async (replica, index) => {
      const head = heads.get(replica.document.name);
      const versions = new Map<string, number | undefined>([["document", head?.version]]);
      for (const { tenantId, stream } of accessStreamsOf(replica)) {
        versions.set(stream, streams.get(streamKey(tenantId, stream))?.head);
      }
      await this.#revalidateChanged(replica, versions);
      if (isCurrent && this.#uncertain.get(replica) === before[index]) this.#uncertain.delete(replica);
      if (head !== undefined) replica.onRevision(head.revision);
    }));
  }

  /** Revalidates the editors whose access depends on something that has changed since the last check. */
  async #revalidateChanged(replica: DocumentReplica, versions: ReadonlyMap<string, number | undefined>): Promise<void> {
    const { checkedAccess, roomId, document } = replica;
    const hasChanged = (name: string): boolean => checkedAccess.get(name) !== versions.get(name);
    const isForAll = hasChanged("document") || roomId !== null && hasChanged(roomStream(roomId));
    const concerned = (document.getConnections() as EditorConnection[]).filter(({ context: { actor } }) =>
      isForAll || principalsOf(actor).some((id) => hasChanged(principalStream(id)))
    );
    await Promise.all(concerned.map((editor) => this.revalidate(editor)));
    replica.checkedAccess = versions;
  }
}

/** Streams whose events may change who can edit a document: of its room, of the editors, and of the owners of agents. */
function accessStreamsOf({ tenantId, roomId, document }: DocumentReplica): { tenantId: string; stream: string }[] {
  const editors = document.getConnections() as EditorConnection[];
  const principals = new Set(editors.flatMap(({ context }) => principalsOf(context.actor)));
  const names = [...roomId === null ? [] : [roomStream(roomId)], ...[...principals].map(principalStream)];
  return names.map((stream) => ({ tenantId, stream }));
}

function principalsOf({ principalId, ownerId }: Actor): string[] {
  return ownerId === null ? [principalId] : [principalId, ownerId];
}
