// Comments: anchored to text by positions in the CRDT, so they stay with their words through every edit.
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import { newId } from "@/core/id.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { checkVersion } from "@/core/patch.ts";
import type { Store } from "@/ports/store.ts";
import type * as Y from "yjs";
import { type DocumentGate, type Held, isModerator } from "../access.ts";
import type { ContentLog } from "../content/log.ts";
import { pinPosition, textOf } from "../crdt.ts";
import { findAnchor } from "../edit.ts";
import { presentComment, silence, tell, withoutText } from "../presenter.ts";
import {
  type Comment,
  type CommentCreate,
  type CommentList,
  type CommentRef,
  COMMENTS_MAX,
  type CommentUpdate,
} from "../schema.ts";
import type { CommentRow, DocumentRow, DocumentTables } from "../tables.ts";
import { CommentStore } from "./store.ts";

type Deps = { store: Store<DocumentTables>; clock: Clock; cursors: Cursors; gate: DocumentGate; log: ContentLog };

export class CommentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list(context: Context, { id, limit, cursor, resolved }: CommentList): Promise<Page<Comment>> {
    const { store, cursors, gate, log } = this.#deps;
    const { row } = await gate.enter(context, id);
    const bind = ["document.comments", row.tenant_id, context.actor.principalId, id, resolved ?? null];
    const after = cursors.open(cursor, bind);
    const rows = await new CommentStore(store.db).list(row.tenant_id, id, resolved, after, limit + 1);
    const { doc } = await log.open(row.tenant_id, id, context.actor);
    const text = textOf(doc);
    return cursors.page(rows, limit, bind, (one) => [one.created_at, one.id], (one) => presentComment(one, doc, text));
  }

  create(context: Context, { id, text, anchor, parentId }: CommentCreate): Promise<Comment> {
    const { gate, log, clock } = this.#deps;
    return gate.hold(context, id, async (held) => {
      const { tx, row } = held;
      checkOpen(row);
      const comments = new CommentStore(tx.db);
      if (await comments.count(row.tenant_id, id) >= COMMENTS_MAX) {
        throw new Fault("limit_reached", `A document has at most ${COMMENTS_MAX} comments`);
      }
      const parent = parentId === undefined ? undefined : await find(held, parentId);
      if (parent !== undefined && anchor !== undefined) {
        throw new Fault("validation_failed", "/anchor: a reply is where its comment is");
      }
      const { doc } = await log.open(row.tenant_id, id, context.actor);
      const place = anchor === undefined ? undefined : findAnchor(textOf(doc), anchor);
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
        anchor_start: place === undefined ? null : pinPosition(doc, place.at, "next"),
        anchor_end: place === undefined ? null : pinPosition(doc, place.at + place.remove, "previous"),
        resolved_by: parent?.resolved_by ?? null,
        resolved_at: parent?.resolved_at ?? null,
        version: 1,
        created_at: now,
        updated_at: now,
      };
      await comments.add(comment);
      return await this.#tell(context, held, comment, "created", doc);
    });
  }

  update(context: Context, { id, commentId, text, resolved, version }: CommentUpdate): Promise<Comment> {
    const { gate, clock } = this.#deps;
    return gate.hold(context, id, async (held) => {
      const { tx, row } = held;
      checkOpen(row);
      const before = await find(held, commentId);
      checkVersion("comment", before.version, version);
      if (text !== undefined && before.author_id !== context.actor.principalId) {
        throw new Fault("forbidden", "Only its author changes what a comment says");
      }
      if (resolved !== undefined && before.parent_id !== null) {
        throw new Fault("validation_failed", "/resolved: a reply is resolved with its comment");
      }
      const now = iso(clock.now());
      const turns = resolved !== undefined && resolved !== (before.resolved_at !== null);
      if (!turns && (text === undefined || text === before.text)) return await this.#present(row, before);
      const comment: CommentRow = {
        ...before,
        text: text ?? before.text,
        ...turns
          ? { resolved_at: resolved ? now : null, resolved_by: resolved ? context.actor.principalId : null }
          : {},
        version: before.version + 1,
        updated_at: now,
      };
      const comments = new CommentStore(tx.db);
      await comments.put(comment);
      const { resolved_at, resolved_by } = comment;
      if (turns) await comments.setResolved(row.tenant_id, comment.id, { resolved_at, resolved_by });
      return await this.#tell(context, held, comment, turns ? resolved ? "resolved" : "reopened" : "updated");
    });
  }

  /** Deletes a comment with its replies, and what they said from the events that told it; for its author, and for moderators. */
  async delete(context: Context, { id, commentId }: CommentRef): Promise<void> {
    await this.#deps.gate.hold(context, id, async (held) => {
      checkOpen(held.row);
      const comment = await find(held, commentId);
      if (comment.author_id !== context.actor.principalId && !isModerator(held.role)) {
        throw new Fault("forbidden", "Comments of others are deleted by moderators of the room");
      }
      await new CommentStore(held.tx.db).remove(comment.tenant_id, comment.id);
      await silence(held.tx, held.row, comment, iso(this.#deps.clock.now()));
      await this.#tell(context, held, comment, "deleted");
    });
  }

  async #tell(
    { actor }: Context,
    { tx, row }: Held,
    comment: CommentRow,
    action: "created" | "updated" | "resolved" | "reopened" | "deleted",
    opened?: Y.Doc,
  ): Promise<Comment> {
    const presented = await this.#present(row, comment, opened);
    const told = action === "deleted" ? withoutText(presented) : presented;
    await tell(tx, row, "document.commented", { documentId: row.id, action, comment: told }, actor);
    return presented;
  }

  async #present(row: DocumentRow, comment: CommentRow, opened?: Y.Doc): Promise<Comment> {
    const doc = opened ?? (await this.#deps.log.open(row.tenant_id, row.id)).doc;
    return presentComment(comment, doc, textOf(doc));
  }
}

async function find({ tx, row }: Held, id: string): Promise<CommentRow> {
  const comment = await new CommentStore(tx.db).find(row.tenant_id, row.id, id);
  if (comment === undefined) throw new Fault("not_found", "No such comment in the document");
  return comment;
}

function checkOpen(row: DocumentRow): void {
  if (row.state === "archived") throw new Fault("conflict", "The document is archived; make it active first");
}
