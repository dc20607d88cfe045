// The rate limiter: one bucket per key, shared by all nodes that share a backend.
import type { LimitState } from "@/core/fault.ts";
import type { Rate } from "@/core/operation.ts";

/** What a bucket says after it was asked. */
export type Take = LimitState & { isAllowed: boolean };

export interface Limiter {
  /** Takes a token from the bucket of `key`; never throws (a backend that is away counts on this node alone). */
  take(key: string, rate: Rate): Promise<Take>;
  close(): Promise<void>;
}
