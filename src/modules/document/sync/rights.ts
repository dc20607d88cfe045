// Rights of those who have documents open: looked at again whenever something may have changed them, and now and then.
import type { Actor } from "@/core/actor.ts";
import type { Clock } from "@/core/clock.ts";
import { roomStream } from "@/core/event.ts";
import { logOf } from "@/core/log.ts";
import { type Store, streamKey } from "@/ports/store.ts";
import type { DocumentGate } from "../access.ts";
import { DocumentStore } from "../store.ts";
import type { DocumentTables } from "../tables.ts";
import type { Editor, Send } from "./editor.ts";
import type { Follower } from "./follower.ts";
import { ENDED } from "./session.ts";

const RECHECK_TICKS = 30;
const COMPARE_TICKS = 2;
/** A client is asked for a newer token this long before its token ends. */
const RENEW_MS = 30_000;

const log = logOf("document");

export type RightsDeps = {
  store: Store<DocumentTables>;
  clock: Clock;
  gate: DocumentGate;
  /** Throws `unauthenticated`, `token_expired` or `token_revoked`. */
  authenticate: (token: string) => Actor | Promise<Actor>;
  /** Somebody authenticated earlier with the rights left to them; `undefined` when they may not stay. */
  revalidate: (actor: Actor) => Promise<Actor | undefined>;
};

export class EditorRights {
  readonly #deps: RightsDeps;
  readonly #followers: ReadonlyMap<string, Follower>;
  readonly #send: Send;
  #ticks = 0;

  constructor(deps: RightsDeps, followers: ReadonlyMap<string, Follower>, send: Send) {
    this.#deps = deps;
    this.#followers = followers;
    this.#send = send;
  }

  /** A newer token on a running connection; another principal's does not count. */
  async renew(editor: Editor, token: string): Promise<void> {
    const { context } = editor;
    try {
      const actor = await this.#deps.authenticate(token);
      const isSame = actor.principalId === context.actor.principalId && actor.tenantId === context.actor.tenantId;
      if (!isSame) return context.session.end(ENDED.unauthorized);
      context.actor = actor;
      delete context.isAsked;
      await this.recheck(editor);
    } catch {
      context.session.end(ENDED.unauthorized);
    }
  }

  /** Asks again what an editor may do, and holds it to the answer. */
  async recheck(editor: Editor): Promise<void> {
    const { context, document } = editor;
    const { actor } = context;
    const current = await this.#deps.revalidate(actor);
    if (current === undefined || !context.session.mayActIn(actor.tenantId)) {
      return context.session.end(ENDED.unauthorized);
    }
    // A newer token came meanwhile, or another look ended first: which of the two read later cannot be told.
    if (context.actor !== actor) return await this.recheck(editor);
    context.actor = current;
    const editing = await this.#deps.gate.editing(context.actor, document.name);
    // It has ended meanwhile; others on its socket go on.
    if (!document.hasConnection(editor)) return;
    if (editing === undefined) return this.#cutOff(editor);
    // A document that changed rooms is opened anew, where it listens to the right one.
    if (editing.row.room_id !== this.#followers.get(document.name)?.roomId) return context.session.end(ENDED.again);
    if (editing.canWrite === context.canWrite) return;
    context.canWrite = editing.canWrite;
    this.#send(editor, (message) => message.writeAuthenticated(!editing.canWrite));
    // What was typed while it was not allowed is asked for again.
    if (editing.canWrite) this.#send(editor, (message) => message.createSyncMessage().writeFirstSyncStepFor(document));
  }

  /** The same without waiting for it. */
  recheckSoon(editor: Editor): void {
    void this.recheck(editor).catch((cause) => {
      // The store is away: rights stay as they are until it can be asked, which is tried again.
      log.warn("rights could not be looked at again", { cause: String(cause) });
    });
  }

  /** Something changed around a document: who is gone is cut off at once, of the others it is asked what they may do now. */
  moved({ document }: Follower, gone: readonly string[] | "*" = []): void {
    for (const editor of document.getConnections()) {
      if (gone === "*" || gone.includes(editor.context.actor.principalId)) this.#cutOff(editor);
      else this.recheckSoon(editor);
    }
  }

  /** Something changed about a principal, and so about its agents. */
  principalMoved(tenantId: string, id: string): void {
    for (const editor of this.#editors()) {
      const { actor } = editor.context;
      const isConcerned = actor.principalId === id || actor.ownerId === id;
      if (actor.tenantId === tenantId && isConcerned) this.recheckSoon(editor);
    }
  }

  /** To be called every second. `isShared`: other nodes may change things, and what they say may be lost. */
  tick(isShared: boolean): void {
    const now = this.#deps.clock.now();
    this.#ticks++;
    // A few at each tick, so that not everybody is asked about at once.
    let place = this.#ticks;
    for (const editor of [...this.#editors()]) {
      const { context } = editor;
      const { expiresAt = Infinity } = context.actor;
      if (expiresAt <= now) context.session.end(ENDED.unauthorized);
      else if (place++ % RECHECK_TICKS === 0) this.recheckSoon(editor);
      else if (expiresAt <= now + RENEW_MS && context.isAsked === undefined) {
        context.isAsked = true;
        editor.requestToken();
      }
    }
    if (isShared && this.#ticks % COMPARE_TICKS === 0) void this.#compare();
  }

  #cutOff(editor: Editor): void {
    const { session } = editor.context;
    editor.close(ENDED.forbidden);
    session.forget(editor.messageAddress);
    if (![...this.#editors()].some((one) => one.context.session === session)) session.end(ENDED.forbidden);
  }

  *#editors(): Iterable<Editor> {
    for (const { document } of this.#followers.values()) yield* document.getConnections();
  }

  /** Asks the store where open documents and their rooms stand. */
  async #compare(): Promise<void> {
    const { store } = this.#deps;
    const open = [...this.#followers.values()];
    if (open.length === 0) return;
    try {
      const heads = await new DocumentStore(store.db).heads(
        open.map(({ tenantId, document }) => ({ tenantId, id: document.name })),
      );
      const rooms = await store.log.heads(
        open.flatMap(({ tenantId, roomId }) => roomId === null ? [] : [{ tenantId, stream: roomStream(roomId) }]),
      );
      for (const follower of open) {
        const { tenantId, roomId, document } = follower;
        const head = heads.get(document.name);
        const room = roomId === null ? undefined : rooms.get(streamKey(tenantId, roomStream(roomId)));
        if (head !== undefined) follower.moved(head.revision);
        if (follower.haveRightsMoved(`${head?.version} ${room?.head}`)) this.moved(follower);
      }
    } catch (cause) {
      log.warn("documents could not be compared with the log", { cause: String(cause) });
    }
  }
}
