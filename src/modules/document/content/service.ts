// Reads and writes content: as a whole, by edits on a base revision, or as Yjs updates, always on the CRDT in the store.
// Connected editors are notified by the signal that the log sends after the commit.
import type { CpuBudget } from "@/core/cpu_budget.ts";
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Actor } from "@/core/actor.ts";
import type { Store } from "@/ports/store.ts";
import { checkWritable, type DocumentAccess, editorContext, lockDocument, type LockedDocument } from "../access.ts";
import { classifyUpdate, encode, textOf, updateFault, writeSplices } from "./crdt.ts";
import { bytesOf, diffText, type EditPlan, planEdits, textTooLong } from "./text_edits.ts";
import { renderBlocks } from "../rendering.ts";
import { presentChange, presentRevision, publishDocumentUpdated } from "../presenter.ts";
import {
  type Content,
  type ContentChange,
  type ContentPatch,
  type ContentPut,
  type ContentRead,
  type RevisionInfo,
  type RevisionList,
  type RevisionRef,
  type RevisionText,
  TEXT_MAX_BYTES,
  UPDATE_MAX_BYTES,
} from "../schema.ts";
import type { DocumentRow, DocumentTables, RevisionRow } from "../tables.ts";
import { DocumentStore } from "../store.ts";
import { assertItemLimit, countItems, estimateMergeMs } from "./merge_cost.ts";
import type { ContentLog } from "./log.ts";
import { ContentStore } from "./store.ts";

type Deps = {
  store: Store<DocumentTables>;
  cursors: Cursors;
  documentAccess: DocumentAccess;
  log: ContentLog;
  cpu: CpuBudget;
};

export class ContentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(context: Context, { id, format, revision: requested }: ContentRead): Promise<Content> {
    const { documentAccess, log } = this.#deps;
    const { row } = await documentAccess.require(context, id);
    const { generation } = row;
    if (format === "yjs") {
      if (requested !== undefined) {
        throw new Fault("validation_failed", "/revision: the format yjs is available for the current revision only");
      }
      const { doc, revision } = await log.open(row.tenant_id, id, { actor: context.actor });
      return { documentId: id, revision, version: revision, generation, format, update: encode(doc).toBase64() };
    }
    const { text, revision } = requested === undefined || requested === row.revision
      ? await log.text(row, { actor: context.actor })
      : await this.#storedRevision(row, requested);
    const common = { documentId: id, revision, version: revision, generation };
    return format === "markdown"
      ? { ...common, format, text }
      : { ...common, format, blocks: await renderBlocks(text) };
  }

  /** The changes missing in a copy with the state `vector`, as a Yjs update. */
  async readUpdate(
    context: Context,
    id: string,
    vector: Uint8Array | undefined,
  ): Promise<{ update: Uint8Array; revision: number }> {
    const { documentAccess, log } = this.#deps;
    const { row } = await documentAccess.require(context, id);
    const { doc, revision } = await log.open(row.tenant_id, id, { actor: context.actor });
    try {
      return { update: encode(doc, vector), revision };
    } catch (cause) {
      throw new Fault("bad_request", "Invalid Yjs state vector", { cause });
    }
  }

  put(context: Context, { id, text, revision: expected }: ContentPut): Promise<ContentChange> {
    if (bytesOf(text) > TEXT_MAX_BYTES) throw textTooLong();
    const { store, documentAccess } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      checkWritable(locked);
      if (expected === undefined) {
        throw new Fault("precondition_required", "Expected the base revision in If-Match or in revision");
      }
      if (expected !== row.revision) {
        throw new Fault("version_mismatch", `The content is at revision ${row.revision}, expected ${expected}`);
      }
      const written = await this.#write(context, locked, "written", (before) => ({
        splices: diffText(before, text),
        text,
      }));
      return presentChange(written, written.revision === row.revision ? 0 : 1);
    });
  }

  patch(context: Context, { id, baseRevision, edits, onStale }: ContentPatch): Promise<ContentChange> {
    const { store, documentAccess } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      checkWritable(locked);
      const isAhead = baseRevision > row.revision;
      if (isAhead || (onStale === "reject" && baseRevision !== row.revision)) {
        throw new Fault("stale_revision", `The content is at revision ${row.revision}, expected ${baseRevision}`);
      }
      const written = await this.#write(context, locked, "written", (before) => planEdits(before, edits));
      return presentChange(written, edits.length);
    });
  }

  /** Merges an update from another copy of the CRDT. */
  merge(context: Context, id: string, update: Uint8Array): Promise<ContentChange> {
    if (update.length > UPDATE_MAX_BYTES) throw updateTooLarge();
    const fault = updateFault(update);
    if (fault !== undefined) throw new Fault("validation_failed", `Refused: ${fault}`);
    const { store, documentAccess, log, cpu } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      checkWritable(locked);
      const { doc } = await log.open(row.tenant_id, id, { actor: context.actor, db: tx.db });
      const relation = classifyUpdate(doc, update);
      if (relation === "duplicate") return presentChange(row, 0);
      if (relation === "missing_dependency") throw missingDependency();
      cpu.accountOf(context.actor).measure(() => estimateMergeMs(doc, update));
      return presentChange(await log.appendLive(tx, row, update, context.actor.principalId), 1);
    });
  }

  /** Stores an update of a connected editor; resolves to the new revision after the commit. */
  acceptUpdate(actor: Actor, id: string, update: Uint8Array): Promise<number> {
    const { store, documentAccess, log } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, editorContext(actor, "write"), id);
      checkWritable(locked);
      return (await log.appendLive(tx, locked.row, update, actor.principalId)).revision;
    });
  }

  async revisions(context: Context, { id, limit, cursor }: RevisionList): Promise<Page<RevisionInfo>> {
    const { store, cursors, documentAccess } = this.#deps;
    const { row } = await documentAccess.require(context, id);
    const bind = ["document.revisions", row.tenant_id, context.actor.principalId, id];
    const before = cursors.decode(cursor, bind)?.[0];
    const rows = await new ContentStore(store.db).revisions(
      row.tenant_id,
      id,
      before === undefined ? undefined : Number(before),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, ({ revision }) => [revision], presentRevision);
  }

  async revision(context: Context, { id, revision }: RevisionRef): Promise<RevisionText> {
    const { row } = await this.#deps.documentAccess.require(context, id);
    const stored = await this.#storedRevision(row, revision);
    return { ...presentRevision(stored), text: stored.text };
  }

  /** Restores the text of a stored revision as a new revision. */
  restore(context: Context, { id, revision }: RevisionRef): Promise<ContentChange> {
    const { store, documentAccess } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      checkWritable(locked);
      const { text } = await this.#storedRevision(row, revision, tx.db);
      const written = await this.#write(context, locked, "restored", (before) => ({
        splices: diffText(before, text),
        text,
      }));
      return presentChange(written, written.revision === row.revision ? 0 : 1);
    });
  }

  /** Job: commits live edits that are due to a revision. */
  async commitPendingEdits(tenantId: string, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      await lockDocument(tx, tenantId, id);
      const row = await new DocumentStore(tx.db).find(tenantId, id);
      if (row !== undefined) await this.#deps.log.commitDueEdits(tx, row);
    });
  }

  async #write(
    context: Context,
    { tx, epoch, row: before }: LockedDocument,
    kind: RevisionRow["kind"],
    change: (text: string) => EditPlan,
  ): Promise<DocumentRow> {
    const { log } = this.#deps;
    const { actor } = context;
    const { doc } = await log.open(before.tenant_id, before.id, { actor, db: tx.db });
    const text = textOf(doc);
    const { splices, text: expected } = change(text);
    if (bytesOf(expected) > TEXT_MAX_BYTES) throw textTooLong();
    if (expected === text) return before;
    const row = await log.commitPendingEdits(tx, before, doc);
    const items = countItems(doc);
    const update = writeSplices(doc, `${row.generation} ${epoch}`, splices);
    // Compares the text that will be stored, so that a change is written completely or not at all.
    if (textOf(doc) !== expected) throw new Error("Expected the written text, received a different one");
    assertItemLimit(doc, items);
    const appended = await log.append(tx, row, update, actor.principalId);
    const committed = await log.commitRevision(tx, appended, doc, kind, [actor.principalId]);
    await publishDocumentUpdated(tx, [row, committed], ["content"], [actor.principalId], actor);
    return committed;
  }

  async #storedRevision(row: DocumentRow, revision: number, db = this.#deps.store.db): Promise<RevisionRow> {
    // A number beyond the newest revision may be out of range for the database.
    const stored = revision > row.revision
      ? undefined
      : await new ContentStore(db).revision(row.tenant_id, row.id, revision);
    if (stored === undefined) {
      throw new Fault("not_found", `Revision ${revision} is not stored; list the revisions to see which are`);
    }
    return stored;
  }
}

export function updateTooLarge(): Fault {
  return new Fault("payload_too_large", `An update may have at most ${UPDATE_MAX_BYTES} bytes`);
}

export function missingDependency(): Fault {
  return new Fault("conflict", "The update depends on changes the document does not have; sync first");
}
