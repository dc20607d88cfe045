// `Idempotency-Key`: reads the header, and runs a write at most once for a key.
import { createHash } from "node:crypto";
import type { Actor } from "@/core/actor.ts";
import { Again, Fault } from "@/core/fault.ts";
import type { IdempotencyScope, RunOnce } from "@/core/idempotency.ts";
import type { Answer } from "./answer.ts";
import type { Exchange } from "./exchange.ts";
import { problemAnswer } from "./problem.ts";

const KEY = /^[\x20-\x7e]{1,255}$/;

/** The key of a request; `undefined` when it has none. */
export function idempotencyKeyOf(request: Request): string | undefined {
  const key = request.headers.get("Idempotency-Key");
  if (key === null) return undefined;
  if (!KEY.test(key)) throw new Fault("bad_request", "Idempotency-Key must be 1 to 255 printable ASCII characters");
  return key;
}

/** What `work` resolved to for this key first; what it throws is not kept. */
export async function resultOnce<Result>(
  runOnce: RunOnce,
  exchange: Exchange,
  actor: Actor,
  key: string,
  said: string,
  work: () => Promise<Result>,
): Promise<{ result: Result; isReplay: boolean }> {
  const { answer, isReplay } = await runOnce(
    scopeOf(exchange, actor, key),
    fingerprintOf(exchange, said),
    async () => ({ status: 200, headers: {}, body: JSON.stringify(await work()) }),
  );
  return { result: JSON.parse(answer.body ?? "null"), isReplay };
}

/** The first answer to this key. A refusal that passes by itself (429, 5xx) is told, not kept. */
export async function answerOnce(
  runOnce: RunOnce,
  exchange: Exchange,
  actor: Actor,
  key: string,
  body: Uint8Array,
  work: () => Promise<Answer>,
  isSecret: boolean,
): Promise<Answer> {
  // What a secret opens was bounded by the rights of whoever asked for it; to ask with others is another request.
  const rights = isSecret ? `${actor.role} ${[...actor.scopes ?? []].toSorted().join(" ")}\n` : "";
  const { answer, isReplay } = await runOnce(
    scopeOf(exchange, actor, key),
    fingerprintOf(exchange, rights, body),
    async () => {
      try {
        return await work();
      } catch (thrown) {
        if (thrown instanceof Again) throw thrown;
        const fault = Fault.from(thrown);
        if (fault.kind.retryable || fault.kind.status === 429) throw fault;
        return problemAnswer(exchange, fault);
      }
    },
    isSecret,
  );
  return isReplay ? { ...answer, headers: { ...answer.headers, "Idempotency-Replayed": "true" } } : answer;
}

/** What a key belongs to: the same one of another caller, or for something else, is another. */
function scopeOf(
  { request: { method }, path }: Exchange,
  { tenantId, principalId }: Actor,
  key: string,
): IdempotencyScope {
  return { tenantId, principalId, method, path, key };
}

/** What tells one request from another that comes with the same key. */
function fingerprintOf({ request: { method }, path, query }: Exchange, ...said: (string | Uint8Array)[]): string {
  const hash = createHash("sha256").update(`${method} ${path}?${query}\n`);
  for (const part of said) hash.update(part);
  return hash.digest("hex");
}
