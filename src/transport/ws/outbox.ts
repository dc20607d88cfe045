// Messages waiting to be sent to one client, and how they are joined to one frame. The connection bounds them.

/** Array slots retained for the parts of the next frames. */
const RETAINED_PARTS = 8;

/** Replies and pushes in order; each part is one or more lines. */
export class Outbox {
  // One array is reused for all frames: in a large room, one per frame costs much garbage collection.
  readonly #parts: string[] = [];
  #count = 0;
  #bytes = 0;
  #pushes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Number of broadcast messages waiting. */
  get pushes(): number {
    return this.#pushes;
  }

  add(text: string, bytes: number, pushes: number): void {
    this.#parts[this.#count++] = text;
    this.#bytes += bytes;
    this.#pushes += pushes;
  }

  /** Removes everything and returns it as one frame. */
  drain(frames: FrameCache): string {
    const frame = frames.join(this.#parts, this.#count);
    this.clear();
    return frame;
  }

  clear(): void {
    // An idle client retains no text.
    for (let i = 0; i < this.#count; i++) this.#parts[i] = "";
    if (this.#count > RETAINED_PARTS) this.#parts.length = RETAINED_PARTS;
    this.#count = 0;
    this.#bytes = 0;
    this.#pushes = 0;
  }
}

/** Joins parts to frames and caches the last one: sockets of a room send the same parts. */
export class FrameCache {
  #parts: readonly string[] = [];
  #frame = "";

  /** A frame of the first `count` parts. */
  join(parts: readonly string[], count: number): string {
    if (count === 1) return parts[0] ?? "";
    if (!this.#isLast(parts, count)) {
      this.#parts = parts.slice(0, count);
      this.#frame = this.#parts.join("\n");
    }
    return this.#frame;
  }

  /** Releases the memory of the last frame. */
  clear(): void {
    this.#parts = [];
    this.#frame = "";
  }

  #isLast(parts: readonly string[], count: number): boolean {
    if (count !== this.#parts.length) return false;
    for (let i = 0; i < count; i++) {
      if (parts[i] !== this.#parts[i]) return false;
    }
    return true;
  }
}
