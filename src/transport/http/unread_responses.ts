// Bounds the memory of long responses that nobody reads: what waits to be sent belongs to an owner, who may have only so much of it.
import { Buffer } from "node:buffer";
import { Fault } from "@/core/fault.ts";
import { LONG_BYTES, pieceStream } from "../shared/piece_stream.ts";

const MIB = 1024 * 1024;
/** Bytes of an owner that may wait. One more response may begin, whatever its length. */
const WAITING_MAX_BYTES = 32 * MIB;

export class UnreadResponses {
  /** Bytes that wait, by owner. */
  readonly #waiting = new Map<string, number>();

  /** Throws `rate_limited` if too much of the owner waits to be read. */
  assertRead(owner: string): void {
    if ((this.#waiting.get(owner) ?? 0) < WAITING_MAX_BYTES) return;
    const detail = `Responses of ${WAITING_MAX_BYTES / MIB} MiB wait to be read; read them, or close their connections`;
    throw new Fault("rate_limited", detail, { retryAfterMs: 1000 });
  }

  /**
   * What to respond with. A long body is a stream, whose length must be announced. Throws `rate_limited` for a read: many may have
   * begun before any of them had a response.
   */
  bodyOf(
    owner: string,
    content: string | Uint8Array<ArrayBuffer>,
    { isReading }: { isReading: boolean },
  ): { body: BodyInit; length?: number } {
    // No text has fewer bytes than characters.
    if (content.length < LONG_BYTES) return { body: content };
    if (isReading) this.assertRead(owner);
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    this.#add(owner, bytes.length);
    return { body: pieceStream(bytes, (taken) => this.#add(owner, -taken)), length: bytes.length };
  }

  #add(owner: string, bytes: number): void {
    const waiting = (this.#waiting.get(owner) ?? 0) + bytes;
    if (waiting > 0) this.#waiting.set(owner, waiting);
    else this.#waiting.delete(owner);
  }
}
