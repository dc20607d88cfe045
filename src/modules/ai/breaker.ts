// A breaker for each provider: one that fails again and again is left alone for a while.
import { Breakers as AnyBreakers } from "@/core/breaker.ts";
import type { ModelErrorCode } from "@/ports/model.ts";

/** Failures that say something about the provider; others are about the request or the key. */
const COUNTED: ReadonlySet<ModelErrorCode> = new Set([
  "rate_limited",
  "overloaded",
  "unreachable",
  "timed_out",
  "stream_broken",
]);

/** Breakers of this node, by the key of a provider. */
export class Breakers extends AnyBreakers {
  override fail(key: string, code?: ModelErrorCode): void {
    if (code === undefined || COUNTED.has(code)) super.fail(key);
  }
}
