// A bounded cache.

/**
 * A map of at most `max` entries. Setting an entry makes it the most recent; beyond the maximum the least recently set one is
 * evicted. To evict the least recently used one instead, set an entry again after reading it.
 */
export class LruMap<Key, Value> extends Map<Key, Value> {
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
