// Vectors compared by the gateway: time, recall and memory of the nearest ten of 100,000, beside a loop over float32 and the budget.
import { openStore } from "@/adapters/open.ts";
import { ScanVectors } from "@/adapters/vectors/scan.ts";
import { systemClock } from "@/core/time/clock.ts";
import type { VectorSpace } from "@/ports/vectors.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { ClusteredVectors, recallOf } from "../vector_data.ts";
import { median, type Row } from "./report.ts";

const COUNT = 100_000;
const DIMENSIONS = 384;
const ROOMS = 200;
const QUERIES = 40;
const LIMIT = 10;
const MEMORY_BYTES = 64 * 2 ** 20;
const BUDGET = { ms: 10, recall: 0.95, mib: MEMORY_BYTES / 2 ** 20 };
const SPACE: VectorSpace = { tenantId: "bench", id: "space", dimensions: DIMENSIONS };
const BATCH = 1000;

type Query = { vector: number[]; scopes: string[]; nearest: string[]; loopMs: number };

export async function vectors(): Promise<Row[]> {
  await using folder = await createTemporaryFolder();
  const store = await openStore(`sqlite:${folder.path}/db`, systemClock);
  const exact = new ScanVectors(store, { memoryBytes: MEMORY_BYTES });
  await store.migrate([{ name: "vector", migrations: exact.migrations }]);
  const data = new ClusteredVectors(DIMENSIONS, { clusters: 1000 });
  const all = new Float32Array(COUNT * DIMENSIONS);
  for (let from = 0; from < COUNT; from += BATCH) {
    const rows = Array.from({ length: BATCH }, (_, at) => {
      const vector = data.next();
      const length = Math.hypot(...vector);
      all.set(vector.map((value) => value / length), (from + at) * DIMENSIONS);
      return { scope: `room:${(from + at) % ROOMS}`, kind: "message", id: String(from + at), vector };
    });
    await store.write((tx) => exact.put(tx, SPACE, rows));
  }
  const queries = Array.from({ length: QUERIES }, () => compareAll(all, data.next(), ROOMS));
  const few = queries.map(({ vector }) => compareAll(all, vector, 3));
  const scan = await measure(exact, queries);
  const inRooms = await measure(exact, few);
  const bits = await measure(new ScanVectors(store, { memoryBytes: MEMORY_BYTES, exactMax: COUNT / 2 }), queries);
  const cachedMib = exact.cachedBytes / 2 ** 20;
  await store.close();
  const loop = queries.map(({ loopMs }) => loopMs);
  const size = `${COUNT} × ${DIMENSIONS}`;
  const time = (what: string, took: readonly number[], peer: string, theirs: number[]): Row => ({
    what,
    unit: "ms",
    peer,
    ours: [median(took)],
    theirs,
    isLowerBetter: true,
    goal: 1,
  });
  const recall = (what: string, ours: number): Row => ({
    what,
    unit: "",
    peer: "budget",
    ours: [ours],
    theirs: [BUDGET.recall],
    goal: 1,
  });
  return [
    time(`Top ${LIMIT} of ${size} vectors, p50`, scan.took, "budget", [BUDGET.ms]),
    time("The same beside a loop", scan.took, "float32 in JavaScript", [median(loop)]),
    recall("Its recall", scan.recall),
    time(`Top ${LIMIT} in 3 of ${ROOMS} rooms, p50`, inRooms.took, "budget", [BUDGET.ms]),
    recall("Its recall", inRooms.recall),
    time(`Top ${LIMIT} of ${size} by bits first, p50`, bits.took, "budget", [BUDGET.ms]),
    recall("Its recall", bits.recall),
    {
      what: `Memory of ${size} vectors`,
      unit: "MiB",
      peer: "budget",
      ours: [cachedMib],
      theirs: [BUDGET.mib],
      isLowerBetter: true,
      goal: 1,
    },
  ];
}

/** The true nearest in the first `rooms` rooms, and how long a plain loop takes to find them. */
function compareAll(all: Float32Array, vector: number[], rooms: number): Query {
  const startedAt = performance.now();
  const scores: { id: number; score: number }[] = [];
  for (let row = 0; row < COUNT; row++) {
    if (row % ROOMS >= rooms) continue;
    let score = 0;
    const at = row * DIMENSIONS;
    for (let lane = 0; lane < DIMENSIONS; lane++) score += (all[at + lane] ?? 0) * (vector[lane] ?? 0);
    scores.push({ id: row, score });
  }
  const loopMs = performance.now() - startedAt;
  const nearest = scores.sort((a, b) => b.score - a.score).slice(0, LIMIT).map(({ id }) => String(id));
  return { vector, scopes: Array.from({ length: rooms }, (_, at) => `room:${at}`), nearest, loopMs };
}

async function measure(vectors: ScanVectors, queries: readonly Query[]): Promise<{ took: number[]; recall: number }> {
  const took: number[] = [];
  let recall = 0;
  const search = ({ vector, scopes }: Query) =>
    vectors.search(SPACE, { vector, scopes, kinds: ["message"], limit: LIMIT });
  // The first one reads the rooms.
  for (const query of queries.slice(0, 3)) await search(query);
  for (const query of queries) {
    const startedAt = performance.now();
    const hits = await search(query);
    took.push(performance.now() - startedAt);
    recall += recallOf(hits.map(({ id }) => id), query.nearest) / queries.length;
  }
  return { took, recall };
}
