// Bounds the memory of long responses that nobody reads: what waits to be sent belongs to an owner, who may have only so much of it.
import { Buffer } from "node:buffer";
import { Fault } from "@/core/fault.ts";
import { OwnerTally } from "@/core/limit/owner_tally.ts";
import { LONG_BYTES, pieceStream } from "../shared/piece_stream.ts";

const MIB = 1024 * 1024;
/**
 * Bytes that may wait: of an owner, of all owners of a tenant, and of all. One more response may begin, whatever its length. An
 * owner with none that waits is refused only at twice as much, so that a few owners that do not read take no response from others.
 */
const WAITING_MAX_MIB = { owner: 32, tenant: 128, node: 256 };

export class UnreadResponses {
  /** Bytes that wait. */
  readonly #waiting = new OwnerTally();

  /** Throws `rate_limited` if too much of the owner waits to be read, or of its tenant or the node. `owner` as of `chargedTo`. */
  assertRead(owner: string): void {
    const own = this.#waiting.ofOwner(owner);
    const { owner: ownMax, tenant: tenantMax, node: nodeMax } = WAITING_MAX_MIB;
    if (own >= ownMax * MIB) {
      const detail = `Responses of ${ownMax} MiB wait to be read; read them, or close their connections`;
      throw new Fault("rate_limited", detail, { retryAfterMs: 1000 });
    }
    const allowed = own === 0 ? 2 * MIB : MIB;
    const isTenantFull = this.#waiting.ofTenant(owner) >= tenantMax * allowed;
    if (isTenantFull || this.#waiting.total >= nodeMax * allowed) {
      const whose = isTenantFull ? "members of this tenant" : "other callers";
      throw new Fault("rate_limited", `Too many responses wait to be read by ${whose}`, { retryAfterMs: 1000 });
    }
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
    this.#waiting.add(owner, bytes.length);
    return { body: pieceStream(bytes, (taken) => this.#waiting.add(owner, -taken)), length: bytes.length };
  }
}
