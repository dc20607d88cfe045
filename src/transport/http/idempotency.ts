// `Idempotency-Key`: reads the header, and executes a write at most once per key.
import { createHash } from "node:crypto";
import type { Actor } from "@/core/actor.ts";
import { Fault, RetryTransaction } from "@/core/fault.ts";
import type { IdempotencyScope, RunOnce } from "@/core/http/idempotency.ts";
import { faultResponse, type ResponseData } from "./response.ts";
import type { RequestContext } from "./request_context.ts";

/** A request that is executed at most once. */
type KeyedRequest = { context: RequestContext; actor: Actor; key: string };

const KEY = /^[\x20-\x7e]{1,255}$/;

/** The key of a request; `undefined` if it has none. */
export function idempotencyKeyOf(request: Request): string | undefined {
  const key = request.headers.get("Idempotency-Key");
  if (key === null) return undefined;
  if (!KEY.test(key)) throw new Fault("bad_request", "Idempotency-Key must have 1 to 255 printable ASCII characters");
  return key;
}

/** The first result of `work` for this key; failures are not stored. */
export async function runOnceForKey<Result>(
  runOnce: RunOnce,
  request: KeyedRequest,
  fingerprintPart: string,
  work: () => Promise<Result>,
): Promise<{ result: Result; isReplay: boolean }> {
  const { response, isReplay } = await runOnce(
    scopeOf(request),
    fingerprintOf(request.context, fingerprintPart),
    async () => ({ status: 200, headers: {}, body: JSON.stringify(await work()) }),
  );
  return { result: JSON.parse(response.body ?? "null"), isReplay };
}

/** The first response for this key. Temporary failures (429, 5xx) are not stored. */
export async function respondOnce(
  runOnce: RunOnce,
  request: KeyedRequest,
  { body, isSecret }: { body: Uint8Array; isSecret: boolean },
  work: () => Promise<ResponseData>,
): Promise<ResponseData> {
  const { context, actor } = request;
  // A secret was created with the rights of the caller; with other rights it is a different request.
  const rights = isSecret ? `${actor.role} ${[...actor.scopes ?? []].toSorted().join(" ")}\n` : "";
  const { response, isReplay } = await runOnce(
    scopeOf(request),
    fingerprintOf(context, rights, body),
    async () => {
      try {
        return await work();
      } catch (thrown) {
        if (thrown instanceof RetryTransaction) throw thrown;
        const fault = Fault.from(thrown);
        if (fault.spec.retryable || fault.spec.status === 429) throw fault;
        return faultResponse(context, fault);
      }
    },
    isSecret,
  );
  return isReplay ? { ...response, headers: { ...response.headers, "Idempotency-Replayed": "true" } } : response;
}

/** The scope of a key: caller, method and path. */
function scopeOf({ context: { request: { method }, path }, actor, key }: KeyedRequest): IdempotencyScope {
  const { tenantId, principalId } = actor;
  return { tenantId, principalId, method, path, key };
}

/** Detects a different request with the same key. */
function fingerprintOf(
  { request: { method, headers }, path, query }: RequestContext,
  ...parts: (string | Uint8Array)[]
): string {
  const hash = createHash("sha256").update(`${method} ${path}?${query}\n`);
  // Based on another version, it is another request: the response would be about the old version.
  const ifMatch = headers.get("If-Match");
  if (ifMatch !== null) hash.update(`If-Match: ${ifMatch}\n`);
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}
