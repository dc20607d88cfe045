// Fills a budget of tokens: each section has a share, what one does not use flows on to the next, and what is left at the end is
// offered to all of them again. Deterministic, and never more than the budget.
import { estimateTokens, truncateToTokens } from "@/core/text/tokens.ts";
import type { ContextItem, SectionName } from "./schema.ts";

/** Tokens that separate a message from the next one. */
export const ITEM_TOKENS = 4;
/** The beginning of a text is of use from so many tokens on. */
const TRUNCATED_MIN = 24;
/** Instructions and tools may take so much of the budget. */
const FIXED_SHARE = 0.75;
const ELLIPSIS = "…";

/** What may become an item. */
export type Candidate = Omit<ContextItem, "section" | "tokens" | "truncated"> & {
  /** Whether the beginning of it is of use. */
  canTruncate?: boolean;
};

export type Section = {
  name: SectionName;
  /** Share of the budget that instructions and tools leave; those have none. */
  share?: number;
  /** The most wanted first. */
  candidates: readonly Candidate[];
  /** Whether a candidate is of no use without those before it. */
  isContiguous?: boolean;
  /** Sorts the items; default as wanted. */
  inOrder?: (items: readonly ContextItem[]) => readonly ContextItem[];
};

type Filling = { section: Section; chosen: Map<Candidate, ContextItem>; used: number };

export function fillBudget(
  budget: number,
  sections: readonly Section[],
): { items: ContextItem[]; usedTokens: number; omitted: Partial<Record<SectionName, number>> } {
  const fillings = sections.map((section): Filling => ({ section, chosen: new Map(), used: 0 }));
  const usedTokens = () => fillings.reduce((sum, { used }) => sum + used, 0);
  const fixed = fillings.filter(({ section }) => section.share === undefined);
  const shared = fillings.filter(({ section }) => section.share !== undefined);
  for (const filling of fixed) fill(filling, Math.floor(budget * FIXED_SHARE) - usedTokens());
  const rest = budget - usedTokens();
  let unused = 0;
  for (const filling of shared) {
    const allowance = Math.floor(rest * (filling.section.share ?? 0)) + unused;
    fill(filling, allowance);
    unused = allowance - filling.used;
  }
  for (const filling of shared) fill(filling, filling.used + budget - usedTokens());
  const omitted = fillings.flatMap(({ section: { name, candidates }, chosen }) =>
    candidates.length > chosen.size ? [[name, candidates.length - chosen.size] as const] : []
  );
  return { items: fillings.flatMap(itemsOf), usedTokens: usedTokens(), omitted: Object.fromEntries(omitted) };
}

/** Adds candidates while the section has no more than `allowance` tokens. */
function fill(filling: Filling, allowance: number): void {
  const { section, chosen } = filling;
  for (const candidate of section.candidates) {
    if (chosen.has(candidate)) continue;
    const item = fit(section.name, candidate, allowance - filling.used, chosen.size === 0);
    if (item === undefined && section.isContiguous === true) return;
    if (item === undefined) continue;
    chosen.set(candidate, item);
    filling.used += item.tokens;
  }
}

/** The item of a candidate, if it fits. Only the first of a section is truncated: others are rather left out. */
function fit(
  section: SectionName,
  { canTruncate = false, ...candidate }: Candidate,
  allowance: number,
  isFirst: boolean,
): ContextItem | undefined {
  if (allowance <= ITEM_TOKENS) return undefined;
  const tokens = estimateTokens(candidate.text) + ITEM_TOKENS;
  if (tokens <= allowance) return { section, ...candidate, tokens, truncated: false };
  if (!canTruncate || !isFirst || allowance < TRUNCATED_MIN) return undefined;
  const text = truncateToTokens(candidate.text, allowance - ITEM_TOKENS, ELLIPSIS);
  if (text === undefined) return undefined;
  return { section, ...candidate, text, tokens: estimateTokens(text) + ITEM_TOKENS, truncated: true };
}

function itemsOf({ section, chosen }: Filling): readonly ContextItem[] {
  const items = section.candidates.flatMap((candidate) => chosen.get(candidate) ?? []);
  return section.inOrder?.(items) ?? items;
}
