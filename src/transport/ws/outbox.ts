// What waits to be sent to one client, bounded by the connection, and how it becomes one frame.

/** Replies and pushes in order; each part is one or more lines. */
export class Outbox {
  #parts: string[] = [];
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
    this.#parts.push(text);
    this.#bytes += bytes;
    this.#pushes += pushes;
  }

  /** Everything that waits; the box is empty afterwards. */
  take(): readonly string[] {
    const parts = this.#parts;
    this.#parts = [];
    this.#bytes = 0;
    this.#pushes = 0;
    return parts;
  }
}

/** Joins parts to frames. Sockets of one room wait for the same parts, so the last frame is often the next one as well. */
export class Frames {
  #parts: readonly string[] = [];
  #frame = "";

  of(parts: readonly string[]): string {
    if (parts.length === 1) return parts[0] ?? "";
    if (!this.#isLast(parts)) {
      this.#parts = parts;
      this.#frame = parts.join("\n");
    }
    return this.#frame;
  }

  /** Lets go of the last frame's memory. */
  forget(): void {
    this.#parts = [];
    this.#frame = "";
  }

  #isLast(parts: readonly string[]): boolean {
    if (parts.length !== this.#parts.length) return false;
    for (let i = 0; i < parts.length; i++) {
      if (parts[i] !== this.#parts[i]) return false;
    }
    return true;
  }
}
