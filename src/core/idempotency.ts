// `Idempotency-Key`: the first answer to a key is kept and given again, and its effect happens once.

/** An HTTP answer as kept for a replay. */
export type StoredAnswer = { status: number; headers: Readonly<Record<string, string>>; body: string | null };

/** What a key is unique within. */
export type IdempotencyScope = { tenantId: string; principalId: string; method: string; path: string; key: string };

/**
 * Runs `work` at most once for a key. The effects of `work` and its answer commit in one transaction, so there is no
 * moment at which one exists without the other. Answers of 500 and above are not kept and their effects are undone.
 * Throws `idempotency_in_flight` while another call with the key runs, `idempotency_key_reused` when the key was
 * used with another fingerprint. Keys are forgotten after 24 h. With `isSecret` the answer is kept encrypted; `conflict`
 * is thrown when it cannot be read any more.
 */
export type RunOnce = (
  scope: IdempotencyScope,
  fingerprint: string,
  work: () => Promise<StoredAnswer>,
  isSecret?: boolean,
) => Promise<{ answer: StoredAnswer; isReplay: boolean }>;
