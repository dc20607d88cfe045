// A cache that cannot grow without end.

/**
 * A map of at most so many entries. To set one makes it the most recent; beyond the maximum the least recently set goes.
 * Whoever wants the least recently used to go sets again what it got.
 */
export class RecentMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#max) {
      const oldest = this.keys().next();
      if (!oldest.done) this.delete(oldest.value);
    }
    return this;
  }
}
