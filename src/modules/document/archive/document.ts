// Documents on their way out of a gateway and into one: each whole, as its CRDT and as the text that lies in it.
import { isFault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { MayShow, NamedFiles } from "@/modules/file/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { lockTree } from "../access.ts";
import { CommentStore } from "../comment/store.ts";
import { encode } from "../content/crdt.ts";
import type { ContentLog } from "../content/log.ts";
import { representationOf } from "../content/representation.ts";
import type { Origin } from "../content/schema.ts";
import { ContentStore } from "../content/store.ts";
import { presentDocument, presentRevision, publishDocumentCreated } from "../presenter.ts";
import { AUTHORS_MAX, DEPTH_MAX, type Document, type DocumentAccessEntry, REVISIONS_MAX } from "../schema.ts";
import type { DocumentIndex } from "../searchable.ts";
import { DocumentStore } from "../store.ts";
import type { DocumentRow, DocumentTables } from "../tables.ts";
import { presentAccess, ROOM_ROLE_OF } from "../updater.ts";
import type { ArchivedContent } from "./content.ts";
import { DocumentHistoryArchive } from "./history.ts";

/** A document as it is now, and what follows it. */
export type ArchivedDocument = {
  document: Document;
  /** Who may read a private document. */
  readers: DocumentAccessEntry[];
  text: string;
  update: Uint8Array;
  origin: Origin;
  /** Stored earlier revisions, newest first. */
  revisions: number[];
  /** Comments that were there when `update` was read, replies last. */
  commentIds: string[];
};

/** A document to import. Its room and parent were checked; its id is free. */
type DocumentDraft = Omit<Document, "generation" | "deletedAt"> & {
  readers: readonly DocumentAccessEntry[];
  content: ArchivedContent;
  /** Absent: nothing is known but who made it, and when. */
  origin?: Origin | undefined;
  mayShow: MayShow;
};

type Deps = { store: Store<DocumentTables>; log: ContentLog; files: NamedFiles; index: DocumentIndex | undefined };

export class DocumentArchive {
  readonly #deps: Deps;
  /** What follows each document. */
  readonly history: DocumentHistoryArchive;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.history = new DocumentHistoryArchive(deps);
  }

  /** Ids of a room's documents, or of private ones (null), each after the one it lies under. */
  async ids(tenantId: string, roomId: string | null): Promise<string[]> {
    const places = await new DocumentStore(this.#deps.store.db).treeOfRoom(tenantId, roomId);
    const known = new Set(places.map(({ id }) => id));
    const under = Map.groupBy(places, ({ parent_id }) => parent_id !== null && known.has(parent_id) ? parent_id : null);
    const ids: string[] = [];
    for (let level = under.get(null) ?? []; level.length > 0;) {
      ids.push(...level.map(({ id }) => id));
      level = level.flatMap(({ id }) => under.get(id) ?? []);
    }
    return ids;
  }

  /** A document with its content; `undefined` if it was deleted. */
  async read(tenantId: string, id: string): Promise<ArchivedDocument | undefined> {
    const { store, log } = this.#deps;
    const documents = new DocumentStore(store.db);
    const row = await documents.find(tenantId, id);
    if (row === undefined || row.deleted_at !== null) return undefined;
    // Before the content: what they are anchored to is in it.
    const commentIds = await new CommentStore(store.db).ids(tenantId, id);
    const opened = await log.open(tenantId, id).catch((error) => {
      if (isFault(error, "not_found")) return undefined;
      throw error;
    });
    if (opened === undefined) return undefined;
    const { doc, revision } = opened;
    const { origin, revisions } = await this.#readHistory(row, revision);
    return {
      document: presentDocument({ ...row, revision }),
      readers: row.room_id === null ? (await documents.readers(tenantId, id)).map(presentAccess) : [],
      text: representationOf(doc, row).text,
      update: encode(doc),
      origin,
      revisions,
      commentIds,
    };
  }

  /**
   * Imports a document. It starts a new generation: the archived one may have continued elsewhere, and copies of that in editors
   * cannot be merged into this one. Resolves to the document; without its parent if it cannot be below that one.
   */
  async importDocument(tx: Transaction<DocumentTables>, tenantId: string, draft: DocumentDraft): Promise<Document> {
    const { content: { snapshot, ...content }, readers, origin, mayShow } = draft;
    const documents = new DocumentStore(tx.db);
    const row: DocumentRow = {
      tenant_id: tenantId,
      id: draft.id,
      room_id: draft.roomId,
      parent_id: await this.#canHaveParent(tx, tenantId, draft) ? draft.parentId : null,
      title: draft.title,
      kind: draft.kind,
      fragment: draft.fragment,
      state: draft.state,
      is_locked: Number(draft.locked),
      generation: newId("gen"),
      revision: draft.revision,
      text_bytes: content.bytes,
      pending_bytes: 0,
      state_bytes: snapshot.length,
      pending_since: null,
      edited_by: draft.editedBy,
      edited_at: draft.editedAt,
      metadata_json: JSON.stringify(draft.metadata),
      version: draft.version,
      created_by: draft.createdBy,
      created_at: draft.createdAt,
      updated_at: draft.updatedAt,
      deleted_at: null,
      deletion_root_id: null,
    };
    await documents.add(row);
    for (const { principalId, role } of readers) {
      const reader = { document_id: row.id, principal_id: principalId, role: ROOM_ROLE_OF[role] };
      await documents.putReader({ tenant_id: tenantId, ...reader });
    }
    await this.#deps.log.create(tx, row, content, snapshot, { origin, mayShow });
    await publishDocumentCreated(tx, row);
    return presentDocument(row);
  }

  /** Author and time of the content at `revision`, and which earlier revisions are stored. */
  async #readHistory({ tenant_id: tenantId, id, ...row }: DocumentRow, revision: number) {
    const contents = new ContentStore(this.#deps.store.db);
    const stored = await contents.revisions(tenantId, id, revision + 1, REVISIONS_MAX);
    const [newest] = stored;
    if (newest?.revision === revision) {
      const { revision: _revision, size: _size, ...origin } = presentRevision(newest);
      return { origin, revisions: stored.slice(1).map((one) => one.revision) };
    }
    // Live edits that are in no revision yet.
    const updates = await contents.updatesAfter(tenantId, id, newest?.revision ?? 0);
    const authors = updates.filter((one) => one.revision <= revision).map((one) => one.principal_id);
    const origin: Origin = {
      kind: "live",
      principalIds: [...new Set([...authors, row.edited_by])].slice(0, AUTHORS_MAX),
      startedAt: row.pending_since ?? row.edited_at,
      at: row.edited_at,
    };
    return { origin, revisions: stored.map((one) => one.revision) };
  }

  async #canHaveParent(
    tx: Transaction<DocumentTables>,
    tenantId: string,
    { roomId, parentId }: DocumentDraft,
  ): Promise<boolean> {
    if (parentId === null) return false;
    await lockTree(tx, tenantId);
    const documents = new DocumentStore(tx.db);
    let depth = 1;
    for (let id: string | null = parentId; id !== null; depth++) {
      const above: DocumentRow | undefined = await documents.find(tenantId, id);
      if (above === undefined || above.deleted_at !== null || above.room_id !== roomId) return false;
      id = above.parent_id;
    }
    return depth <= DEPTH_MAX;
  }
}
