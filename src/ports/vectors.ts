// Vectors of resources, searched by similarity.
//
// - A space has the vectors of one embedding model for one tenant; they all have its dimensions. Vectors of two spaces are never
//   compared. Similarity is the cosine: length does not matter.
// - A vector is in one scope, such as a room. A search names the scopes that its caller may read now, and finds nothing in any
//   other: permission is the filter, not a check afterwards. A resource with several texts has several vectors.
// - `put` and `remove` are part of the given transaction. A search sees what was committed before it began, on every node.
// - A search returns each resource once, with its best vector, in descending order. It may miss a few of the best (recall is .95 or
//   better), but never returns fewer than it could.
// - Memory is bounded by the settings, whatever is stored. What takes the thread yields, and is charged to the caller.
import type { Migration } from "@/core/migration.ts";
import type { AnyTransaction } from "./store.ts";

export type VectorSpace = { tenantId: string; id: string; dimensions: number };

export type VectorRef = { kind: string; id: string };

export type VectorRow = VectorRef & { scope: string; vector: readonly number[] };

export type VectorQuery = {
  vector: readonly number[];
  scopes: readonly string[];
  kinds: readonly string[];
  /** Maximum number of resources. */
  limit: number;
};

/** A resource and its similarity, from -1 to 1. */
export type VectorHit = VectorRef & { score: number };

export interface Vectors {
  /** The name under which a space remembers where its vectors are. */
  readonly engine: string;
  /** Most dimensions of a space. */
  readonly dimensionsMax: number;
  /** Creates its tables, if the store's engine has no condition for them. */
  readonly migrations: readonly Migration[];
  /** Adds vectors; those of the same resources must have been removed. */
  put(tx: AnyTransaction, space: VectorSpace, rows: readonly VectorRow[]): Promise<void>;
  /** Removes all vectors of resources; those without are ignored. */
  remove(tx: AnyTransaction, space: VectorSpace, refs: readonly VectorRef[]): Promise<void>;
  search(space: VectorSpace, query: VectorQuery): Promise<VectorHit[]>;
  /** The number of vectors of a space. */
  count(space: VectorSpace): Promise<number>;
  /** Prepares a space for searches among very many vectors; repeated hourly. */
  optimize(space: VectorSpace): Promise<void>;
  /** Removes some vectors of a space; resolves to whether there may be more. */
  clear(space: VectorSpace): Promise<boolean>;
  /** Forgets what is in memory: another database server took over. */
  reset(): void;
}

/** The engines of a gateway: new spaces use the first one, others are where they were built. */
export type VectorEngines = readonly [Vectors, ...Vectors[]];
