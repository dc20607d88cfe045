// `Idempotency-Key`: the first response to a key is stored and replayed, and its effects happen once.

/** An HTTP response as stored for a replay. */
export type StoredResponse = { status: number; headers: Readonly<Record<string, string>>; body: string | null };

/** What a key is unique within. */
export type IdempotencyScope = { tenantId: string; principalId: string; method: string; path: string; key: string };

/**
 * Runs `work` at most once for a key. The effects of `work` and its response commit in one transaction, so neither exists without
 * the other. Responses of 500 and above are not stored, and their effects are rolled back. Throws `idempotency_in_flight` while
 * another call with the key runs, `idempotency_key_reused` when the key was used with another fingerprint. Keys expire after
 * 24 h. With `isSecret` the response is stored encrypted; `conflict` is thrown when it can no longer be decrypted. A response
 * that is too long, or exceeds the principal's total, is not stored: a replay then throws `response_not_stored`.
 */
export type RunOnce = (
  scope: IdempotencyScope,
  fingerprint: string,
  work: () => Promise<StoredResponse>,
  isSecret?: boolean,
) => Promise<{ response: StoredResponse; isReplay: boolean }>;
