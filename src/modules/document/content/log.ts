// The log of a document's content: every accepted update is in it before it is acknowledged. The binary CRDT is the source of
// truth; texts are derived from it, and snapshots only shorten the log.
import { Buffer } from "node:buffer";
import type { Actor } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso, MINUTE_MS } from "@/core/time/clock.ts";
import { measureCpu } from "@/core/caller.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { defineSignal } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import { type Holds, holdSubjectOf } from "@/core/hold.ts";
import { type MayShow, type NamedFiles, namedFiles, uploadedBy } from "@/modules/file/mod.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import type * as Y from "yjs";
import { type RichNode, richTooLarge } from "../rich/node.ts";
import { applyUpdate, encode, openDocument } from "./crdt.ts";
import { nodesOf, type Representation, representationOf } from "./representation.ts";
import { bytesOf, textTooLong } from "./text_edits.ts";
import { publishDocumentUpdated } from "../presenter.ts";
import type { Origin } from "./schema.ts";
import { AUTHORS_MAX, REVISION_DAYS, REVISIONS_MAX, STATE_MAX_BYTES, TEXT_MAX_BYTES } from "../schema.ts";
import { type DocumentIndex, indexDocument } from "../searchable.ts";
import { attachNamedFiles } from "../files.ts";
import { DocumentStore } from "../store.ts";
import type { DocumentRow, DocumentTables, RevisionRow } from "../tables.ts";
import { openSnapshot, pauseIfLarge } from "./merge_cost.ts";
import { ContentStore } from "./store.ts";

/** Sent when the content of a document changed; the id is `<document>/<revision>`. */
export const contentChanged = defineSignal("document.content_changed", { isHint: true });
export const COMMIT_REVISION_JOB = "document.commit_revision";

/** Live edits are committed to a revision after a pause of this length, and at the latest after the second one. */
const COMMIT_DELAY_MS = 2000;
const COMMIT_DELAY_MAX_MS = 10_000;
/** Live edits within this time extend one revision. */
const REVISION_WINDOW_MS = 10 * MINUTE_MS;
/** Revisions deleted at once: only after a legal hold more are old. */
const TRIMMED_AT_ONCE = 500;
const COMPACT_UPDATES = 50;
const COMPACT_BYTES = 64 * 1024;

/** `actor`: the CPU account to charge; none if absent. `db`: read instead of committed state. */
type ReadOptions = { actor?: Actor; db?: AnyDatabase };
type OpenDocument = { doc: Y.Doc; revision: number };
type Tx = Transaction<DocumentTables>;
type Deps = {
  store: Store<DocumentTables>;
  clock: Clock;
  cpu: CpuBudget;
  files: NamedFiles;
  holds: Holds;
  index?: DocumentIndex | undefined;
};

export class ContentLog {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Stores the first state of a new document; `archived` if it was not written just now. */
  async create(
    tx: Tx,
    row: DocumentRow,
    content: Representation,
    snapshot: Uint8Array,
    archived?: { origin: Origin | undefined; mayShow: MayShow },
  ): Promise<void> {
    const { text, nodes } = content;
    const contents = new ContentStore(tx.db);
    await contents.addState({
      tenant_id: row.tenant_id,
      document_id: row.id,
      snapshot: snapshot.toBase64(),
      snapshot_revision: row.revision,
      text,
      text_revision: row.revision,
    });
    const at = row.created_at;
    await contents.addRevision(
      revisionOf(
        row,
        content,
        archived?.origin ?? { kind: "created", principalIds: [row.created_by], startedAt: at, at },
      ),
    );
    const mayShow = archived?.mayShow ?? uploadedBy(row.created_by);
    await attachNamedFiles(tx, this.#deps.files, row, namedFiles(nodes ?? text), mayShow);
    await indexDocument(tx, this.#deps.index, row, text);
  }

  /** Loads the current CRDT. */
  async open(tenantId: string, id: string, { actor, db }: ReadOptions = {}): Promise<OpenDocument> {
    const account = actor === undefined ? undefined : this.#deps.cpu.accountOf(actor);
    account?.assertAvailable();
    const { updates, revision } = await this.#loadAll(tenantId, id, db);
    const load = (): Y.Doc => openDocument(updates);
    const doc = account === undefined ? measureCpu(load) : account.measure(load);
    await pauseIfLarge(doc);
    return { doc, revision };
  }

  /** The snapshot of a document and the updates after it. */
  async #loadAll(
    tenantId: string,
    id: string,
    db: AnyDatabase = this.#deps.store.db,
  ): Promise<{ updates: Uint8Array[]; revision: number }> {
    const contents = new ContentStore(db);
    // Updates first: a snapshot that is written in between includes them, so none is missed.
    const rows = await contents.updatesAfter(tenantId, id, 0);
    const state = await contents.state(tenantId, id);
    if (state === undefined) throw new Fault("not_found", "The document was deleted");
    const updates = rows.filter(({ revision }) => revision > state.snapshot_revision);
    return {
      updates: [state.snapshot, ...updates.map(({ data }) => data)].map((data) => Uint8Array.fromBase64(data)),
      revision: updates.at(-1)?.revision ?? state.snapshot_revision,
    };
  }

  /** Updates after a revision, or the snapshot and all updates if they have been compacted, and the resulting revision. */
  async updatesSince(
    tenantId: string,
    id: string,
    after: number,
  ): Promise<{ updates: Uint8Array[]; revision: number }> {
    const contents = new ContentStore(this.#deps.store.db);
    const rows = await contents.updatesAfter(tenantId, id, after);
    if (rows[0]?.revision === after + 1) {
      const last = rows.at(-1)?.revision ?? after;
      return { updates: rows.map(({ data }) => Uint8Array.fromBase64(data)), revision: last };
    }
    const row = await new DocumentStore(this.#deps.store.db).find(tenantId, id);
    if (row?.revision === after) return { updates: [], revision: after };
    return await this.#loadAll(tenantId, id);
  }

  /** The current text, without loading the CRDT if the stored text is up to date. */
  async text(row: DocumentRow, options: ReadOptions): Promise<{ text: string; revision: number }> {
    const state = await new ContentStore(options.db ?? this.#deps.store.db).state(row.tenant_id, row.id);
    if (state?.text_revision === row.revision) return { text: state.text, revision: row.revision };
    const { doc, revision } = await this.open(row.tenant_id, row.id, options);
    return { text: representationOf(doc, row).text, revision };
  }

  /** The current nodes of a rich document, without loading the CRDT if they are stored. */
  async nodes(row: DocumentRow, options: ReadOptions): Promise<{ nodes: RichNode[]; revision: number }> {
    const stored = row.pending_since === null
      ? await new ContentStore(options.db ?? this.#deps.store.db).revision(row.tenant_id, row.id, row.revision)
      : undefined;
    if (stored?.nodes_json !== undefined && stored.nodes_json !== null) {
      return { nodes: JSON.parse(stored.nodes_json), revision: row.revision };
    }
    const { doc, revision } = await this.open(row.tenant_id, row.id, options);
    return { nodes: this.measure(options.actor, () => nodesOf(doc, row)), revision };
  }

  /** Runs work that is charged to an actor. */
  measure<T>(actor: Actor | undefined, work: () => T): T {
    return actor === undefined ? work() : this.#deps.cpu.accountOf(actor).measure(work);
  }

  /**
   * Appends an update as the next revision. The caller has locked the document, and writes the row. `named` are the files that
   * the update names: in it, each is in one piece, unless a difference of texts has cut it.
   */
  async append(
    tx: Tx,
    row: DocumentRow,
    update: Uint8Array,
    principalId: string,
    named: ReadonlySet<string> = namedFiles(Buffer.from(update).toString("latin1")),
  ): Promise<DocumentRow> {
    const { clock } = this.#deps;
    const stateBytes = row.state_bytes + update.length;
    if (stateBytes > STATE_MAX_BYTES) {
      throw new Fault("payload_too_large", `A document and its history may have at most ${STATE_MAX_BYTES} bytes`);
    }
    const appended: DocumentRow = {
      ...row,
      revision: row.revision + 1,
      pending_bytes: row.pending_bytes + update.length,
      state_bytes: stateBytes,
      edited_by: principalId,
      edited_at: iso(clock.now()),
    };
    await new ContentStore(tx.db).addUpdate({
      tenant_id: row.tenant_id,
      document_id: row.id,
      revision: appended.revision,
      data: update.toBase64(),
      principal_id: principalId,
    });
    // Several may edit at the same time; each shows what it has uploaded itself.
    await attachNamedFiles(tx, this.#deps.files, row, named, uploadedBy(principalId));
    tx.signal(contentChanged.create(row.tenant_id, `${row.id}/${appended.revision}`));
    return appended;
  }

  /** Appends a live edit. This is cheap: revision, text and event follow when the edits are committed. */
  async appendLive(tx: Tx, row: DocumentRow, update: Uint8Array, principalId: string): Promise<DocumentRow> {
    const now = this.#deps.clock.now();
    // An upper bound of the text, without loading the CRDT.
    if (row.text_bytes + row.pending_bytes + update.length > TEXT_MAX_BYTES) {
      const { doc } = await this.open(row.tenant_id, row.id, { db: tx.db });
      const { bytes, isTooLarge } = measureCpu(() => {
        applyUpdate(doc, update);
        return representationOf(doc, row);
      });
      if (isTooLarge) throw row.kind === "text" ? textTooLong() : richTooLarge();
      // `append` adds the update, which is already counted here.
      row = { ...row, text_bytes: bytes, pending_bytes: -update.length };
    }
    const appended = await this.append(tx, row, update, principalId);
    const { revision, fragment, text_bytes, pending_bytes, state_bytes, edited_by, edited_at } = appended;
    const pending_since = row.pending_since ?? iso(now);
    const set = { revision, fragment, text_bytes, pending_bytes, state_bytes, edited_by, edited_at, pending_since };
    await new DocumentStore(tx.db).update(row.tenant_id, [row.id], set);
    if (row.pending_since === null) await this.#scheduleCommit(tx, row, now + COMMIT_DELAY_MS);
    return { ...appended, pending_since };
  }

  /** Stores the current document as a revision and writes the row. The caller publishes the event. */
  async commitRevision(
    tx: Tx,
    row: DocumentRow,
    doc: Y.Doc,
    kind: RevisionRow["kind"],
    principalIds: readonly string[],
  ): Promise<DocumentRow> {
    const { clock, index } = this.#deps;
    const contents = new ContentStore(tx.db);
    const { tenant_id: tenantId, id } = row;
    const now = clock.now();
    const content = measureCpu(() => representationOf(doc, row));
    await pauseIfLarge(doc);
    const { text } = content;
    let next: DocumentRow = {
      ...row,
      text_bytes: content.bytes,
      pending_bytes: 0,
      pending_since: null,
      updated_at: iso(now),
    };
    await contents.setState(tenantId, id, { text, text_revision: row.revision });
    next = await this.#compact(tx, next, doc);
    // Small updates may have a large result, as where one mark covers many texts. It is stored as text, and no more are accepted.
    if (content.isTooLarge) next.state_bytes = STATE_MAX_BYTES;

    const last = kind === "live" ? await contents.lastRevision(tenantId, id) : undefined;
    // In both directions, because an imported revision may be from any time.
    const isExtended = last?.kind === "live" && Math.abs(now - Date.parse(last.started_at)) < REVISION_WINDOW_MS;
    if (isExtended) await contents.removeRevisions(tenantId, id, [last.revision]);
    const earlier: string[] = isExtended ? JSON.parse(last.principal_ids_json) : [];
    const authors = [...new Set([...earlier, ...principalIds])].slice(0, AUTHORS_MAX);
    const startedAt = isExtended ? last.started_at : row.pending_since ?? next.updated_at;
    await contents.addRevision(
      revisionOf(next, content, { kind, principalIds: authors, startedAt, at: next.updated_at }),
    );
    const since = iso(now - REVISION_DAYS * DAY_MS);
    const old = await contents.oldRevisions(tenantId, id, REVISIONS_MAX, since, TRIMMED_AT_ONCE);
    if (old.length > 0 && !await this.#deps.holds.isHeld(tx.db, tenantId, holdSubjectOf(row))) {
      await contents.removeRevisions(tenantId, id, old);
    }
    await new DocumentStore(tx.db).update(tenantId, [id], next);
    await indexDocument(tx, index, next, text);
    return next;
  }

  /** Commits live edits to a revision of their own, before another change is written. */
  async commitPendingEdits(tx: Tx, row: DocumentRow, doc: Y.Doc): Promise<DocumentRow> {
    if (row.pending_since === null) return row;
    const contents = new ContentStore(tx.db);
    const from = (await contents.state(row.tenant_id, row.id))?.text_revision ?? 0;
    const updates = await contents.updatesAfter(row.tenant_id, row.id, from);
    const authors = [...new Set(updates.map((update) => update.principal_id))];
    const committed = await this.commitRevision(tx, row, doc, "live", authors);
    await publishDocumentUpdated(tx, [row, committed], ["content"], authors);
    return committed;
  }

  /** Commits live edits after a pause, or after their maximal delay. */
  async commitDueEdits(tx: Tx, row: DocumentRow): Promise<void> {
    const now = this.#deps.clock.now();
    if (row.pending_since === null || row.deleted_at !== null) return;
    const pausedAt = Date.parse(row.edited_at) + COMMIT_DELAY_MS;
    const dueAt = Math.min(pausedAt, Date.parse(row.pending_since) + COMMIT_DELAY_MAX_MS);
    if (dueAt > now) return await this.#scheduleCommit(tx, row, dueAt);
    await this.commitPendingEdits(tx, row, (await this.open(row.tenant_id, row.id, { db: tx.db })).doc);
  }

  /** Replaces many updates by a snapshot, in one commit. */
  async #compact(tx: Tx, row: DocumentRow, doc: Y.Doc): Promise<DocumentRow> {
    const contents = new ContentStore(tx.db);
    const { tenant_id: tenantId, id } = row;
    const from = (await contents.state(tenantId, id))?.snapshot_revision ?? 0;
    const updates = await contents.updatesAfter(tenantId, id, from);
    const bytes = updates.reduce((sum, { data }) => sum + data.length, 0);
    if (updates.length < COMPACT_UPDATES && bytes < COMPACT_BYTES) return row;
    const snapshot = measureCpu(() => encode(doc));
    await pauseIfLarge(doc);
    // Its items have another order, which an attacker may have chosen to be expensive: the updates stay, and no more are accepted.
    if (measureCpu(() => openSnapshot(snapshot)) === undefined) return { ...row, state_bytes: STATE_MAX_BYTES };
    await pauseIfLarge(doc);
    await contents.setState(tenantId, id, { snapshot: snapshot.toBase64(), snapshot_revision: row.revision });
    await contents.deleteUpdates(tenantId, id, row.revision);
    return { ...row, state_bytes: snapshot.length };
  }

  /** Schedules the commit of live edits from before a document was deleted and restored. */
  async rescheduleCommit(tx: Tx, row: DocumentRow): Promise<void> {
    if (row.pending_since !== null) await this.#scheduleCommit(tx, row, this.#deps.clock.now());
  }

  async #scheduleCommit(tx: Tx, { tenant_id: tenantId, id }: DocumentRow, runAt: number): Promise<void> {
    await tx.enqueue({ tenantId, kind: COMMIT_REVISION_JOB, payload: { documentId: id }, key: id, runAt });
  }
}

/** The row of a document's current revision, with this content. */
export function revisionOf(
  row: Pick<DocumentRow, "tenant_id" | "id" | "revision">,
  { text, nodes }: Pick<Representation, "text" | "nodes">,
  { kind, principalIds, startedAt, at }: Origin,
): RevisionRow {
  return {
    tenant_id: row.tenant_id,
    document_id: row.id,
    revision: row.revision,
    kind,
    text,
    nodes_json: nodes,
    bytes: bytesOf(nodes ?? text),
    principal_ids_json: JSON.stringify(principalIds),
    started_at: startedAt,
    at,
  };
}
