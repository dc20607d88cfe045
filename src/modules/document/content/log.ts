// The log of a document's content: every accepted update is in it before anybody is told that it is saved.
// The binary CRDT is the truth; texts are derived from it, snapshots only make it shorter.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import type * as Y from "yjs";
import { encode, openDocument, takeUpdate, textOf } from "../crdt.ts";
import { bytesOf, tooLong } from "../edit.ts";
import { presentDocument, tell } from "../presenter.ts";
import { AUTHORS_MAX, type Origin, REVISION_DAYS, REVISIONS_MAX, STATE_MAX_BYTES, TEXT_MAX_BYTES } from "../schema.ts";
import { type DocumentIndex, indexDocument } from "../searchable.ts";
import type { Shares } from "../share.ts";
import { DocumentStore } from "../store.ts";
import type { DocumentRow, DocumentTables, RevisionRow } from "../tables.ts";
import { fromSnapshot } from "../weight.ts";
import { ContentStore } from "./store.ts";

/** Told on every node when the content of a document moved; the id is `<document>/<revision>`. */
export const MOVED_SIGNAL = "document.moved";
export const SETTLE_JOB = "document.settle";

/** Live edits become a revision and an event this long after the first of them, and while they go on as often as the second. */
const SETTLE_MS = 2000;
const SETTLE_MAX_MS = 10_000;
/** One stretch of co-editing is one revision, growing, for this long. */
const STRETCH_MS = 10 * 60_000;
const COMPACT_UPDATES = 50;
const COMPACT_BYTES = 64 * 1024;
const DAY_MS = 86_400_000;

export type Opened = { doc: Y.Doc; revision: number };
type Tx = Transaction<DocumentTables>;
type Deps = { store: Store<DocumentTables>; clock: Clock; shares: Shares; index?: DocumentIndex | undefined };

export class ContentLog {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The first state of a new document; `origin` where it was not just written. */
  async begin(tx: Tx, row: DocumentRow, text: string, snapshot: Uint8Array, origin?: Origin): Promise<void> {
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
      revisionOf(row, text, origin ?? { kind: "created", principalIds: [row.created_by], startedAt: at, at }),
    );
    await indexDocument(tx, this.#deps.index, row, text);
  }

  /** The CRDT as it is now, at the cost of `who` where somebody asks. */
  async open(tenantId: string, id: string, who?: Actor): Promise<Opened> {
    const share = who === undefined ? undefined : this.#deps.shares.of(who);
    const retryAfterMs = share?.waitMs ?? 0;
    if (retryAfterMs > 0) {
      throw new Fault("rate_limited", "The caller's documents take too much time", { retryAfterMs });
    }
    const { updates, revision } = await this.#whole(tenantId, id);
    const doc = share === undefined ? openDocument(updates) : share.time(() => openDocument(updates));
    return { doc, revision };
  }

  /** All that a document is made of, as it came: the snapshot, and the updates since. */
  async #whole(tenantId: string, id: string): Promise<{ updates: Uint8Array[]; revision: number }> {
    const contents = new ContentStore(this.#deps.store.db);
    // Updates before the snapshot: one that is made in between holds them, and nothing is missed.
    const rows = await contents.updatesAfter(tenantId, id, 0);
    const state = await contents.state(tenantId, id);
    if (state === undefined) throw new Fault("not_found", "The document is gone");
    const updates = rows.filter(({ revision }) => revision > state.snapshot_revision);
    return {
      updates: [state.snapshot, ...updates.map(({ data }) => data)].map((data) => Uint8Array.fromBase64(data)),
      revision: updates.at(-1)?.revision ?? state.snapshot_revision,
    };
  }

  /** Updates after a revision, or all there are where that is in the snapshot already; and where that leads to. */
  async since(tenantId: string, id: string, after: number): Promise<{ updates: Uint8Array[]; revision: number }> {
    const contents = new ContentStore(this.#deps.store.db);
    const rows = await contents.updatesAfter(tenantId, id, after);
    if (rows[0]?.revision === after + 1) {
      const last = rows.at(-1)?.revision ?? after;
      return { updates: rows.map(({ data }) => Uint8Array.fromBase64(data)), revision: last };
    }
    const row = await new DocumentStore(this.#deps.store.db).find(tenantId, id);
    if (row?.revision === after) return { updates: [], revision: after };
    return await this.#whole(tenantId, id);
  }

  /** The text as it is now, read without opening the CRDT where it has been derived. */
  async text(row: DocumentRow, who?: Actor): Promise<{ text: string; revision: number }> {
    const state = await new ContentStore(this.#deps.store.db).state(row.tenant_id, row.id);
    if (state?.text_revision === row.revision) return { text: state.text, revision: row.revision };
    const { doc, revision } = await this.open(row.tenant_id, row.id, who);
    return { text: textOf(doc), revision };
  }

  /** Appends an update and moves the document on; the caller holds it. */
  async append(tx: Tx, row: DocumentRow, update: Uint8Array, principalId: string): Promise<DocumentRow> {
    const { clock } = this.#deps;
    const stateBytes = row.state_bytes + update.length;
    if (stateBytes > STATE_MAX_BYTES) {
      throw new Fault("payload_too_large", `The document with its history has at most ${STATE_MAX_BYTES} bytes`);
    }
    const moved: DocumentRow = {
      ...row,
      revision: row.revision + 1,
      loose_bytes: row.loose_bytes + update.length,
      state_bytes: stateBytes,
      edited_by: principalId,
      edited_at: iso(clock.now()),
    };
    await new ContentStore(tx.db).addUpdate({
      tenant_id: row.tenant_id,
      document_id: row.id,
      revision: moved.revision,
      data: update.toBase64(),
      principal_id: principalId,
    });
    tx.signal({ kind: MOVED_SIGNAL, tenantId: row.tenant_id, id: `${row.id}/${moved.revision}` });
    return moved;
  }

  /** Appends a live edit: cheap, since revision, text and event follow when the edits settle. */
  async appendLive(tx: Tx, row: DocumentRow, update: Uint8Array, principalId: string): Promise<DocumentRow> {
    const now = this.#deps.clock.now();
    // As far as is known without opening it, the text has grown by all of the updates.
    if (row.text_bytes + row.loose_bytes + update.length > TEXT_MAX_BYTES) {
      const { doc } = await this.open(row.tenant_id, row.id);
      takeUpdate(doc, update);
      const textBytes = bytesOf(textOf(doc));
      if (textBytes > TEXT_MAX_BYTES) throw tooLong();
      // Appending counts the update once more.
      row = { ...row, text_bytes: textBytes, loose_bytes: -update.length };
    }
    const moved = await this.append(tx, row, update, principalId);
    const { revision, text_bytes, loose_bytes, state_bytes, edited_by, edited_at } = moved;
    const dirty_at = row.dirty_at ?? iso(now);
    const set = { revision, text_bytes, loose_bytes, state_bytes, edited_by, edited_at, dirty_at };
    await new DocumentStore(tx.db).update(row.tenant_id, [row.id], set);
    if (row.dirty_at === null) await this.#settleLater(tx, row, now + SETTLE_MS);
    return { ...moved, dirty_at };
  }

  /** Makes a revision of what the document is now, and writes the row; the caller tells of it. */
  async settle(
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
    const text = textOf(doc);
    let next: DocumentRow = {
      ...row,
      text_bytes: bytesOf(text),
      loose_bytes: 0,
      dirty_at: null,
      updated_at: iso(now),
    };
    await contents.setState(tenantId, id, { text, text_revision: row.revision });
    next = await this.#compact(tx, next, doc);

    const last = kind === "live" ? await contents.lastRevision(tenantId, id) : undefined;
    // Both ways: one that came in with an import may be of any time.
    const grows = last?.kind === "live" && Math.abs(now - Date.parse(last.started_at)) < STRETCH_MS;
    if (grows) await contents.removeRevision(tenantId, id, last.revision);
    const everybody: string[] = grows ? JSON.parse(last.principal_ids_json) : [];
    const authors = [...new Set([...everybody, ...principalIds])].slice(0, AUTHORS_MAX);
    const startedAt = grows ? last.started_at : row.dirty_at ?? next.updated_at;
    await contents.addRevision(
      revisionOf(next, text, { kind, principalIds: authors, startedAt, at: next.updated_at }),
    );
    await contents.trimRevisions(tenantId, id, REVISIONS_MAX, iso(now - REVISION_DAYS * DAY_MS));
    await new DocumentStore(tx.db).update(tenantId, [id], next);
    await indexDocument(tx, index, next, text);
    return next;
  }

  /** Live edits not yet in a revision become one, before something else changes the document. */
  async settleLive(tx: Tx, row: DocumentRow, doc: Y.Doc): Promise<DocumentRow> {
    if (row.dirty_at === null) return row;
    const contents = new ContentStore(tx.db);
    const from = (await contents.state(row.tenant_id, row.id))?.text_revision ?? 0;
    const updates = await contents.updatesAfter(row.tenant_id, row.id, from);
    const authors = [...new Set(updates.map((update) => update.principal_id))];
    const settled = await this.settle(tx, row, doc, "live", authors);
    const data = { document: presentDocument(settled), changed: ["content"], principalIds: authors };
    await tell(tx, settled, "document.updated", data);
    return settled;
  }

  /** The job: settles live edits that have come to rest, or that have gone on for long enough. */
  async settleDue(tx: Tx, row: DocumentRow): Promise<void> {
    const now = this.#deps.clock.now();
    if (row.dirty_at === null || row.deleted_at !== null) return;
    const restsAt = Date.parse(row.edited_at) + SETTLE_MS;
    const dueAt = Math.min(restsAt, Date.parse(row.dirty_at) + SETTLE_MAX_MS);
    if (dueAt > now) return await this.#settleLater(tx, row, dueAt);
    await this.settleLive(tx, row, (await this.open(row.tenant_id, row.id)).doc);
  }

  /** A snapshot takes the place of many updates; both happen in one commit. */
  async #compact(tx: Tx, row: DocumentRow, doc: Y.Doc): Promise<DocumentRow> {
    const contents = new ContentStore(tx.db);
    const { tenant_id: tenantId, id } = row;
    const from = (await contents.state(tenantId, id))?.snapshot_revision ?? 0;
    const updates = await contents.updatesAfter(tenantId, id, from);
    const bytes = updates.reduce((sum, { data }) => sum + data.length, 0);
    if (updates.length < COMPACT_UPDATES && bytes < COMPACT_BYTES) return row;
    const snapshot = encode(doc);
    // It has the parts in another order, which somebody may have made to take long: the updates stay, and no more come.
    if (fromSnapshot(snapshot) === undefined) return { ...row, state_bytes: STATE_MAX_BYTES };
    await contents.setState(tenantId, id, { snapshot: snapshot.toBase64(), snapshot_revision: row.revision });
    await contents.dropUpdates(tenantId, id, row.revision);
    return { ...row, state_bytes: snapshot.length };
  }

  /** Live edits of a document that was deleted meanwhile are settled now that it is back. */
  async settleAgain(tx: Tx, row: DocumentRow): Promise<void> {
    if (row.dirty_at !== null) await this.#settleLater(tx, row, this.#deps.clock.now());
  }

  async #settleLater(tx: Tx, { tenant_id: tenantId, id }: DocumentRow, runAt: number): Promise<void> {
    await tx.enqueue({ tenantId, kind: SETTLE_JOB, payload: { documentId: id }, key: id, runAt });
  }
}

/** The revision that a document is at, with this text. */
export function revisionOf(
  row: Pick<DocumentRow, "tenant_id" | "id" | "revision">,
  text: string,
  { kind, principalIds, startedAt, at }: Origin,
): RevisionRow {
  return {
    tenant_id: row.tenant_id,
    document_id: row.id,
    revision: row.revision,
    kind,
    text,
    bytes: bytesOf(text),
    principal_ids_json: JSON.stringify(principalIds),
    started_at: startedAt,
    at,
  };
}
