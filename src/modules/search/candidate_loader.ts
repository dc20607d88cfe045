// Loads candidates as the caller may see them now, and matches their current texts.
import type { Actor } from "@/core/actor.ts";
import { createYielder, runInSlices, type Steps } from "@/core/caller.ts";
import { inChunks } from "@/core/page.ts";
import type { LoadedResource, Searchable, SearchFields } from "@/core/searchable.ts";
import type { Candidate } from "./store.ts";

/** Resources loaded at once. Only few are in memory at a time, because each may be a megabyte long. */
const LOAD_MAX = 100;

export type Hit = Candidate & { score: number };

export class CandidateLoader {
  readonly #actor: Actor;
  readonly #sources: ReadonlyMap<string, Searchable>;
  readonly #pause: () => Promise<void>;
  readonly #isLate: () => boolean;
  /** False once time ended the matching: later candidates were not read. */
  isComplete = true;

  /** `pause` resolves when the next slice may run; once `isLate`, what matches so far is enough. */
  constructor(
    actor: Actor,
    sources: ReadonlyMap<string, Searchable>,
    { pause, isLate }: { pause: () => Promise<void>; isLate: () => boolean },
  ) {
    this.#actor = actor;
    this.#sources = sources;
    this.#pause = pause;
    this.#isLate = isLate;
  }

  /** Whether the index may find resources of these kinds that the actor may not see. */
  hides(kinds: readonly string[]): boolean {
    return kinds.some((kind) => this.#sources.get(kind)?.filterVisible !== undefined);
  }

  /** The candidates without those that their source hides from the actor: neither counts nor scores may depend on them. */
  async filterVisible(candidates: readonly Candidate[]): Promise<Candidate[]> {
    const hidden = new Set<Candidate>();
    for (const [kind, group] of Map.groupBy(candidates, (candidate) => candidate.kind)) {
      const visible = await this.#sources.get(kind)?.filterVisible?.(this.#actor, group.map(({ id }) => id));
      for (const candidate of group) if (visible?.has(candidate.id) === false) hidden.add(candidate);
    }
    return candidates.filter((candidate) => !hidden.has(candidate));
  }

  /** Those candidates whose current text has a score; the first of them if time ends it. */
  async match(
    candidates: readonly Candidate[],
    scoreOf: (fields: SearchFields, candidate: Candidate) => Steps<number | undefined>,
  ): Promise<Hit[]> {
    const hits: Hit[] = [];
    const yieldIfDue = createYielder(this.#pause);
    for (const batch of inChunks(candidates, LOAD_MAX)) {
      if (hits.length > 0 && this.#isLate()) this.isComplete = false;
      if (!this.isComplete) break;
      const resourceOf = await this.load(batch);
      const matching = function* (): Steps {
        for (const candidate of batch) {
          const fields = resourceOf(candidate)?.fields;
          const score = fields === undefined ? undefined : yield* scoreOf(fields, candidate);
          if (score !== undefined) hits.push({ ...candidate, score });
          yield;
        }
      };
      await runInSlices(matching(), this.#pause);
      await yieldIfDue();
    }
    return hits;
  }

  /** Loads the current resources, without those that are deleted or not visible to the actor. */
  async load(candidates: readonly Candidate[]): Promise<(candidate: Candidate) => LoadedResource | undefined> {
    const loaded = new Map<string, ReadonlyMap<string, LoadedResource>>();
    for (const [kind, group] of Map.groupBy(candidates, (candidate) => candidate.kind)) {
      const ids = group.map((candidate) => candidate.id);
      loaded.set(kind, await this.#sources.get(kind)?.load(this.#actor, ids) ?? new Map());
    }
    return ({ kind, id }) => loaded.get(kind)?.get(id);
  }
}
