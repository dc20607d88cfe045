// Indexes long texts: tokenizes them in slices that yield the thread, and writes the tokens in parts with a commit each.
import { z } from "@zod/zod";
import { createYielder, nextSlice } from "@/core/caller.ts";
import { defineJob, type JobKind } from "@/core/job.ts";
import { normalizeText } from "@/core/text/normalize.ts";
import type { Store } from "@/ports/store.ts";
import { addTokens, hashGrams, TOKENS_MAX } from "./tokenize.ts";
import { documentsById, type IndexEngine, indexEngineOf, type SearchTables } from "./index_store.ts";
import { extraGrams, isLong, joinTexts, LONG_TEXT_JOB, PART_TOKENS, rowOf } from "./search_index.ts";
import { inChunks } from "@/core/page.ts";
import type { Searchable, SearchEntry } from "@/core/searchable.ts";

/** UTF-16 units that are normalized and tokenized without a pause. */
const SLICE_UNITS = 8000;
/** Slices overlap, so that a word cut by the end of one is whole in the next. */
const OVERLAP_UNITS = 128;
/** Up to this many tokens are written at once like those of a short text, because parts make lookups slower. */
const WHOLE_TOKENS = 2 * PART_TOKENS;

type Deps = { store: Store<SearchTables>; sources: readonly Searchable[] };

/**
 * The job is enqueued in the transaction of the change, with the resource as its key, and resumes an interrupted run. Parts of
 * an earlier text are found until the new ones are written; such results are dropped when their text is matched.
 */
export class LongTextIndexer {
  readonly #deps: Deps;
  readonly #engine: IndexEngine;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#engine = indexEngineOf(deps.store.dialect);
  }

  /** The indexing job; its CPU time is charged to the author of the change. */
  get job(): JobKind {
    return defineJob({
      kind: LONG_TEXT_JOB,
      payload: z.strictObject({ kind: z.string(), id: z.string() }),
      isLongRunning: true,
      run: ({ tenantId, payload: { kind, id } }) => this.#run(tenantId, kind, id),
    });
  }

  async #run(tenantId: string, kind: string, id: string): Promise<void> {
    const { store, sources } = this.#deps;
    // Read before the text: a later change of the text changes this version and enqueues a run of its own.
    const [document] = await documentsById(store.db, tenantId, kind, [id]);
    const [entry] = await sources.find((source) => source.kind === kind)?.entries(tenantId, { ids: [id] }) ?? [];
    if (document === undefined || entry === undefined || !isLong(entry)) return;
    const tokens = await tokensInSlices(entry);
    if (tokens.length <= WHOLE_TOKENS) {
      const whole = { row: rowOf(entry), tokens, isWhole: true };
      return await store.write((tx) => this.#engine.put(tx, tenantId, [whole]));
    }
    let first: number | undefined;
    for (const partTokens of inChunks(tokens, PART_TOKENS)) {
      await nextSlice();
      const part = await store.write((tx) => this.#engine.addPart(tx, tenantId, document, partTokens));
      if (part === undefined) return;
      first ??= part;
    }
    await store.write((tx) => this.#engine.dropParts(tx, tenantId, [id], first));
  }
}

async function tokensInSlices(entry: SearchEntry): Promise<number[]> {
  const yieldIfDue = createYielder();
  const text = joinTexts(entry.texts);
  const tokens = new Set(hashGrams(entry.tenantId, extraGrams(entry)));
  for (let at = 0; at < text.length && tokens.size < TOKENS_MAX; at += SLICE_UNITS - OVERLAP_UNITS) {
    addTokens(tokens, entry.tenantId, normalizeText(text.slice(at, at + SLICE_UNITS)));
    await yieldIfDue();
  }
  return [...tokens];
}
