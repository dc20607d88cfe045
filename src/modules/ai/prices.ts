// What tokens cost, in millionths of the currency of prices.
import type { ModelConfig, ModelUsage } from "@/ports/model.ts";

/** The price of this usage, rounded up; `undefined` where a price is not known. */
export function priceOf(model: ModelConfig, usage: ModelUsage): number | undefined {
  const { inputPrice, cachedInputPrice = inputPrice, outputPrice = model.kind === "embedding" ? 0 : undefined } = model;
  if (inputPrice === undefined || cachedInputPrice === undefined || outputPrice === undefined) return undefined;
  const { inputTokens, cachedTokens, outputTokens } = usage;
  // A price is for a million tokens, so a token costs as many millionths.
  return Math.ceil(
    (inputTokens - cachedTokens) * inputPrice + cachedTokens * cachedInputPrice + outputTokens * outputPrice,
  );
}
