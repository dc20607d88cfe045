// Comments, anchored to text by relative positions of the CRDT, which follow edits.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { roomStream } from "@/core/event/event.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import { type Holds, holdSubjectOf } from "@/core/hold.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { assertVersion } from "@/core/patch.ts";
import { type NamedFiles, namedFiles, uploadedBy } from "@/modules/file/mod.ts";
import type { Store } from "@/ports/store.ts";
import { assertActive, type DocumentAccess, isModerator, type LockedDocument, lockStreamOf } from "../access.ts";
import type { ContentLog } from "../content/log.ts";
import { type AnchoredText, anchoredTextOf } from "../content/representation.ts";
import { requireAnchor } from "../content/text_edits.ts";
import { attachNamedFiles } from "../files.ts";
import { presentComment, publishCommentEvent, redactComments } from "../presenter.ts";
import {
  type ChangedComment,
  type Comment,
  type CommentCreate,
  type CommentList,
  type CommentRef,
  COMMENTS_MAX,
  type CommentUpdate,
} from "../schema.ts";
import type { DocumentIndex } from "../searchable.ts";
import type { CommentRow, DocumentRow, DocumentTables } from "../tables.ts";
import type { CommentNotifier } from "./notifier.ts";
import { COMMENT_KIND, commentEntries } from "./searchable.ts";
import { CommentStore } from "./store.ts";
import { DocumentStore } from "../store.ts";

type Deps = {
  store: Store<DocumentTables>;
  clock: Clock;
  cursors: Cursors;
  documentAccess: DocumentAccess;
  log: ContentLog;
  notifier: CommentNotifier;
  files: NamedFiles;
  holds: Holds;
  index: DocumentIndex | undefined;
};

export class CommentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(context: Context, { id, limit, cursor, resolved }: CommentList): Promise<Page<Comment>> {
    const { store, cursors, documentAccess, log } = this.#deps;
    const { row } = await documentAccess.require(context, id);
    const bind = ["document.comments", row.tenant_id, context.actor.principalId, id, resolved ?? null];
    const after = cursors.decode(cursor, bind);
    const rows = await new CommentStore(store.db).list(row.tenant_id, id, resolved, after, limit + 1);
    const { doc } = await log.open(row.tenant_id, id, { actor: context.actor });
    const content = log.measure(context.actor, () => anchoredTextOf(doc, row));
    return cursors.page(rows, limit, bind, (one) => [one.created_at, one.id], (one) => presentComment(one, content));
  }

  create(context: Context, { id, text, anchor, parentId }: CommentCreate): Promise<ChangedComment> {
    const { store, documentAccess, log, clock, notifier } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      assertActive(row);
      const comments = new CommentStore(tx.db);
      if (await comments.count(row.tenant_id, id) >= COMMENTS_MAX) {
        throw new Fault("limit_reached", `A document has at most ${COMMENTS_MAX} comments`);
      }
      const parent = parentId === undefined ? undefined : await requireComment(locked, parentId);
      if (parent !== undefined && anchor !== undefined) {
        throw invalidField("/anchor", "a reply has the anchor of its comment");
      }
      const { doc } = await log.open(row.tenant_id, id, { actor: context.actor, db: tx.db });
      const content = anchoredTextOf(doc, row);
      const range = anchor === undefined ? undefined : requireAnchor(content.text, anchor);
      const now = iso(clock.now());
      const comment: CommentRow = {
        tenant_id: row.tenant_id,
        id: newId("cmt"),
        document_id: id,
        // Replies to a reply are replies to the same comment.
        parent_id: parent?.parent_id ?? parent?.id ?? null,
        author_id: context.actor.principalId,
        text,
        quote: anchor?.text ?? null,
        anchor_start: range === undefined ? null : content.encode(range.at, "next"),
        anchor_end: range === undefined ? null : content.encode(range.at + range.remove, "previous"),
        resolved_by: parent?.resolved_by ?? null,
        resolved_at: parent?.resolved_at ?? null,
        version: 1,
        created_at: now,
        updated_at: now,
      };
      await comments.add(comment);
      await this.#attachFiles(context, locked, comment);
      await this.#index(locked, comment);
      const notified = await notifier.notify(context.actor, locked, comment);
      return { ...await this.#publish(context.actor, locked, comment, "created", content), ...notified };
    });
  }

  update(context: Context, { id, commentId, text, resolved, version }: CommentUpdate): Promise<ChangedComment> {
    const { store, documentAccess, clock, notifier } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      assertActive(row);
      const before = await requireComment(locked, commentId);
      assertVersion("comment", before.version, version);
      if (text !== undefined && before.author_id !== context.actor.principalId) {
        throw new Fault("forbidden", "Only its author may change the text of a comment");
      }
      if (resolved !== undefined && before.parent_id !== null) {
        throw invalidField("/resolved", "a reply is resolved with its comment");
      }
      const now = iso(clock.now());
      const isToggled = resolved !== undefined && resolved !== (before.resolved_at !== null);
      if (!isToggled && (text === undefined || text === before.text)) return await this.#present(tx, row, before);
      const comment: CommentRow = {
        ...before,
        text: text ?? before.text,
        ...isToggled
          ? { resolved_at: resolved ? now : null, resolved_by: resolved ? context.actor.principalId : null }
          : {},
        version: before.version + 1,
        updated_at: now,
      };
      const comments = new CommentStore(tx.db);
      // No earlier text stays.
      if (comment.text !== before.text) {
        await this.#assertNotHeld(locked, before, "The text of the comment cannot be changed");
      }
      await comments.put(comment);
      let notified: Awaited<ReturnType<CommentNotifier["notify"]>> = {};
      if (comment.text !== before.text) {
        await this.#attachFiles(context, locked, comment);
        await this.#index(locked, comment);
        notified = await notifier.notify(context.actor, locked, comment, before.text);
      }
      const { resolved_at, resolved_by } = comment;
      if (isToggled) await comments.setResolved(row.tenant_id, comment.id, { resolved_at, resolved_by });
      const action = isToggled ? resolved ? "resolved" : "reopened" : "updated";
      const published = await this.#publish(context.actor, locked, comment, action);
      return { ...published, ...notified };
    });
  }

  /** Deletes a comment with its replies, and redacts their texts in earlier events; for its author and for moderators. */
  async delete(context: Context, { id, commentId }: CommentRef): Promise<void> {
    const { store, documentAccess } = this.#deps;
    await store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      assertActive(locked.row);
      const comment = await requireComment(locked, commentId);
      if (comment.author_id !== context.actor.principalId && !isModerator(locked.role)) {
        throw new Fault("forbidden", "Deleting comments of others requires a moderator of the room");
      }
      await this.#assertNotHeld(locked, comment, "The comment cannot be deleted");
      await this.#remove(locked, comment, context.actor);
    });
  }

  /** Deletes comments on any documents as their authors do, in one transaction; those that are deleted already are ignored. */
  deleteMany(tenantId: string, ids: readonly string[]): Promise<number> {
    return this.#deps.store.write(async (tx) => {
      const [comments, documents] = [new CommentStore(tx.db), new DocumentStore(tx.db)];
      const documentIds = [...new Set((await comments.findByIds(tenantId, { ids })).map((row) => row.document_id))];
      const rows = new Map((await documents.findMany(tenantId, documentIds)).map((row) => [row.id, row]));
      const streams = [...rows.values()].flatMap(({ id, room_id }) => [
        lockStreamOf(id),
        ...room_id === null ? [] : [roomStream(room_id)],
      ]);
      await tx.lock(tenantId, ...streams);
      let deleted = 0;
      for (const id of ids) {
        // A reply may have been deleted with its comment.
        const [comment] = await comments.findByIds(tenantId, { ids: [id] });
        const row = rows.get(comment?.document_id ?? "");
        if (comment === undefined || row === undefined) continue;
        await this.#remove({ tx, row }, comment);
        deleted++;
      }
      return deleted;
    });
  }

  async #remove({ tx, row }: CommentedDocument, comment: CommentRow, actor?: Actor): Promise<void> {
    const removed = await new CommentStore(tx.db).remove(comment.tenant_id, comment.id);
    await this.#deps.index?.remove(comment.tenant_id, COMMENT_KIND, removed);
    await redactComments(tx, row, comment, iso(this.#deps.clock.now()));
    await this.#publish(actor, { tx, row }, comment, "deleted");
  }

  /** Neither the document nor the author is under a hold. */
  async #assertNotHeld({ tx, row }: CommentedDocument, { author_id }: CommentRow, what: string): Promise<void> {
    for (const subject of [holdSubjectOf(row), { principalId: author_id }]) {
      await this.#deps.holds.assertNotHeld(what, tx.db, row.tenant_id, subject);
    }
  }

  async #attachFiles({ actor }: Context, { tx, row }: LockedDocument, { text }: CommentRow): Promise<void> {
    const { files } = this.#deps;
    await attachNamedFiles(tx, files, row, namedFiles(text), uploadedBy(actor.principalId));
  }

  async #index({ tx, row }: LockedDocument, comment: CommentRow): Promise<void> {
    await this.#deps.index?.put(...await commentEntries(tx.db, row.tenant_id, [comment]));
  }

  async #publish(
    actor: Actor | undefined,
    { tx, row }: CommentedDocument,
    comment: CommentRow,
    action: "created" | "updated" | "resolved" | "reopened" | "deleted",
    content?: AnchoredText,
  ): Promise<Comment> {
    const presented = await this.#present(tx, row, comment, content);
    await publishCommentEvent(tx, row, action, presented, actor);
    return presented;
  }

  async #present(
    { db }: LockedDocument["tx"],
    row: DocumentRow,
    comment: CommentRow,
    content?: AnchoredText,
  ): Promise<Comment> {
    const read = async (): Promise<AnchoredText> =>
      anchoredTextOf((await this.#deps.log.open(row.tenant_id, row.id, { db })).doc, row);
    return presentComment(comment, content ?? await read());
  }
}

type CommentedDocument = Pick<LockedDocument, "tx" | "row">;

async function requireComment({ tx, row }: LockedDocument, id: string): Promise<CommentRow> {
  const comment = await new CommentStore(tx.db).find(row.tenant_id, row.id, id);
  if (comment === undefined) throw notFound("comment in the document");
  return comment;
}
