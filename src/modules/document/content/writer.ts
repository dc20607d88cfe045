// Writes content: as a whole, by edits on a base revision, or from a stored revision, always on the CRDT in the store. Connected
// editors are notified by the signal that the log sends after the commit.
import type * as Y from "yjs";
import { runInSlices, type Steps } from "@/core/caller.ts";
import { nextTick } from "@/core/time/clock.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { namedFiles } from "@/modules/file/mod.ts";
import type { Store } from "@/ports/store.ts";
import { assertWritable, type DocumentAccess, type LockedDocument } from "../access.ts";
import { presentChange, publishDocumentUpdated } from "../presenter.ts";
import { readNodes } from "../rendering.ts";
import { blocksOf, dialectOf } from "../rich/dialect.ts";
import { applyRichEdits, isBlockEdit, type PreparedEdit } from "../rich/edits.ts";
import { completeIds, isWritten, writeFragment } from "../rich/fragment_writer.ts";
import { parseNodes, type RichNode } from "../rich/node.ts";
import { TEXT_MAX_BYTES } from "../schema.ts";
import type { DocumentRow, DocumentTables, RevisionRow } from "../tables.ts";
import { recordChange, spliceText, textOf } from "./crdt.ts";
import { type ContentInput, parseContent, type ParsedContent } from "./input.ts";
import type { ContentLog } from "./log.ts";
import { assertItemLimit, countItems, pauseIfLarge } from "./merge_cost.ts";
import { fragmentOf, nodesOf } from "./representation.ts";
import type { ContentChange, ContentPatch, ContentPut, Edit, RevisionRef } from "./schema.ts";
import { storedNodes, storedRevision } from "./stored_revision.ts";
import { bytesOf, diffText, type EditPlan, planEdits, textTooLong } from "./text_edits.ts";

type Deps = { store: Store<DocumentTables>; documentAccess: DocumentAccess; log: ContentLog };
/** A change of a document: how it is written, whether it was, and which files it names if that is not in the update. */
type Plan = { write: Steps; isDone: () => boolean; named?: ReadonlySet<string> };

export class ContentWriter {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async put(context: Context, { id, revision: expected, ...input }: ContentPut): Promise<ContentChange> {
    const content = await this.#parse(context, id, input);
    return await this.#deps.store.write(async (tx) => {
      const locked = await this.#deps.documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      assertWritable(locked);
      if (expected === undefined) {
        throw new Fault("precondition_required", "Expected the base revision in If-Match or in revision");
      }
      if (expected !== row.revision) {
        throw new Fault("version_mismatch", `The content is at revision ${row.revision}, expected ${expected}`);
      }
      const written = await this.#write(context, locked, "written", (doc) => planWhole(doc, row, content));
      return presentChange(written, written.revision === row.revision ? 0 : 1);
    });
  }

  async patch(context: Context, { id, baseRevision, edits, onStale }: ContentPatch): Promise<ContentChange> {
    const prepared = await this.#prepare(context, id, edits);
    return await this.#deps.store.write(async (tx) => {
      const locked = await this.#deps.documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      assertWritable(locked);
      const isAhead = baseRevision > row.revision;
      // Blocks are counted, so edits of them cannot be applied to another revision.
      const isStale = baseRevision !== row.revision && (onStale === "reject" || edits.some(isBlockEdit));
      if (isAhead || isStale) {
        throw new Fault("stale_revision", `The content is at revision ${row.revision}, expected ${baseRevision}`);
      }
      const written = await this.#write(
        context,
        locked,
        "written",
        (doc) =>
          row.kind === "text"
            ? planText(doc, (before) => planEdits(before, edits))
            : planNodes(doc, row, (before) => applyRichEdits(before, prepared, dialectOf(before, row.fragment))),
      );
      return presentChange(written, edits.length);
    });
  }

  /** Restores the content of a stored revision as a new revision. */
  restore(context: Context, { id, revision }: RevisionRef): Promise<ContentChange> {
    const { store, documentAccess } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      const { row } = locked;
      assertWritable(locked);
      const stored = await storedRevision(tx.db, row, revision);
      const content: ParsedContent = row.kind === "text" ? { text: stored.text } : { nodes: storedNodes(stored) };
      const written = await this.#write(context, locked, "restored", (doc) => planWhole(doc, row, content));
      return presentChange(written, written.revision === row.revision ? 0 : 1);
    });
  }

  async #write(
    context: Context,
    { tx, epoch, row: before }: LockedDocument,
    kind: RevisionRow["kind"],
    change: (doc: Y.Doc) => Steps<Plan | undefined>,
  ): Promise<DocumentRow> {
    const { log } = this.#deps;
    const { actor } = context;
    const { doc } = await log.open(before.tenant_id, before.id, { actor, db: tx.db });
    const plan = await runInSlices(change(doc), nextTick);
    if (plan === undefined) return before;
    const row = await log.commitPendingEdits(tx, before, doc);
    const items = countItems(doc);
    const update = await runInSlices(recordChange(doc, `${row.generation} ${epoch}`, plan.write), nextTick);
    // Compares what will be stored, so that a change is written completely or not at all.
    if (!log.measure(actor, plan.isDone)) throw new Error("Expected the written content, received a different one");
    assertItemLimit(doc, items);
    await pauseIfLarge(doc);
    // What a revision names was attached when it was written; who restores it names nothing.
    const named = kind === "restored" ? new Set<string>() : plan.named;
    const appended = await log.append(tx, row, update, actor.principalId, named);
    const committed = await log.commitRevision(tx, appended, doc, kind, [actor.principalId]);
    await publishDocumentUpdated(tx, [row, committed], ["content"], [actor.principalId], actor);
    return committed;
  }

  /** Parses new content before the transaction: conversions may take long. Text needs none. */
  async #parse(context: Context, id: string, input: ContentInput): Promise<ParsedContent> {
    const { row } = await this.#deps.documentAccess.require(context, id);
    const isParsed = row.kind === "rich" && input.prosemirror === undefined;
    const nodes = isParsed ? (await this.#deps.log.nodes(row, { actor: context.actor })).nodes : [];
    return await parseContent(input, row.kind, dialectOf(nodes, row.fragment));
  }

  /** The edits of a rich document with the blocks of their Markdown. */
  async #prepare(context: Context, id: string, edits: readonly Edit[]): Promise<PreparedEdit[]> {
    const { row } = await this.#deps.documentAccess.require(context, id);
    if (row.kind === "text") return [];
    const { nodes } = await this.#deps.log.nodes(row, { actor: context.actor });
    const dialect = dialectOf(nodes, row.fragment);
    const prepared: PreparedEdit[] = [];
    for (const [index, edit] of edits.entries()) {
      const isParsed = edit.op !== "replace" && edit.op !== "insert_after" && edit.op !== "delete_block";
      const { text = undefined, nodes: given = undefined } = isParsed && "nodes" in edit
        ? edit
        : isParsed
        ? { text: edit.text }
        : {};
      if (isParsed && (text === undefined) === (given === undefined)) {
        throw invalidField(`/edits/${index}/text`, "expected either text or nodes");
      }
      const blocks = given !== undefined
        ? parseNodes(given, `/edits/${index}/nodes`)
        : text !== undefined
        ? blocksOf(await readNodes({ markdown: text }, dialect))
        : [];
      prepared.push({ edit, blocks });
    }
    return prepared;
  }
}

function planWhole(doc: Y.Doc, row: DocumentRow, content: ParsedContent): Steps<Plan | undefined> {
  if ("nodes" in content) return planNodes(doc, row, () => content.nodes);
  return planText(doc, function* (before) {
    const splices = diffText(before, content.text);
    yield;
    return { splices, text: content.text };
  });
}

function* planText(doc: Y.Doc, change: (text: string) => Steps<EditPlan>): Steps<Plan | undefined> {
  const before = textOf(doc);
  yield;
  const { splices, text } = yield* change(before);
  if (bytesOf(text) > TEXT_MAX_BYTES) throw textTooLong();
  if (text === before) return undefined;
  yield;
  const named = namedFiles(text).difference(namedFiles(before));
  return { write: spliceText(doc, splices), isDone: () => textOf(doc) === text, named };
}

function* planNodes(
  doc: Y.Doc,
  row: DocumentRow,
  change: (nodes: RichNode[]) => RichNode[] | Steps<RichNode[]>,
): Steps<Plan | undefined> {
  const before = nodesOf(doc, row);
  yield;
  const changed = change(before);
  const nodes = completeIds(parseNodes(Array.isArray(changed) ? changed : yield* changed, ""));
  yield;
  if (isWritten(before, nodes)) return undefined;
  return { write: writeFragment(fragmentOf(doc, row), nodes), isDone: () => isWritten(nodesOf(doc, row), nodes) };
}
