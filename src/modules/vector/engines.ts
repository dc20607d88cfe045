// The engine of each space: where its vectors are stored, whatever new spaces use.
import type { AnyTransaction } from "@/ports/store.ts";
import type { VectorEngines, VectorRef, Vectors, VectorSpace } from "@/ports/vectors.ts";
import type { SpaceRow } from "./space_store.ts";

export class Engines {
  readonly #engines: VectorEngines;

  constructor(engines: VectorEngines) {
    this.#engines = engines;
  }

  /** The engine of new spaces. */
  get preferred(): Vectors {
    return this.#engines[0];
  }

  /** Absent if the database has lost the extension that the space was built with. */
  of({ engine }: Pick<SpaceRow, "engine">): Vectors | undefined {
    return this.#engines.find((known) => known.engine === engine);
  }

  async remove(tx: AnyTransaction, space: SpaceRow, refs: readonly VectorRef[]): Promise<void> {
    await this.of(space)?.remove(tx, vectorSpaceOf(space), refs);
  }

  reset(): void {
    for (const engine of this.#engines) engine.reset();
  }
}

/** A space as an engine knows it. */
export function vectorSpaceOf({ tenant_id: tenantId, id, dimensions }: SpaceRow): VectorSpace {
  return { tenantId, id, dimensions: dimensions ?? 0 };
}
