// Frames of a socket that wait: for the caller's share of the CPU, as its calls do, and for its turn. They are handled in order.
import type { CpuAccount } from "@/core/limit/cpu_budget.ts";
import { OwnerTally } from "@/core/limit/owner_tally.ts";

const MIB = 1024 * 1024;
/** What may wait: of an owner, of all owners of a tenant, and on the node. An editor syncs again what is discarded. */
const WAITING_MAX_MIB = { owner: 8, tenant: 32, node: 128 };
/** Longest wait of the first frame of a socket, which must authenticate in time. */
export const OPEN_WAIT_MS = 2000;
/** What a frame counts in addition to its length. */
const FRAME_OVERHEAD_BYTES = 256;

/** Bytes of the frames that wait, of all sockets. */
export class WaitingFrames {
  readonly #bytes = new OwnerTally();

  hasRoom(owner: string): boolean {
    return this.#bytes.ofOwner(owner) < WAITING_MAX_MIB.owner * MIB &&
      this.#bytes.ofTenant(owner) < WAITING_MAX_MIB.tenant * MIB && this.#bytes.total < WAITING_MAX_MIB.node * MIB;
  }

  add(owner: string, { length }: Uint8Array, sign: 1 | -1 = 1): void {
    this.#bytes.add(owner, sign * (length + FRAME_OVERHEAD_BYTES));
  }
}

type FrameQueueHost = {
  waiting: WaitingFrames;
  handle: (frame: Uint8Array) => void;
  /** Too many frames wait. */
  onFull: () => void;
  /** No frame waits. */
  onEmpty: () => void;
};

export class FrameQueue {
  readonly #host: FrameQueueHost;
  #frames: { bytes: Uint8Array; owner: string }[] = [];

  constructor(host: FrameQueueHost) {
    this.#host = host;
  }

  get isEmpty(): boolean {
    return this.#frames.length === 0;
  }

  /** Handles a frame, at once if its account has time. A socket without an account has sent little. */
  add(bytes: Uint8Array, account: CpuAccount | undefined): void {
    const turn = this.isEmpty ? account && takeTurn(account) : undefined;
    if (account === undefined || this.isEmpty && turn === undefined) return this.#host.handle(bytes);
    const { waiting, onFull } = this.#host;
    const owner = account.key;
    if (!waiting.hasRoom(owner)) {
      turn?.catch(() => {});
      return onFull();
    }
    waiting.add(owner, bytes);
    this.#frames.push({ bytes, owner });
    if (turn !== undefined) void this.#handleAll(account, turn);
  }

  clear(): void {
    for (const { bytes, owner } of this.#frames) this.#host.waiting.add(owner, bytes, -1);
    this.#frames = [];
  }

  async #handleAll(account: CpuAccount, first: Promise<void>): Promise<void> {
    const { waiting, handle, onFull, onEmpty } = this.#host;
    try {
      for (let turn: Promise<void> | undefined = first; !this.isEmpty; turn = takeTurn(account)) {
        if (turn !== undefined) await turn;
        const next = this.#frames[0];
        if (next === undefined) break;
        handle(next.bytes);
        // It is empty if that closed the socket.
        if (this.#frames.shift() !== undefined) waiting.add(next.owner, next.bytes, -1);
      }
    } catch {
      // Too much of the account waits.
      onFull();
    }
    onEmpty();
  }
}

/** Until an account has time and may use the thread; `undefined` if it may at once. It waits for its share no longer than that. */
export function takeTurn(account: CpuAccount, maxWaitMs?: number): Promise<void> | undefined {
  return account.waitMs > 0 ? account.waitForSlice(maxWaitMs) : account.takeTurn();
}
