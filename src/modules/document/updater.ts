// Updates of everything but the content: title, parent, room, lock, state, and the readers of private documents.
import { type Clock, iso } from "@/core/time/clock.ts";
import { principalEvent, principalStream, roomStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion, jsonOf } from "@/core/patch.ts";
import { type IdentityService, resolvePrincipalId } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { assertActive, type DocumentAccess, type DocumentGrant, isModerator } from "./access.ts";
import { indexCommentsJob } from "./comment/searchable.ts";
import { CommentStore } from "./comment/store.ts";
import type { ContentLog } from "./content/log.ts";
import { presentDocument, publishDocumentUpdated, redactAllComments } from "./presenter.ts";
import {
  type AccessPut,
  type AccessRef,
  type Document,
  type DocumentAccessEntry,
  type DocumentUpdate,
  READERS_MAX,
} from "./schema.ts";
import { type DocumentIndex, indexDocument } from "./searchable.ts";
import { accessChanged } from "./service.ts";
import { DocumentStore } from "./store.ts";
import type { AccessRole, AccessRow, DocumentRow, DocumentTables } from "./tables.ts";
import { lockDescendants, requireParent } from "./tree.ts";

type Tx = Transaction<DocumentTables>;
type Deps = {
  store: Store<DocumentTables>;
  clock: Clock;
  documentAccess: DocumentAccess;
  log: ContentLog;
  identity: IdentityService;
  index?: DocumentIndex | undefined;
};

/** Roles of readers as roles of rooms. */
export const ROOM_ROLE_OF: Readonly<Record<DocumentAccessEntry["role"], AccessRole>> = {
  reader: "observer",
  editor: "member",
  owner: "owner",
};

export class DocumentUpdater {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  update(context: Context, { id, version, ...input }: DocumentUpdate): Promise<Document> {
    const { store, documentAccess } = this.#deps;
    const isMove = input.parentId !== undefined || input.roomId !== undefined;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id, { isBranch: isMove });
      const { row } = locked;
      assertVersion("document", row.version, version);
      checkChange(locked, input);
      const roomId = input.roomId ?? row.room_id;
      const isLeaving = roomId !== row.room_id;
      if (isLeaving && roomId !== null) await documentAccess.assertRoomAccess(context, roomId, tx);
      const parentId = input.parentId === undefined ? (isLeaving ? null : row.parent_id) : input.parentId;
      if (parentId !== row.parent_id || isLeaving) {
        await requireParent(tx, context, documentAccess, roomId, parentId, row);
      }
      // Before publishing, which locks the room: transactions lock documents before rooms.
      const descendants = isLeaving ? await lockDescendants(tx, row) : [];
      if (isLeaving) await documentAccess.assertCanDelete(tx, context.actor, [row, ...descendants]);
      const saved = await this.#save(tx, context, row, {
        ...row,
        title: input.title ?? row.title,
        parent_id: parentId,
        room_id: roomId,
        is_locked: input.locked === undefined ? row.is_locked : Number(input.locked),
        state: input.state ?? row.state,
        metadata_json: jsonOf(input.metadata) ?? row.metadata_json,
      });
      for (const one of descendants) await this.#save(tx, context, one, { ...one, room_id: roomId });
      return presentDocument(saved);
    });
  }

  async readers(context: Context, id: string): Promise<{ items: DocumentAccessEntry[] }> {
    const { row } = await this.#deps.documentAccess.require(context, id);
    assertPrivate(row);
    const rows = await new DocumentStore(this.#deps.store.db).readers(row.tenant_id, id);
    return { items: rows.map(presentAccess) };
  }

  share(context: Context, { id, principalId: ref, role }: AccessPut): Promise<DocumentAccessEntry> {
    const principalId = resolvePrincipalId(context.actor, ref);
    const { store, documentAccess, identity } = this.#deps;
    return store.write(async (tx) => {
      const { row } = await documentAccess.requireForUpdate(tx, context, id);
      assertPrivate(row);
      const { tenantId } = context.actor;
      await identity.requireEnabledFor(context.actor, principalId, tx.db);
      const documents = new DocumentStore(tx.db);
      const readers = await documents.readers(tenantId, id);
      const rest = readers.filter((reader) => reader.principal_id !== principalId);
      if (role !== "owner") await assertOwnerRemains(documents, row, principalId);
      if (rest.length >= READERS_MAX) throw new Fault("limit_reached", `A document has at most ${READERS_MAX} readers`);
      const access: AccessRow = {
        tenant_id: tenantId,
        document_id: id,
        principal_id: principalId,
        role: ROOM_ROLE_OF[role],
      };
      await documents.putReader(access);
      await this.#index(tx, row, true);
      tx.signal(accessChanged.create(tenantId, id));
      await publishDocumentUpdated(tx, [row, row], ["access"], [context.actor.principalId], context.actor);
      return presentAccess(access);
    });
  }

  async unshare(context: Context, { id, principalId: ref }: AccessRef): Promise<void> {
    const { actor } = context;
    const principalId = resolvePrincipalId(actor, ref);
    // Every reader may leave.
    const access = principalId === actor.principalId
      ? { ...context.access, room: "observer" as const }
      : context.access;
    await this.#deps.store.write(async (tx) => {
      const { row } = await this.#deps.documentAccess.requireForUpdate(tx, { ...context, access }, id);
      assertPrivate(row);
      const documents = new DocumentStore(tx.db);
      const before = await documents.audience(row.tenant_id, id);
      const reader = await documents.roleOf(row.tenant_id, id, principalId);
      if (reader === undefined) throw new Fault("not_found", `The document is not shared with ${principalId}`);
      if (reader.role === "owner") await assertOwnerRemains(documents, row, principalId);
      await documents.removeReader(row.tenant_id, id, principalId);
      await this.#index(tx, row, true);
      tx.signal(accessChanged.create(row.tenant_id, id));
      // The agents of a removed principal lose access as well.
      const after = new Set(await documents.audience(row.tenant_id, id));
      await tx.emit(
        ...before.filter((reader) => !after.has(reader)).map((reader) =>
          principalEvent(actor, reader, "document.deleted", { documentId: id, roomId: null, reason: "unshared" })
        ),
      );
    });
  }

  async #save(tx: Tx, { actor }: Context, before: DocumentRow, changed: DocumentRow): Promise<DocumentRow> {
    if (JSON.stringify(presentDocument(before)) === JSON.stringify(presentDocument(changed))) return before;
    const row: DocumentRow = {
      ...changed,
      version: before.version + 1,
      updated_at: iso(this.#deps.clock.now()),
    };
    const { title, parent_id, room_id, is_locked, state, metadata_json, version, updated_at } = row;
    const set = { title, parent_id, room_id, is_locked, state, metadata_json, version, updated_at };
    if (before.room_id !== row.room_id) await this.#publishRemoved(tx, actor, before);
    await new DocumentStore(tx.db).update(row.tenant_id, [row.id], set);
    await this.#index(tx, row, before.room_id !== row.room_id);
    tx.signal(accessChanged.create(row.tenant_id, row.id));
    if (row.deleted_at === null) await publishDocumentUpdated(tx, [before, row], [], [actor.principalId], actor);
    return row;
  }

  /** Indexes a document; where other people read it now, its comments as well. */
  async #index(tx: Tx, row: DocumentRow, hasOtherReaders: boolean): Promise<void> {
    const { index, log } = this.#deps;
    await indexDocument(tx, index, row, (await log.text(row, { db: tx.db })).text);
    if (index === undefined || !hasOtherReaders) return;
    if (await new CommentStore(tx.db).count(row.tenant_id, row.id) === 0) return;
    await tx.enqueue(indexCommentsJob(row, this.#deps.clock.now()));
  }

  /** Publishes to the former viewers that a document was moved, and removes its readers. */
  async #publishRemoved(tx: Tx, actor: Context["actor"], row: DocumentRow) {
    const { tenant_id: tenantId, id, room_id: roomId } = row;
    const documents = new DocumentStore(tx.db);
    const readers = await documents.readers(tenantId, id);
    const streams = roomId === null
      ? (await documents.audience(tenantId, id)).map(principalStream)
      : [roomStream(roomId)];
    const data = { documentId: id, roomId, reason: "moved" };
    await tx.emit(...streams.map((stream) => ({ tenantId, stream, type: "document.deleted", actor, data })));
    // Deleting a comment later redacts events of the new streams only.
    if (await new CommentStore(tx.db).count(tenantId, id) > 0) {
      await redactAllComments(tx, row, iso(this.#deps.clock.now()));
    }
    for (const reader of readers) await documents.removeReader(tenantId, id, reader.principal_id);
  }
}

function checkChange(
  { row, role }: DocumentGrant,
  { locked, title, metadata, ...location }: Omit<DocumentUpdate, "id">,
): void {
  const isManaging = locked !== undefined || (row.room_id === null && location.roomId !== undefined);
  if ((isManaging || row.is_locked === 1) && !isModerator(role)) {
    throw new Fault("forbidden", "Locking, and changing a locked document, requires a moderator of the room");
  }
  const isChanging = title !== undefined || metadata !== undefined || location.parentId !== undefined ||
    location.roomId !== undefined;
  if (location.state !== "active" && isChanging) assertActive(row);
}

function assertPrivate(row: DocumentRow): void {
  if (row.room_id !== null) throw new Fault("conflict", "Documents of a room are shared with its members");
}

/** Throws unless a private document has an owner besides `principalId`. */
async function assertOwnerRemains(documents: DocumentStore, row: DocumentRow, principalId: string): Promise<void> {
  if (await documents.hasOtherOwner(row.tenant_id, row.id, principalId)) return;
  throw new Fault("conflict", "A private document needs at least one owner who is not an agent");
}

/** A reader as clients see it. */
export function presentAccess({ principal_id: principalId, role }: AccessRow): DocumentAccessEntry {
  return { principalId, role: role === "observer" ? "reader" : role === "member" ? "editor" : "owner" };
}
