// What waits to be sent to one client, bounded by the connection, and how it becomes one frame.

/** Places kept for the parts of the next frames. */
const KEPT_PARTS = 8;

/** Replies and pushes in order; each part is one or more lines. */
export class Outbox {
  // One array for all frames: in a full room, an array a frame is garbage of which V8 carries the most through its collections.
  readonly #parts: string[] = [];
  #count = 0;
  #bytes = 0;
  #pushes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Broadcast messages among what waits. */
  get pushes(): number {
    return this.#pushes;
  }

  add(text: string, bytes: number, pushes: number): void {
    this.#parts[this.#count++] = text;
    this.#bytes += bytes;
    this.#pushes += pushes;
  }

  /** Everything that waits as one frame; the box is empty afterwards. */
  take(frames: Frames): string {
    const frame = frames.of(this.#parts, this.#count);
    this.clear();
    return frame;
  }

  clear(): void {
    // An idle client holds no text.
    for (let i = 0; i < this.#count; i++) this.#parts[i] = "";
    if (this.#count > KEPT_PARTS) this.#parts.length = KEPT_PARTS;
    this.#count = 0;
    this.#bytes = 0;
    this.#pushes = 0;
  }
}

/** Joins parts to frames. Sockets of one room wait for the same parts, so the last frame is often the next one as well. */
export class Frames {
  #parts: readonly string[] = [];
  #frame = "";

  /** A frame of the first `count` parts. */
  of(parts: readonly string[], count: number): string {
    if (count === 1) return parts[0] ?? "";
    if (!this.#isLast(parts, count)) {
      this.#parts = parts.slice(0, count);
      this.#frame = this.#parts.join("\n");
    }
    return this.#frame;
  }

  /** Lets go of the last frame's memory. */
  forget(): void {
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
