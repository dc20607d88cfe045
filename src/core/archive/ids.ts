// Which ids resources of an archive have here, and which are free for those that are not here yet.

/** A resource of an archive by the ids it may have here: its own if that is free, else one derived from its source. */
export type Ref = { original: string | null; fallback: string };
/** The reference to a resource that may keep the id that it has in the archive. */
export type OriginalRef = Ref & { original: string };

/** The ids that a resource may have here, its own first. */
export function candidateIds({ original, fallback }: Ref): string[] {
  return original === null ? [fallback] : [original, fallback];
}

/** The ids that resources have here, by those in the archive; those that do not exist are missing. */
export function mapExisting(refs: readonly OriginalRef[], exists: (id: string) => boolean): Map<string, string> {
  return new Map(refs.flatMap((ref) => {
    const id = candidateIds(ref).find(exists);
    return id === undefined ? [] : [[ref.original, id]];
  }));
}

/** The ids that resources of an archive have here: those that exist, and those that are free for others. */
export class LocalIds {
  readonly #existing: Set<string>;
  readonly #taken: ReadonlySet<string>;

  /** Other tenants have the ids that are `taken`. */
  constructor(existing: Iterable<string>, taken: ReadonlySet<string>) {
    this.#existing = new Set(existing);
    this.#taken = taken;
  }

  /** The id of a resource that exists. */
  find(ref: Ref): string | undefined {
    return candidateIds(ref).find((id) => this.#existing.has(id));
  }

  /** The id that a resource has, or would get. */
  of(ref: OriginalRef): string {
    return this.find(ref) ?? (this.#taken.has(ref.original) ? ref.fallback : ref.original);
  }

  /** Allocates an id for a resource; `undefined` if it exists. */
  allocate(ref: OriginalRef): string | undefined {
    if (this.find(ref) !== undefined) return undefined;
    const id = this.of(ref);
    this.#existing.add(id);
    return id;
  }
}

/**
 * Allocates an id for a part of `containerId`, where `containers` has the container of each existing part; `undefined` if it
 * exists, or no id is free for it.
 */
export function allocatePartId(
  ref: OriginalRef,
  containerId: string,
  containers: Map<string, string>,
  taken: ReadonlySet<string>,
): string | undefined {
  // Its own id may be free by now even if it was not when the part was imported.
  if (candidateIds(ref).some((id) => containers.get(id) === containerId)) return undefined;
  const id = containers.has(ref.original) || taken.has(ref.original) ? ref.fallback : ref.original;
  if (containers.has(id) || taken.has(id)) return undefined;
  containers.set(id, containerId);
  return id;
}
