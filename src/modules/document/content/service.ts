// Reading and writing content: whole, by edits on a base revision, or as Yjs updates, always on the CRDT in the store.
// Whoever has the document open in an editor hears of it by the signal that the log sends after the commit.
import { Fault } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import type { Actor } from "@/core/actor.ts";
import type { Store } from "@/ports/store.ts";
import { checkWritable, type DocumentGate, editorContext, type Held, lockDocument } from "../access.ts";
import { applySplices, encode, relationOf, textOf, updateFault } from "../crdt.ts";
import { bytesOf, type Change, changeOf, difference, tooLong } from "../edit.ts";
import { renderBlocks } from "../rendering.ts";
import { presentChange, presentDocument, presentRevision, tell } from "../presenter.ts";
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
import type { Shares } from "../share.ts";
import { DocumentStore } from "../store.ts";
import { checkParts, partsOf, weigh } from "../weight.ts";
import type { ContentLog } from "./log.ts";
import { ContentStore } from "./store.ts";

type Deps = {
  store: Store<DocumentTables>;
  cursors: Cursors;
  gate: DocumentGate;
  log: ContentLog;
  shares: Shares;
};

export class ContentService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(context: Context, { id, format, revision: wanted }: ContentRead): Promise<Content> {
    const { gate, log } = this.#deps;
    const { row } = await gate.enter(context, id);
    const { generation } = row;
    if (format === "yjs") {
      if (wanted !== undefined) throw new Fault("validation_failed", "/revision: yjs only has the present");
      const { doc, revision } = await log.open(row.tenant_id, id, context.actor);
      return { documentId: id, revision, version: revision, generation, format, update: encode(doc).toBase64() };
    }
    const { text, revision } = wanted === undefined || wanted === row.revision
      ? await log.text(row, context.actor)
      : await this.#kept(row, wanted);
    const common = { documentId: id, revision, version: revision, generation };
    return format === "markdown"
      ? { ...common, format, text }
      : { ...common, format, blocks: await renderBlocks(text) };
  }

  /** What is new to an editor that has `vector`, as a Yjs update. */
  async update(
    context: Context,
    id: string,
    vector: Uint8Array | undefined,
  ): Promise<{ update: Uint8Array; revision: number }> {
    const { gate, log } = this.#deps;
    const { row } = await gate.enter(context, id);
    const { doc, revision } = await log.open(row.tenant_id, id, context.actor);
    try {
      return { update: encode(doc, vector), revision };
    } catch (cause) {
      throw new Fault("bad_request", "The state vector is not one of Yjs", { cause });
    }
  }

  put(context: Context, { id, text, revision: expected }: ContentPut): Promise<ContentChange> {
    if (bytesOf(text) > TEXT_MAX_BYTES) throw tooLong();
    return this.#deps.gate.hold(context, id, async (held) => {
      const { row } = held;
      checkWritable(held);
      if (expected === undefined) {
        throw new Fault("precondition_required", "Name the revision this is based on, in If-Match or in revision");
      }
      if (expected !== row.revision) {
        throw new Fault("version_mismatch", `The content is at revision ${row.revision}, not ${expected}`);
      }
      const written = await this.#write(context, held, "written", (before) => ({
        splices: difference(before, text),
        text,
      }));
      return presentChange(written, written.revision === row.revision ? 0 : 1);
    });
  }

  patch(context: Context, { id, baseRevision, edits, onStale }: ContentPatch): Promise<ContentChange> {
    return this.#deps.gate.hold(context, id, async (held) => {
      const { row } = held;
      checkWritable(held);
      const isAhead = baseRevision > row.revision;
      if (isAhead || (onStale === "reject" && baseRevision !== row.revision)) {
        throw new Fault("stale_revision", `The content is at revision ${row.revision}, not ${baseRevision}`);
      }
      const written = await this.#write(context, held, "written", (before) => changeOf(before, edits));
      return presentChange(written, edits.length);
    });
  }

  /** Takes an update made elsewhere on a copy of the CRDT. */
  merge(context: Context, id: string, update: Uint8Array): Promise<ContentChange> {
    if (update.length > UPDATE_MAX_BYTES) throw tooLarge();
    const fault = updateFault(update);
    if (fault !== undefined) throw new Fault("validation_failed", `Refused: ${fault}`);
    return this.#deps.gate.hold(context, id, async (held) => {
      checkWritable(held);
      const { tx, row } = held;
      const { doc } = await this.#deps.log.open(row.tenant_id, id, context.actor);
      const relation = relationOf(doc, update);
      if (relation === "known") return presentChange(row, 0);
      if (relation === "foreign") throw foreign();
      this.#deps.shares.of(context.actor).time(() => weigh(doc, update));
      return presentChange(await this.#deps.log.appendLive(tx, row, update, context.actor.principalId), 1);
    });
  }

  /** Takes an update from a connected editor; resolves to the new revision once it is on disk. */
  accept(actor: Actor, id: string, update: Uint8Array): Promise<number> {
    return this.#deps.gate.hold(editorContext(actor, "write"), id, async (held) => {
      checkWritable(held);
      return (await this.#deps.log.appendLive(held.tx, held.row, update, actor.principalId)).revision;
    });
  }

  async revisions(context: Context, { id, limit, cursor }: RevisionList): Promise<Page<RevisionInfo>> {
    const { store, cursors, gate } = this.#deps;
    const { row } = await gate.enter(context, id);
    const bind = ["document.revisions", row.tenant_id, context.actor.principalId, id];
    const before = cursors.open(cursor, bind)?.[0];
    const rows = await new ContentStore(store.db).revisions(
      row.tenant_id,
      id,
      before === undefined ? undefined : Number(before),
      limit + 1,
    );
    return cursors.page(rows, limit, bind, ({ revision }) => [revision], presentRevision);
  }

  async revision(context: Context, { id, revision }: RevisionRef): Promise<RevisionText> {
    const { row } = await this.#deps.gate.enter(context, id);
    const kept = await this.#kept(row, revision);
    return { ...presentRevision(kept), text: kept.text };
  }

  /** Brings the text of a kept revision back as a new one. */
  async restore(context: Context, { id, revision }: RevisionRef): Promise<ContentChange> {
    return await this.#deps.gate.hold(context, id, async (held) => {
      checkWritable(held);
      const { text } = await this.#kept(held.row, revision);
      const written = await this.#write(context, held, "restored", (before) => ({
        splices: difference(before, text),
        text,
      }));
      return presentChange(written, written.revision === held.row.revision ? 0 : 1);
    });
  }

  /** The job behind live edits. */
  async settle(tenantId: string, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      await lockDocument(tx, tenantId, id);
      const row = await new DocumentStore(tx.db).find(tenantId, id);
      if (row !== undefined) await this.#deps.log.settleDue(tx, row);
    });
  }

  async #write(
    context: Context,
    { tx, epoch, row: before }: Held,
    kind: RevisionRow["kind"],
    change: (text: string) => Change,
  ): Promise<DocumentRow> {
    const { log } = this.#deps;
    const { actor } = context;
    const { doc } = await log.open(before.tenant_id, before.id, actor);
    const text = textOf(doc);
    const { splices, text: wanted } = change(text);
    if (bytesOf(wanted) > TEXT_MAX_BYTES) throw tooLong();
    if (wanted === text) return before;
    const row = await log.settleLive(tx, before, doc);
    const parts = partsOf(doc);
    const update = applySplices(doc, `${row.generation} ${epoch}`, splices);
    // The text is read again from what will be stored; a change that does not arrive whole does not arrive.
    if (textOf(doc) !== wanted) throw new Error("the text read back is not the text written");
    checkParts(doc, parts);
    const moved = await log.append(tx, row, update, actor.principalId);
    const settled = await log.settle(tx, moved, doc, kind, [actor.principalId]);
    const data = { document: presentDocument(settled), changed: ["content"], principalIds: [actor.principalId] };
    await tell(tx, settled, "document.updated", data, actor);
    return settled;
  }

  async #kept(row: DocumentRow, revision: number): Promise<RevisionRow> {
    // One beyond the newest may be a number that the database does not know.
    const kept = revision > row.revision
      ? undefined
      : await new ContentStore(this.#deps.store.db).revision(row.tenant_id, row.id, revision);
    if (kept === undefined) throw new Fault("not_found", `No revision ${revision} is kept; the list says which are`);
    return kept;
  }
}

export function tooLarge(): Fault {
  return new Fault("payload_too_large", `An update has at most ${UPDATE_MAX_BYTES} bytes`);
}

export function foreign(): Fault {
  return new Fault("conflict", "The update builds on something the document does not have; sync first");
}
