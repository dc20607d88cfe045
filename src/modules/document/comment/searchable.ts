// Comments as searchables. Who reads a document finds its comments: where it is and who reads it is checked at each search.
import type { Actor } from "@/core/actor.ts";
import type { JobDraft } from "@/core/job.ts";
import { paginate, type RowSelection } from "@/core/page.ts";
import type { LoadedResource, Searchable, SearchEntry } from "@/core/searchable.ts";
import type { AnyDatabase, Store } from "@/ports/store.ts";
import type { DocumentAccess } from "../access.ts";
import { presentFoundComment } from "../presenter.ts";
import { FoundComment } from "../schema.ts";
import type { DocumentIndex } from "../searchable.ts";
import { DocumentStore } from "../store.ts";
import type { CommentRow, DocumentRow, DocumentTables } from "../tables.ts";
import { CommentStore } from "./store.ts";

export const COMMENT_KIND = "comment";
export const INDEX_COMMENTS_JOB = "document.index_comments";
const BATCH = 100;
const SETTLE_MS = 30_000;

type Deps = { store: Store<DocumentTables>; documentAccess: DocumentAccess };

export class CommentSearchable implements Searchable {
  readonly kind = COMMENT_KIND;
  readonly scope = "document.read";
  readonly item = FoundComment;
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async load(actor: Actor, ids: readonly string[]): Promise<ReadonlyMap<string, LoadedResource>> {
    const { db } = this.#deps.store;
    const comments = await new CommentStore(db).findByIds(actor.tenantId, { ids });
    const documents = await this.#readable(actor, comments);
    return new Map(comments.flatMap((comment) => {
      const document = documents.get(comment.document_id);
      if (document === undefined) return [];
      return [[comment.id, { fields: { text: comment.text }, item: presentFoundComment(comment, document) }]];
    }));
  }

  /** A document that was moved, deleted or is no longer shared hides its comments before they are indexed again. */
  async filterVisible(actor: Actor, ids: readonly string[]): Promise<ReadonlySet<string>> {
    const comments = await new CommentStore(this.#deps.store.db).findByIds(actor.tenantId, { ids });
    const documents = await this.#readable(actor, comments);
    return new Set(comments.flatMap(({ id, document_id }) => documents.has(document_id) ? id : []));
  }

  async entries(
    tenantId: string,
    which: RowSelection,
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<readonly SearchEntry[]> {
    const comments = await new CommentStore(db).findByIds(tenantId, which);
    return await commentEntries(db, tenantId, comments);
  }

  /** Documents of these comments that the actor can read, by id. */
  async #readable(actor: Actor, comments: readonly CommentRow[]): Promise<ReadonlyMap<string, DocumentRow>> {
    const { store, documentAccess } = this.#deps;
    const ids = [...new Set(comments.map(({ document_id }) => document_id))];
    const readable = await documentAccess.filterReadable(actor, ids);
    const rows = await new DocumentStore(store.db).findUndeleted(actor.tenantId, { ids: [...readable] });
    // An agent whose response others read finds nothing in private documents, as in `DocumentSearchable`.
    return new Map(
      rows.filter((row) => row.room_id !== null || actor.bounds === undefined).map((row) => [row.id, row]),
    );
  }
}

/** Index entries of comments of any documents, deleted ones as well: they may be restored. */
export async function commentEntries(
  db: AnyDatabase,
  tenantId: string,
  comments: readonly CommentRow[],
): Promise<SearchEntry[]> {
  const documents = new DocumentStore(db);
  const ids = [...new Set(comments.map(({ document_id }) => document_id))];
  const rows = new Map((await documents.findMany(tenantId, ids)).map((row) => [row.id, row]));
  const readers = await documents.readerIds(tenantId, ids);
  return comments.flatMap((comment): SearchEntry[] => {
    const document = rows.get(comment.document_id);
    if (document === undefined) return [];
    const isPrivate = document.room_id === null;
    return [{
      tenantId,
      kind: COMMENT_KIND,
      id: comment.id,
      roomId: document.room_id,
      principalId: isPrivate ? document.created_by : null,
      readerIds: isPrivate ? readers.get(document.id) ?? [] : [],
      authorId: comment.author_id,
      at: comment.created_at,
      // Both only increase.
      version: document.version + comment.version,
      texts: [comment.text],
    }];
  });
}

/** Indexes the comments of a document again, after it moved or its readers changed: once for many changes, since they may be long. */
export function indexCommentsJob({ tenant_id: tenantId, id }: DocumentRow, now: number): JobDraft {
  return { tenantId, kind: INDEX_COMMENTS_JOB, payload: { documentId: id }, key: id, runAt: now + SETTLE_MS };
}

/** Runs that job: some comments in each transaction. */
export async function indexComments(
  { store, index }: { store: Store<DocumentTables>; index: DocumentIndex | undefined },
  tenantId: string,
  documentId: string,
): Promise<void> {
  const read = (last?: CommentRow) =>
    new CommentStore(store.db).list(tenantId, documentId, undefined, last && [last.created_at, last.id], BATCH);
  for await (const page of paginate(BATCH, read)) {
    await store.write(async ({ db }) => {
      const comments = await new CommentStore(db).findMany(tenantId, documentId, page.map(({ id }) => id));
      await index?.put(...await commentEntries(db, tenantId, comments));
    });
  }
}
