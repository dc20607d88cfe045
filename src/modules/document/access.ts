// Authorization and locks of documents: by the roles of their room or, for private ones, of their readers.
import { type Actor, hasScope, isAtLeast, lowerOf, ROOM_ROLES, type RoomRole } from "@/core/actor.ts";
import { hashText } from "@/core/crypto.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault, isFault, notVisible } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";

/** A document the caller has access to. `role` is null for a viewer of a public room. */
export type DocumentGrant = { row: DocumentRow; role: RoomRole | null };
/** A document read under its lock: no other transaction changes it until the commit. */
export type LockedDocument = DocumentGrant & {
  tx: Transaction<DocumentTables>;
  /** Epoch of the lock's stream; changes when the database is restored from a backup. */
  epoch: string;
  /** Changes with the settings of the document, with its readers and, on PostgreSQL, with the access to its room. */
  accessStamp: string;
};
type Which = "live" | "deleted";

/** Sorts before `document:…`, because locks are acquired in the order of their names. */
const TREE_LOCK = "document/tree";

export class DocumentAccess {
  readonly #store: Store<DocumentTables>;
  readonly #roomAccess: RoomAccess;

  constructor({ store, roomAccess }: { store: Store<DocumentTables>; roomAccess: RoomAccess }) {
    this.#store = store;
    this.#roomAccess = roomAccess;
  }

  /** Finds a document; throws unless the caller has the role that the operation requires in its room, or as a reader. */
  async require(
    context: Context,
    id: string,
    which: Which = "live",
    tx?: Transaction<DocumentTables>,
  ): Promise<DocumentGrant> {
    const { actor } = context;
    const { db } = tx ?? this.#store;
    const row = await new DocumentStore(db).find(actor.tenantId, id);
    if (row === undefined) throw notVisible("document");
    const role = row.room_id === null
      ? await this.#requirePrivate(context, row, db)
      : await this.#requireInRoom(context, row.room_id, tx);
    if (row.deleted_at !== null && which === "live") throw notVisible("document");
    return { row, role };
  }

  /** Locks a document and checks access again under the lock. `isBranch` locks the tree, to lock its descendants next. */
  async requireForUpdate(
    tx: Transaction<DocumentTables>,
    context: Context,
    id: string,
    { which = "live", isBranch = false }: { which?: Which; isBranch?: boolean } = {},
  ): Promise<LockedDocument> {
    const { row: { room_id: roomId } } = await this.require(context, id, which, tx);
    // With the room, so that access in it does not change. For a branch it is locked later, after the descendants.
    const streams = isBranch
      ? [TREE_LOCK, lockStreamOf(id)]
      : [lockStreamOf(id), ...roomId === null ? [] : [roomStream(roomId)]];
    const locks = await tx.reserveAll(context.actor.tenantId, new Map(streams.map((stream) => [stream, 0])));
    const epoch = locks.get(lockStreamOf(id))?.epoch ?? "";
    const grant = await this.require(context, id, which, tx);
    const readers = roomId === null
      ? hashText(JSON.stringify(await new DocumentStore(tx.db).readers(context.actor.tenantId, id)))
      : locks.get(roomStream(roomId))?.accessVersion;
    return { tx, epoch, accessStamp: `${grant.row.version}/${readers}`, ...grant };
  }

  /** Throws unless the caller has the role in the room that the operation requires. */
  async assertRoomAccess(context: Context, roomId: string, tx?: Transaction<DocumentTables>): Promise<void> {
    await this.#roomAccess.require(context, roomId, tx && { tx });
  }

  /**
   * Throws unless the caller may move, delete or restore all of these documents: their own unlocked ones, or any as a moderator
   * of the room. Each private document in a branch has readers and owners of its own.
   */
  async assertCanDelete(
    { db }: Transaction<DocumentTables>,
    actor: Actor,
    rows: readonly DocumentRow[],
  ): Promise<void> {
    for (const row of rows) {
      const role = await this.#role(actor, row, db);
      const isOwn = row.created_by === actor.principalId && row.is_locked === 0 && role !== undefined;
      if (isOwn || isModerator(role ?? null)) continue;
      const detail =
        "Moving, deleting and restoring a locked document, or one of another owner, requires a moderator of the " +
        "room or an owner";
      throw new Fault("forbidden", detail);
    }
  }

  /** Of these documents, those that the actor can read now. */
  async filterReadable(
    actor: Actor,
    ids: readonly string[],
    db: AnyDatabase = this.#store.db,
  ): Promise<ReadonlySet<string>> {
    const rows = await new DocumentStore(db).findUndeleted(actor.tenantId, { ids });
    const rooms = await this.#roomAccess.findMany(actor, rows.flatMap((row) => row.room_id ?? []), db);
    const isReadable = async (row: DocumentRow): Promise<boolean> =>
      row.room_id === null ? await this.#role(actor, row, db) !== undefined : rooms.has(row.room_id);
    const readable = await Promise.all(rows.map(isReadable));
    return new Set(rows.flatMap((row, n) => readable[n] === true ? row.id : []));
  }

  /** Access of a live editor; `undefined` if it may not even read. */
  async editorAccess(actor: Actor, id: string): Promise<{ row: DocumentRow; canWrite: boolean } | undefined> {
    try {
      if (!hasScope(actor, "document.read")) return undefined;
      const { row } = await this.require(editorContext(actor, "read"), id);
      return { row, canWrite: await this.#canWrite(actor, id) };
    } catch (thrown) {
      if (thrown instanceof Fault && !thrown.spec.retryable) return undefined;
      throw thrown;
    }
  }

  async #canWrite(actor: Actor, id: string): Promise<boolean> {
    if (!hasScope(actor, "document.write")) return false;
    try {
      assertWritable(await this.require(editorContext(actor, "write"), id));
      return true;
    } catch (thrown) {
      if (thrown instanceof Fault && !thrown.spec.retryable) return false;
      throw thrown;
    }
  }

  async #requireInRoom(
    context: Context,
    roomId: string,
    tx: Transaction<DocumentTables> | undefined,
  ): Promise<RoomRole | null> {
    try {
      return (await this.#roomAccess.require(context, roomId, tx && { tx })).role;
    } catch (thrown) {
      if (isFault(thrown, "not_found")) throw notVisible("document");
      throw thrown;
    }
  }

  async #requirePrivate(
    { actor, access: { room: least = "observer" }, operation }: Context,
    row: DocumentRow,
    db: AnyDatabase,
  ): Promise<RoomRole> {
    const found = await this.#role(actor, row, db);
    if (found === undefined) throw notVisible("document");
    const role = found ?? "observer";
    if (!isAtLeast(ROOM_ROLES, role, least)) {
      throw new Fault(
        "forbidden",
        `${operation} requires being ${least === "member" ? "an editor" : "an owner"} of this document`,
      );
    }
    return role;
  }

  async #role(actor: Actor, row: DocumentRow, db: AnyDatabase): Promise<RoomRole | null | undefined> {
    if (row.room_id !== null) return (await this.#roomAccess.find(actor, row.room_id, db))?.role;
    if (actor.bounds !== undefined) return undefined;
    const documents = new DocumentStore(db);
    const own = (await documents.roleOf(row.tenant_id, row.id, actor.principalId))?.role;
    if (own === undefined || actor.ownerId === null) return own;
    const ownerRole = (await documents.roleOf(row.tenant_id, row.id, actor.ownerId))?.role;
    return ownerRole === undefined ? undefined : lowerOf<RoomRole>(ROOM_ROLES, own, ownerRole);
  }
}

/** Throws unless this role may change the content. */
export function assertWritable({ row, role }: DocumentGrant): void {
  if (row.is_locked === 1 && !isModerator(role)) {
    throw new Fault("forbidden", "The document is locked; only moderators of the room can change it");
  }
  assertActive(row);
}

export function assertActive({ state }: Pick<DocumentRow, "state">): void {
  if (state === "archived") throw new Fault("conflict", "The document is archived; activate it first");
}

export function isModerator(role: RoomRole | null): boolean {
  return role !== null && isAtLeast(ROOM_ROLES, role, "moderator");
}

/** The context in which the access of a live editor is checked. */
export function editorContext(actor: Actor, right: "read" | "write"): Context {
  return {
    actor,
    requestId: "",
    access: { scope: `document.${right}`, room: right === "read" ? "observer" : "member" },
    operation: "document.sync",
    isReadOnly: right === "read",
  };
}

/**
 * Locks a document until the commit, as a stream without events: the store can share such locks between the writers of one
 * batch. Resolves to the stream's epoch.
 */
export async function lockDocument(tx: Transaction<DocumentTables>, tenantId: string, id: string): Promise<string> {
  return (await tx.reserve(tenantId, lockStreamOf(id), 0)).epoch;
}

export function lockStreamOf(id: string): string {
  return `document:${id}`;
}

/** Locks the tree of a tenant's documents; to be acquired before documents. */
export async function lockTree(tx: Transaction<DocumentTables>, tenantId: string): Promise<void> {
  await tx.lock(tenantId, TREE_LOCK);
}
