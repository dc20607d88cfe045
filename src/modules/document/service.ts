// Creates, imports, lists, reads, deletes and restores documents.
import { isGuest } from "@/core/actor.ts";
import { nextSlice, runInSlices } from "@/core/caller.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { defineSignal } from "@/core/event/event.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import { type Holds, holdSubjectOf } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import type { JobDraft } from "@/core/job.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { NamedFiles } from "@/modules/file/mod.ts";
import { readerOf, RESTORE_WINDOW_MS } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { type DocumentAccess, lockDocument, lockTree } from "./access.ts";
import type { ContentLog } from "./content/log.ts";
import { applyChange, encode, openDocument, spliceText } from "./content/crdt.ts";
import { parseContent, type ParsedContent } from "./content/input.ts";
import { assertItemLimit } from "./content/merge_cost.ts";
import { DEFAULT_FRAGMENT, fragmentOf, representationOf, type Shape } from "./content/representation.ts";
import { dialectOf } from "./rich/dialect.ts";
import { completeIds, writeFragment } from "./rich/fragment_writer.ts";
import { richTooLarge } from "./rich/node.ts";
import { extractTitle, normalizeMarkdown } from "./markdown.ts";
import { presentDocument, publishDocumentCreated, publishDocumentEvent, publishDocumentUpdated } from "./presenter.ts";
import type { Document, DocumentCreate, DocumentImport, DocumentList } from "./schema.ts";
import { type DocumentIndex, indexDocument, KIND } from "./searchable.ts";
import { COMMENT_KIND } from "./comment/searchable.ts";
import { CommentStore } from "./comment/store.ts";
import { documentFileOwner } from "./files.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";
import { lockDescendants, requireParent } from "./tree.ts";

export const PURGE_JOB = "document.purge";
/** Sent when rights in a document may have changed; the id is the document's. */
export const accessChanged = defineSignal("document.access_changed");
/** A document may have thousands of comments, and hundreds of revisions. */
const PURGE_BATCH = 20;

type Deps = {
  store: Store<DocumentTables>;
  clock: Clock;
  cursors: Cursors;
  documentAccess: DocumentAccess;
  log: ContentLog;
  files: NamedFiles;
  holds: Holds;
  index?: DocumentIndex | undefined;
};

export class DocumentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async create(context: Context, input: DocumentCreate): Promise<Document> {
    const { title, parentId, metadata, ...location } = input;
    const roomId = location.roomId ?? null;
    const { actor } = context;
    const { store, clock, documentAccess, log } = this.#deps;
    const { shape, generation, content, snapshot } = await firstContent(input);
    return await store.write(async (tx) => {
      if (roomId !== null) await documentAccess.assertRoomAccess(context, roomId, tx);
      else if (isGuest(actor)) {
        throw new Fault("forbidden", "Guests can create documents in rooms only");
      }
      const parent = await requireParent(tx, context, documentAccess, roomId, parentId);
      const now = iso(clock.now());
      const row: DocumentRow = {
        tenant_id: actor.tenantId,
        id: newId("doc"),
        room_id: roomId,
        parent_id: parent?.id ?? null,
        title,
        ...shape,
        state: "active",
        is_locked: 0,
        generation,
        revision: 1,
        text_bytes: content.bytes,
        pending_bytes: 0,
        state_bytes: snapshot.length,
        pending_since: null,
        edited_by: actor.principalId,
        edited_at: now,
        metadata_json: JSON.stringify(metadata),
        version: 1,
        created_by: actor.principalId,
        created_at: now,
        updated_at: now,
        deleted_at: null,
        deletion_root_id: null,
      };
      const documents = new DocumentStore(tx.db);
      await documents.add(row);
      if (roomId === null) {
        const owners = privateOwners(actor);
        actor.bounds?.addReaders(owners.map(([principalId]) => principalId));
        for (const [principalId, role] of owners) {
          await documents.putReader({ tenant_id: row.tenant_id, document_id: row.id, principal_id: principalId, role });
        }
      }
      await log.create(tx, row, content, snapshot);
      await publishDocumentCreated(tx, row, actor);
      return presentDocument(row);
    });
  }

  import(context: Context, { markdown, title, ...location }: DocumentImport): Promise<Document> {
    const text = normalizeMarkdown(markdown);
    const name = title ?? extractTitle(text);
    if (name === undefined) throw invalidField("/title", "required, because the text has no first line");
    return this.create(context, { ...location, title: name, text });
  }

  async list(context: Context, { limit, cursor, sort, parentId, ...filter }: DocumentList): Promise<Page<Document>> {
    const { actor } = context;
    const { store, cursors, documentAccess } = this.#deps;
    if (filter.roomId !== undefined) await documentAccess.assertRoomAccess(context, filter.roomId);
    const bind = ["document.list", actor.tenantId, actor.principalId, sort, parentId ?? "", filter];
    const rows = await new DocumentStore(store.db).list(
      actor.tenantId,
      readerOf(actor),
      { ...filter, parentId: parentId === "root" ? null : parentId },
      sort,
      cursors.decode(cursor, bind),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, (row) => [sortKey(sort, row), row.id], presentDocument);
  }

  async read(context: Context, id: string): Promise<Document> {
    return presentDocument((await this.#deps.documentAccess.require(context, id)).row);
  }

  /** Deletes a document with its descendants; for the creator of all of them, and for moderators. */
  async delete(context: Context, id: string): Promise<void> {
    const { store, documentAccess, clock } = this.#deps;
    await store.write(async (tx) => {
      const { row } = await documentAccess.requireForUpdate(tx, context, id, { isBranch: true });
      const branch = [row, ...(await lockDescendants(tx, row)).filter(({ deleted_at }) => deleted_at === null)];
      await documentAccess.assertCanDelete(tx, context.actor, branch);
      const now = clock.now();
      for (const one of branch) {
        const deleted: DocumentRow = {
          ...one,
          deleted_at: iso(now),
          deletion_root_id: row.id,
          version: one.version + 1,
        };
        await this.#save(tx, deleted);
        const data = { documentId: one.id, roomId: one.room_id, reason: "deleted" };
        await publishDocumentEvent(tx, deleted, "document.deleted", data, context.actor);
      }
      await tx.enqueue({ ...purgeJob(row), runAt: now + RESTORE_WINDOW_MS });
    });
  }

  /** Restores a document with the descendants that were deleted with it. */
  restore(context: Context, id: string): Promise<Document> {
    const { store, documentAccess, clock, log } = this.#deps;
    return store.write(async (tx) => {
      const { row } = await documentAccess.requireForUpdate(tx, context, id, { which: "deleted", isBranch: true });
      await documentAccess.assertCanDelete(tx, context.actor, [row]);
      if (row.deleted_at === null) throw new Fault("conflict", "The document is not deleted");
      if (row.deletion_root_id !== row.id) {
        throw new Fault("conflict", "The document was deleted with its parent; restore the parent");
      }
      if (Date.parse(row.deleted_at) + RESTORE_WINDOW_MS <= clock.now()) {
        throw new Fault("gone", "The document was purged");
      }
      const documents = new DocumentStore(tx.db);
      const parent = row.parent_id === null ? undefined : await documents.find(row.tenant_id, row.parent_id);
      let restored = row;
      for (const one of await documents.deletedWith(row.tenant_id, row.id)) {
        const undeleted: DocumentRow = { ...one, deleted_at: null, deletion_root_id: null, version: one.version + 1 };
        // Without its parent it becomes a top-level document.
        if (one.id === row.id && parent?.deleted_at !== null) undeleted.parent_id = null;
        await this.#save(tx, undeleted);
        await log.rescheduleCommit(tx, undeleted);
        await publishDocumentUpdated(tx, [one, undeleted], [], [context.actor.principalId], context.actor);
        if (one.id === row.id) restored = undeleted;
      }
      return presentDocument(restored);
    });
  }

  /** Permanently deletes a deleted document, unless it was restored or deleted again in the meantime. */
  async purge(tenantId: string, id: string): Promise<void> {
    const purgeSome = () =>
      this.#deps.store.write(async (tx): Promise<boolean> => {
        await lockDocument(tx, tenantId, id);
        const documents = new DocumentStore(tx.db);
        const row = await documents.find(tenantId, id);
        if (row === undefined || row.deleted_at === null || row.deletion_root_id !== id) return false;
        if (Date.parse(row.deleted_at) + RESTORE_WINDOW_MS > this.#deps.clock.now()) return false;
        if (await this.#deps.holds.postpones(tx, purgeJob(row), holdSubjectOf(row))) return false;
        // The document itself last: a purge that is interrupted begins with it again.
        const below = await documents.idsDeletedWith(tenantId, id, PURGE_BATCH);
        await this.#purgeSome(tx, tenantId, below.length > 0 ? below : [id]);
        return true;
      });
    while (await purgeSome());
  }

  /** Permanently deletes the documents of a purged room in batches. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    for (let ids = [""]; ids.length > 0;) {
      ids = await this.#deps.store.write(async (tx) => {
        const documents = new DocumentStore(tx.db);
        const found = await documents.idsIn(tenantId, roomId, PURGE_BATCH);
        await this.#purgeSome(tx, tenantId, found);
        return found;
      });
      await nextSlice();
    }
  }

  /** Permanently deletes those of the documents that are private, and that nobody but the principal and its agents may read. */
  purgeUnshared(tenantId: string, principalId: string, ids: readonly string[]): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      // Others may read what is below such a document.
      await lockTree(tx, tenantId);
      for (const id of ids.toSorted()) await lockDocument(tx, tenantId, id);
      const documents = new DocumentStore(tx.db);
      const unshared = await documents.unshared(tenantId, principalId, ids);
      await documents.endParents(tenantId, unshared);
      await this.#deps.index?.remove(tenantId, KIND, unshared);
      while (await this.#purgeSome(tx, tenantId, unshared));
      return unshared.length;
    });
  }

  /** Deletes documents with all that belongs to them, or some of that; returns whether there may be more. */
  async #purgeSome(tx: Transaction<DocumentTables>, tenantId: string, ids: readonly string[]): Promise<boolean> {
    await this.#deps.index?.remove(tenantId, COMMENT_KIND, await new CommentStore(tx.db).idsOf(tenantId, ids));
    if (await new DocumentStore(tx.db).purgeSome(tenantId, ids)) return true;
    await this.#deps.files.detach(tx, tenantId, ...ids.map(documentFileOwner));
    return false;
  }

  async #save(tx: Transaction<DocumentTables>, row: DocumentRow): Promise<void> {
    row.updated_at = iso(this.#deps.clock.now());
    const { parent_id, deleted_at, deletion_root_id, version, updated_at } = row;
    const set = { parent_id, deleted_at, deletion_root_id, version, updated_at };
    await new DocumentStore(tx.db).update(row.tenant_id, [row.id], set);
    await indexDocument(tx, this.#deps.index, row, (await this.#deps.log.text(row, { db: tx.db })).text);
    tx.signal(accessChanged.create(row.tenant_id, row.id));
  }
}

/** The content of a new document, as a CRDT and as what is stored of it beside. Runs before the transaction, since it may take long. */
async function firstContent({ kind, text, html, prosemirror, ...location }: DocumentCreate) {
  const given = location.fragment ?? null;
  if (kind === "text" && given !== null) throw invalidField("/fragment", "for rich documents only");
  const isEmpty = text === undefined && html === undefined && prosemirror === undefined;
  const parsed = await parseContent(isEmpty ? { text: "" } : { text, html, prosemirror }, kind, dialectOf([], given));
  const hasNodes = "nodes" in parsed && parsed.nodes.length > 0;
  return await runInSlices(writeFirst(parsed, { kind, fragment: given ?? (hasNodes ? DEFAULT_FRAGMENT : null) }));
}

function* writeFirst(parsed: ParsedContent, shape: Shape) {
  const doc = openDocument([]);
  const generation = newId("gen");
  const change = "nodes" in parsed
    ? writeFragment(fragmentOf(doc, shape), completeIds(parsed.nodes))
    : spliceText(doc, [{ at: 0, remove: 0, insert: parsed.text }]);
  yield* applyChange(doc, generation, change);
  assertItemLimit(doc, 0);
  const content = representationOf(doc, shape);
  if (content.isTooLarge) throw richTooLarge();
  yield;
  return { shape, generation, content, snapshot: encode(doc) };
}

/** The creator of a private document owns it; an agent together with its owner. */
function privateOwners({ principalId, ownerId }: Context["actor"]): [string, "owner"][] {
  return [principalId, ...ownerId === null ? [] : [ownerId]].map((id) => [id, "owner"]);
}

function sortKey(sort: DocumentList["sort"], row: DocumentRow): string {
  if (sort === "title") return row.title;
  return sort.endsWith("updatedAt") ? row.updated_at : row.created_at;
}

function purgeJob({ tenant_id: tenantId, id }: DocumentRow): JobDraft {
  return { tenantId, kind: PURGE_JOB, payload: { documentId: id }, key: id };
}
