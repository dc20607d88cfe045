// Revisions and comments of an archive's documents: those that are missing come in, some at a time, so that of a document
// that came in before without them, or whose import was cut short, the rest follows.
import {
  type CarriedComment,
  COMMENTS_MAX,
  type DocumentCarrier,
  type HeldDocument,
  REVISIONS_MAX,
} from "@/modules/document/mod.ts";
import { nextTurn } from "@/core/clock.ts";
import type { Transaction } from "@/ports/store.ts";
import { Brought, type Part, partOf } from "./brought.ts";
import type { CommentEntry, RevisionEntry } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { idsOf, takePartId } from "./places.ts";
import { TransferStore, type TransferTables } from "./store.ts";

const BATCH = 100;
/** Longer texts do not wait for others. */
const WAITING_MAX_UNITS = 1024 * 1024;

type Tx = Transaction<TransferTables>;
type NewComment = { entry: CommentEntry; comment: CarriedComment };

export class AppendixImport {
  readonly #importer: Importer;
  readonly #tenantId: string;
  readonly #appendix: DocumentCarrier["appendix"];
  #documentId = "";
  #revisions: RevisionEntry[] = [];
  #comments: CommentEntry[] = [];
  #units = 0;

  constructor(importer: Importer, { appendix }: DocumentCarrier, tenantId: string) {
    this.#importer = importer;
    this.#appendix = appendix;
    this.#tenantId = tenantId;
  }

  /** An earlier revision of a document, given the newest first. */
  async revision(documentId: string, entry: RevisionEntry): Promise<void> {
    await this.#turnTo(documentId);
    this.#revisions.push(entry);
    await this.#grow(entry);
  }

  /** A comment on a document, given after the one it replies to. */
  async comment(documentId: string, entry: CommentEntry): Promise<void> {
    await this.#turnTo(documentId);
    this.#comments.push(entry);
    await this.#grow(entry);
  }

  /** Puts what waits. */
  async flush(): Promise<void> {
    const [revisions, comments] = [this.#revisions, this.#comments];
    this.#revisions = [];
    this.#comments = [];
    this.#units = 0;
    if (revisions.length + comments.length === 0) return;
    await this.#importer.write(async (tx) => {
      const held = await this.#appendix.hold(tx, this.#tenantId, this.#documentId);
      if (held === undefined) return;
      await this.#putRevisions(tx, held, revisions);
      await this.#putComments(tx, held, comments);
    });
    // Readers and writers of others get their turn between batches.
    await nextTurn();
  }

  async #turnTo(documentId: string): Promise<void> {
    if (documentId !== this.#documentId) await this.flush();
    this.#documentId = documentId;
  }

  async #grow({ text }: { text: string }): Promise<void> {
    this.#units += text.length;
    const isFull = this.#revisions.length + this.#comments.length >= BATCH || this.#units >= WAITING_MAX_UNITS;
    if (isFull) await this.flush();
  }

  /**
   * Those before the oldest that is kept here. From there on the document has its own: it may have gone another way, and
   * what is at some number there need not be what was at that number here.
   */
  async #putRevisions(tx: Tx, held: HeldDocument, entries: readonly RevisionEntry[]): Promise<void> {
    const { report, people, now } = this.#importer;
    const fresh: RevisionEntry[] = [];
    let { oldest } = held;
    for (const entry of entries) {
      if (entry.revision >= oldest) continue;
      if (held.revisions + fresh.length >= REVISIONS_MAX) {
        report.skip("too_many_revisions", entry.where);
        continue;
      }
      oldest = entry.revision;
      fresh.push(entry);
    }
    await people.standIn(tx, fresh.flatMap(({ principalIds }) => principalIds), now);
    await this.#appendix.addRevisions(tx, held, fresh.map(({ where: _where, ...revision }) => revision));
    report.added.revisions += fresh.length;
  }

  async #putComments(tx: Tx, held: HeldDocument, entries: readonly CommentEntry[]): Promise<void> {
    const { report, people, now } = this.#importer;
    const brought = new Brought(tx, this.#tenantId);
    const part = (id: string): Part => partOf.comment(held.row.id, id);
    const absent = await this.#missing(tx, held, entries);
    const missing = await brought.fresh(absent, ({ entry }) => idsOf(entry.ref).map(part));
    const fresh = missing.slice(0, Math.max(0, COMMENTS_MAX - held.comments));
    for (const { entry } of missing.slice(fresh.length)) report.skip("too_many_comments", entry.where);
    const names = fresh.flatMap(({ entry: { authorId, resolvedBy } }) => [authorId, resolvedBy]);
    await people.standIn(tx, names.filter((name) => name !== null), now);
    const added = await this.#appendix.addComments(tx, held, fresh.map(({ comment }) => comment));
    await brought.note(fresh.map(({ comment }) => part(comment.id)));
    for (const [at, { entry }] of fresh.entries()) {
      const isUnder = added[at]?.parentId !== null;
      if (entry.parent !== null && !isUnder) report.skip("parent_missing", `${entry.where}: comment`);
      if (entry.anchor !== null && !isUnder && added[at]?.anchor === null) report.skip("anchor_invalid", entry.where);
    }
    report.added.comments += added.length;
  }

  /** Comments that are not there, each with the id that is free for it, and that of its parent. */
  async #missing(tx: Tx, { row }: HeldDocument, entries: readonly CommentEntry[]): Promise<NewComment[]> {
    const store = new TransferStore(tx.db);
    const refs = entries.flatMap(({ ref, parent }) => parent === null ? [ref] : [ref, parent]);
    const places = await store.comments(this.#tenantId, [...new Set(refs.flatMap(idsOf))]);
    const elsewhere = await store.takenElsewhere(
      this.#tenantId,
      "document_comment",
      entries.flatMap(({ ref }) => idsOf(ref)),
    );
    const missing: NewComment[] = [];
    for (const { ref, where, parent, ...rest } of entries) {
      const parentId = parent === null ? null : idsOf(parent).find((one) => places.get(one) === row.id) ?? null;
      const id = takePartId(ref, row.id, places, elsewhere);
      if (id === undefined) continue;
      missing.push({ entry: { ref, where, parent, ...rest }, comment: { ...rest, id, parentId } });
    }
    return missing;
  }
}
