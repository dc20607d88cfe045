// Documents: made, imported, listed, read, renamed, moved, locked, archived, deleted and restored.
import { isGuest } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { readerOf } from "@/modules/room/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { type DocumentGate, lockDocument } from "./access.ts";
import type { ContentLog } from "./content/log.ts";
import { applySplices, encode, openDocument } from "./crdt.ts";
import { bytesOf, tooLong } from "./edit.ts";
import { normalized, titleOf } from "./markdown.ts";
import { presentDocument, tell } from "./presenter.ts";
import {
  type Document,
  type DocumentCreate,
  type DocumentImport,
  type DocumentList,
  TEXT_MAX_BYTES,
} from "./schema.ts";
import { type DocumentIndex, indexDocument } from "./searchable.ts";
import { DocumentStore } from "./store.ts";
import type { DocumentRow, DocumentTables } from "./tables.ts";
import { checkPlace, holdDescendants } from "./tree.ts";

/** How long a deleted document can be restored. */
export const UNDO_MS = 30 * 86_400_000;
export const PURGE_JOB = "document.purge";
/** Told on every node when rights in a document may have changed; the id is the document's. */
export const RIGHTS_SIGNAL = "document.rights";
const PURGE_BATCH = 200;

type Deps = {
  store: Store<DocumentTables>;
  clock: Clock;
  cursors: Cursors;
  gate: DocumentGate;
  log: ContentLog;
  index?: DocumentIndex | undefined;
};

export class DocumentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  create(context: Context, { title, text, parentId, metadata, ...place }: DocumentCreate): Promise<Document> {
    const { actor } = context;
    const { store, clock, gate, log } = this.#deps;
    const roomId = place.roomId ?? null;
    if (bytesOf(text) > TEXT_MAX_BYTES) throw tooLong();
    return store.write(async (tx) => {
      if (roomId !== null) await gate.enterRoom(context, roomId);
      else if (isGuest(actor)) {
        throw new Fault("forbidden", "Guests make documents in rooms only");
      }
      const parent = await checkPlace(context, tx, gate, roomId, parentId);
      const now = iso(clock.now());
      const doc = openDocument([]);
      const generation = newId("gen");
      if (text !== "") applySplices(doc, generation, [{ at: 0, remove: 0, insert: text }]);
      const snapshot = encode(doc);
      const row: DocumentRow = {
        tenant_id: actor.tenantId,
        id: newId("doc"),
        room_id: roomId,
        parent_id: parent?.id ?? null,
        title,
        state: "active",
        is_locked: 0,
        generation,
        revision: 1,
        text_bytes: bytesOf(text),
        loose_bytes: 0,
        state_bytes: snapshot.length,
        dirty_at: null,
        edited_by: actor.principalId,
        edited_at: now,
        metadata_json: JSON.stringify(metadata),
        version: 1,
        created_by: actor.principalId,
        created_at: now,
        updated_at: now,
        deleted_at: null,
        deleted_with: null,
      };
      const documents = new DocumentStore(tx.db);
      await documents.add(row);
      if (roomId === null) {
        for (const [principalId, role] of privateOwners(actor)) {
          await documents.putReader({ tenant_id: row.tenant_id, document_id: row.id, principal_id: principalId, role });
        }
      }
      await log.begin(tx, row, text, snapshot);
      const document = presentDocument(row);
      await tell(tx, row, "document.created", { document }, actor);
      return document;
    });
  }

  import(context: Context, { markdown, title, ...placing }: DocumentImport): Promise<Document> {
    const text = normalized(markdown);
    const name = title ?? titleOf(text);
    if (name === undefined) throw new Fault("validation_failed", "/title: none given, and the text has no first line");
    return this.create(context, { ...placing, title: name, text });
  }

  async list(context: Context, { limit, cursor, sort, parentId, ...filter }: DocumentList): Promise<Page<Document>> {
    const { actor } = context;
    const { store, cursors, gate } = this.#deps;
    if (filter.roomId !== undefined) await gate.enterRoom(context, filter.roomId);
    const bind = ["document.list", actor.tenantId, actor.principalId, sort, parentId ?? "", filter];
    const rows = await new DocumentStore(store.db).list(
      actor.tenantId,
      readerOf(actor),
      { ...filter, parentId: parentId === "root" ? null : parentId },
      sort,
      cursors.open(cursor, bind),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, (row) => [sortKey(sort, row), row.id], presentDocument);
  }

  async read(context: Context, id: string): Promise<Document> {
    return presentDocument((await this.#deps.gate.enter(context, id)).row);
  }

  /** Deletes a document with everything under it; for who made all of it, and for moderators. */
  async delete(context: Context, id: string): Promise<void> {
    const { gate, clock } = this.#deps;
    await gate.hold(context, id, async ({ tx, row }) => {
      const branch = [row, ...(await holdDescendants(tx, row)).filter(({ deleted_at }) => deleted_at === null)];
      await gate.checkTaking(context.actor, branch);
      const now = clock.now();
      for (const one of branch) {
        const gone: DocumentRow = { ...one, deleted_at: iso(now), deleted_with: row.id, version: one.version + 1 };
        await this.#save(tx, gone);
        const data = { documentId: one.id, roomId: one.room_id, reason: "deleted" };
        await tell(tx, gone, "document.deleted", data, context.actor);
      }
      const job = { tenantId: row.tenant_id, kind: PURGE_JOB, payload: { documentId: row.id }, key: row.id };
      await tx.enqueue({ ...job, runAt: now + UNDO_MS });
    }, { isBranch: true });
  }

  /** Brings a document back with what went with it. */
  restore(context: Context, id: string): Promise<Document> {
    const { gate, clock, log } = this.#deps;
    return gate.hold(context, id, async ({ tx, row }) => {
      await gate.checkTaking(context.actor, [row]);
      if (row.deleted_at === null) throw new Fault("conflict", "The document is not deleted");
      if (row.deleted_with !== row.id) {
        throw new Fault("conflict", "The document went with its parent; restore that one");
      }
      if (Date.parse(row.deleted_at) + UNDO_MS <= clock.now()) throw new Fault("gone", "The document was purged");
      const documents = new DocumentStore(tx.db);
      const parent = row.parent_id === null ? undefined : await documents.find(row.tenant_id, row.parent_id);
      let restored = row;
      for (const one of await documents.deletedWith(row.tenant_id, row.id)) {
        const back: DocumentRow = { ...one, deleted_at: null, deleted_with: null, version: one.version + 1 };
        // A parent that is gone meanwhile leaves it at the top.
        if (one.id === row.id && parent?.deleted_at !== null) back.parent_id = null;
        await this.#save(tx, back);
        await log.settleAgain(tx, back);
        const data = {
          document: presentDocument(back),
          changed: ["deletedAt"],
          principalIds: [context.actor.principalId],
        };
        await tell(tx, back, "document.updated", data, context.actor);
        if (one.id === row.id) restored = back;
      }
      return presentDocument(restored);
    }, { which: "deleted", isBranch: true });
  }

  /** Removes a deleted document for good, unless it was restored or deleted anew meanwhile. */
  async purge(tenantId: string, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      await lockDocument(tx, tenantId, id);
      const documents = new DocumentStore(tx.db);
      const row = await documents.find(tenantId, id);
      if (row === undefined || row.deleted_at === null || row.deleted_with !== id) return;
      if (Date.parse(row.deleted_at) + UNDO_MS > this.#deps.clock.now()) return;
      await documents.purge(tenantId, (await documents.deletedWith(tenantId, id)).map((one) => one.id));
    });
  }

  /** Removes the documents of a purged room, batch by batch. */
  async purgeRoom(tenantId: string, roomId: string): Promise<void> {
    for (let ids = [""]; ids.length > 0;) {
      ids = await this.#deps.store.write(async (tx) => {
        const documents = new DocumentStore(tx.db);
        const found = await documents.idsIn(tenantId, roomId, PURGE_BATCH);
        await documents.purge(tenantId, found);
        return found;
      });
    }
  }

  async #save(tx: Transaction<DocumentTables>, row: DocumentRow): Promise<void> {
    row.updated_at = iso(this.#deps.clock.now());
    const { parent_id, deleted_at, deleted_with, version, updated_at } = row;
    const set = { parent_id, deleted_at, deleted_with, version, updated_at };
    await new DocumentStore(tx.db).update(row.tenant_id, [row.id], set);
    await indexDocument(tx, this.#deps.index, row, (await this.#deps.log.text(row)).text);
    tx.signal({ kind: RIGHTS_SIGNAL, tenantId: row.tenant_id, id: row.id });
  }
}

/** Whoever makes a private document owns it; what an agent makes is its owner's as well. */
function privateOwners({ principalId, ownerId }: Context["actor"]): [string, "owner"][] {
  return [principalId, ...ownerId === null ? [] : [ownerId]].map((id) => [id, "owner"]);
}

function sortKey(sort: DocumentList["sort"], row: DocumentRow): string {
  if (sort === "title") return row.title;
  return sort.endsWith("updatedAt") ? row.updated_at : row.created_at;
}
