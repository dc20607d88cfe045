// Vectors for tests and benchmarks: in clusters, as those of texts are, and the same in each run.

/** Numbers from 0 to 1 that look random. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ state >>> 15, state | 1);
    mixed ^= mixed + Math.imul(mixed ^ mixed >>> 7, mixed | 61);
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32;
  };
}

export class ClusteredVectors {
  readonly #random: () => number;
  readonly #dimensions: number;
  readonly #centres: number[][];

  constructor(dimensions: number, { clusters = 100, seed = 1 }: { clusters?: number; seed?: number } = {}) {
    this.#random = createRandom(seed);
    this.#dimensions = dimensions;
    this.#centres = Array.from({ length: clusters }, () => this.#normal(1));
  }

  /** A vector near one of the centres. */
  next(): number[] {
    const centre = this.#centres[Math.floor(this.#random() * this.#centres.length)] ?? [];
    return this.#normal(0.8).map((value, at) => value + (centre[at] ?? 0));
  }

  #normal(scale: number): number[] {
    return Array.from({ length: this.#dimensions }, () => {
      const radius = Math.sqrt(-2 * Math.log(1 - this.#random()));
      return radius * Math.cos(2 * Math.PI * this.#random()) * scale;
    });
  }
}

export function cosine(a: readonly number[], b: readonly number[]): number {
  let [dot, lengthA, lengthB] = [0, 0, 0];
  for (const [at, value] of a.entries()) {
    const other = b[at] ?? 0;
    dot += value * other;
    lengthA += value * value;
    lengthB += other * other;
  }
  return dot / Math.sqrt(lengthA * lengthB || 1);
}

/** The ids of the nearest vectors, by comparing all. */
export function nearestIds(
  rows: readonly { id: string; vector: readonly number[] }[],
  query: readonly number[],
  count: number,
): string[] {
  return rows.map(({ id, vector }) => ({ id, score: cosine(vector, query) })).sort((a, b) => b.score - a.score)
    .slice(0, count).map(({ id }) => id);
}

/** The share of `expected` that was found. */
export function recallOf(found: readonly string[], expected: readonly string[]): number {
  const ids = new Set(found);
  return expected.filter((id) => ids.has(id)).length / expected.length;
}
