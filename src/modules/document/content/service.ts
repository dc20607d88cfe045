// Reads content and its revisions, and accepts Yjs updates of it.
import { nextSlice } from "@/core/caller.ts";
import type { CpuBudget } from "@/core/limit/cpu_budget.ts";
import { type Slot, Slots } from "@/core/limit/slots.ts";
import { Fault, invalidField } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { nextTick } from "@/core/time/clock.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { type Actor, chargedTo } from "@/core/actor.ts";
import type { Store } from "@/ports/store.ts";
import { assertWritable, type DocumentAccess, editorContext, lockDocument } from "../access.ts";
import { classifyUpdate, encode, refusalOf, updateFault } from "./crdt.ts";
import { renderBlocks, renderFragment, renderHtml, renderNodes, renderNodesAsPage } from "../rendering.ts";
import type { RichNode } from "../rich/node.ts";
import { checkShape, wrongFragment } from "../rich/update_shape.ts";
import { presentChange, presentRevision } from "../presenter.ts";
import { UPDATE_MAX_BYTES_OF } from "../limits.ts";
import type {
  Content,
  ContentChange,
  ContentRead,
  RevisionInfo,
  RevisionList,
  RevisionRef,
  RevisionText,
} from "./schema.ts";
import type { DocumentRow, DocumentTables } from "../tables.ts";
import { DocumentStore } from "../store.ts";
import { estimateMergeMs } from "./merge_cost.ts";
import type { ContentLog } from "./log.ts";
import { ContentStore } from "./store.ts";
import type { DocumentKind } from "./update_scan.ts";
import { storedNodes, storedRevision } from "./stored_revision.ts";

type Deps = {
  store: Store<DocumentTables>;
  cursors: Cursors;
  documentAccess: DocumentAccess;
  log: ContentLog;
  cpu: CpuBudget;
};

/** Each pass over a longer update may take milliseconds, and it takes many times its length in memory. */
const LONG_BYTES = 4096;
/** How many of these are merged at once: in all, and of a tenant. */
const LONG_MERGES = { total: 4, perKey: [1] };

export class ContentService {
  readonly #deps: Deps;
  readonly #longMerges = new Slots(LONG_MERGES);

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async read(context: Context, { id, format, revision: requested }: ContentRead): Promise<Content> {
    const { documentAccess, log } = this.#deps;
    const { row } = await documentAccess.require(context, id);
    const { generation } = row;
    if (format === "yjs") {
      if (requested !== undefined) {
        throw invalidField("/revision", "the format yjs is available for the current revision only");
      }
      const { doc, revision } = await log.open(row.tenant_id, id, { actor: context.actor });
      return { documentId: id, revision, version: revision, generation, format, update: encode(doc).toBase64() };
    }
    const isStored = requested !== undefined && requested !== row.revision;
    const stored = isStored ? await storedRevision(this.#deps.store.db, row, requested) : undefined;
    if (row.kind === "rich" && format !== "text") {
      const { nodes, revision } = stored === undefined
        ? await log.nodes(row, { actor: context.actor })
        : { nodes: storedNodes(stored), revision: stored.revision };
      const common = { documentId: id, revision, version: revision, generation };
      if (format === "prosemirror") return { ...common, format, prosemirror: documentOf(nodes) };
      if (format === "html") return { ...common, format, html: await renderNodes("html", nodes) };
      const text = await renderNodes("markdown", nodes);
      return format === "markdown"
        ? { ...common, format, text }
        : { ...common, format, blocks: await renderBlocks(text) };
    }
    const { text, revision } = stored ?? await log.text(row, { actor: context.actor });
    const common = { documentId: id, revision, version: revision, generation };
    if (format === "prosemirror") throw invalidField("/format", "prosemirror is available for rich documents only");
    if (format === "html") return { ...common, format, html: await renderFragment(text) };
    return format === "json" ? { ...common, format, blocks: await renderBlocks(text) } : { ...common, format, text };
  }

  /** A document as a file. */
  async export(context: Context, id: string, format: "markdown" | "html"): Promise<{ title: string; text: string }> {
    const { row } = await this.#deps.documentAccess.require(context, id);
    const { title } = row;
    if (row.kind === "rich") {
      const { nodes } = await this.#deps.log.nodes(row, { actor: context.actor });
      return {
        title,
        text: format === "html" ? await renderNodesAsPage(title, nodes) : await renderNodes(format, nodes),
      };
    }
    const { text } = await this.#deps.log.text(row, { actor: context.actor });
    return { title, text: format === "html" ? await renderHtml(title, text) : text };
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

  /** Merges an update from another copy of the CRDT. */
  async merge(context: Context, id: string, update: Uint8Array): Promise<ContentChange> {
    const { store, documentAccess, log, cpu } = this.#deps;
    const { row: { kind } } = await documentAccess.require(context, id);
    if (update.length > UPDATE_MAX_BYTES_OF[kind]) throw updateTooLarge(kind);
    using _slot = update.length > LONG_BYTES ? await this.#beginLongMerge(context.actor) : undefined;
    const fault = log.measure(context.actor, () => updateFault(update, kind));
    if (fault !== undefined) throw refusalOf(fault);
    return await store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, context, id);
      assertWritable(locked);
      let { row } = locked;
      const { doc } = await log.open(row.tenant_id, id, { actor: context.actor, db: tx.db });
      const account = cpu.accountOf(context.actor);
      const relation = account.measure(() => classifyUpdate(doc, update));
      if (relation === "duplicate") return presentChange(row, 0);
      if (relation === "missing_dependency") throw new MissingDependency();
      if (update.length > LONG_BYTES) await nextTick();
      account.measure(() => {
        if (kind === "rich") row = { ...row, fragment: checkShape(doc, update, row.fragment) ?? row.fragment };
        estimateMergeMs(doc, update);
      });
      if (update.length > LONG_BYTES) await nextTick();
      return presentChange(await log.appendLive(tx, row, update, context.actor.principalId), 1);
    });
  }

  /**
   * Stores an update of a connected editor; resolves to the document after the commit, and the stamp of access to it. `fragment` is
   * that of a rich document with the update, unless it has none yet.
   */
  acceptUpdate(
    actor: Actor,
    id: string,
    update: Uint8Array,
    fragment?: string,
  ): Promise<{ row: DocumentRow; accessStamp: string }> {
    const { store, documentAccess, log } = this.#deps;
    return store.write(async (tx) => {
      const locked = await documentAccess.requireForUpdate(tx, editorContext(actor, "write"), id);
      assertWritable(locked);
      const { row, accessStamp } = locked;
      if (fragment !== undefined && row.fragment !== null && row.fragment !== fragment) {
        throw wrongFragment(row.fragment);
      }
      const named = { ...row, fragment: row.fragment ?? fragment ?? null };
      return { row: await log.appendLive(tx, named, update, actor.principalId), accessStamp };
    });
  }

  /** Resolves when the caller may go on, and no other long update of its tenant is merged. */
  async #beginLongMerge(actor: Actor): Promise<Slot> {
    await nextSlice();
    return await this.#longMerges.acquire([actor.tenantId, chargedTo(actor)]);
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
    const stored = await storedRevision(this.#deps.store.db, row, revision);
    const prosemirror = stored.nodes_json === null ? null : documentOf(JSON.parse(stored.nodes_json));
    return { ...presentRevision(stored), text: stored.text, prosemirror };
  }

  /** Job: commits live edits that are due to a revision. */
  async commitPendingEdits(tenantId: string, id: string): Promise<void> {
    await this.#deps.store.write(async (tx) => {
      await lockDocument(tx, tenantId, id);
      const row = await new DocumentStore(tx.db).find(tenantId, id);
      if (row !== undefined) await this.#deps.log.commitDueEdits(tx, row);
    });
  }
}

/** The fault of an update with more bytes than a document of this kind accepts at once. */
export function updateTooLarge(kind: DocumentKind): Fault {
  return new Fault("payload_too_large", `An update may have at most ${UPDATE_MAX_BYTES_OF[kind]} bytes`);
}

/** The fault of an update that cannot be applied yet, or that is of another document. */
export class MissingDependency extends Fault {
  constructor() {
    super("conflict", "The update depends on changes the document does not have; sync first, or start from a new copy");
  }
}

function documentOf(nodes: RichNode[]): Extract<Content, { format: "prosemirror" }>["prosemirror"] {
  // Attributes are JSON, which the type does not say.
  return { type: "doc", content: nodes } as Extract<Content, { format: "prosemirror" }>["prosemirror"];
}
