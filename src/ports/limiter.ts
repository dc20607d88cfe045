// The rate limiter: one counter per key in fixed windows, shared by all nodes that share a backend.
import type { LimitState } from "@/core/fault.ts";
import type { Rate } from "@/core/operation.ts";

/** The state of the counter after the call. */
export type ConsumeResult = LimitState & { isAllowed: boolean };

export interface Limiter {
  /** Counts a call under `key`; never throws (while the backend is unavailable, this node counts alone). */
  consume(key: string, rate: Rate): Promise<ConsumeResult>;
  close(): Promise<void>;
}
