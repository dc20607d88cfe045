// A bounded cache.

/** The part of the entries that is evicted at once: to find the oldest one, a map passes all that were before it since it last grew. */
const EVICTED_PART = 1 / 16;

/**
 * A map of at most `max` entries. Setting an entry makes it the most recent; beyond the maximum those set least recently are evicted,
 * of a large map several. To evict those used least recently instead, set an entry again after reading it.
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
    if (this.size > this.#max) this.#evict();
    return this;
  }

  #evict(): void {
    const left = this.#max - Math.floor(this.#max * EVICTED_PART);
    for (const key of this.keys()) {
      if (this.size <= left) break;
      this.delete(key);
    }
  }
}
