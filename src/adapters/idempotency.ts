// The idempotency ledger: answers kept in the same transaction as the effects they report.
import { createHash } from "node:crypto";
import type { Kysely } from "kysely";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { IdempotencyScope, RunOnce, StoredAnswer } from "@/core/idempotency.ts";
import { type Param, prepared } from "@/ports/prepared.ts";
import type { Seal } from "@/core/seal.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables, IdempotencyRow } from "./core_tables.ts";

const KEPT_MS = 24 * 3600 * 1000;
const PURGE_ROWS = 500;
/** A longer path names nothing that there is, and may be longer than an entry of an index can be: it is kept by its digest. */
const PATH_MAX = 512;

type Deps = { store: Pick<Store<CoreTables>, "db" | "write">; clock: Clock; seal: Seal };
type Once = { answer: StoredAnswer; isReplay: boolean };

/** Thrown to undo the effects behind an answer that is not to be kept. */
class Undo extends Error {
  readonly answer: StoredAnswer;

  constructor(answer: StoredAnswer) {
    super(`Answered ${answer.status}`);
    this.answer = answer;
  }
}

export class IdempotencyLedger {
  readonly #deps: Deps;
  /** Keys whose work runs on this node; on other nodes the row they are about to insert stands in the way. */
  readonly #inFlight = new Set<string>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  readonly runOnce: RunOnce = async ({ path, ...rest }, fingerprint, work, isSecret = false) => {
    const scope = { ...rest, path: path.length > PATH_MAX ? createHash("sha256").update(path).digest("hex") : path };
    const id = idOf(scope);
    if (this.#inFlight.has(id)) {
      throw new Fault("idempotency_in_flight", "Another request with this key is running", { retryAfterMs: 1000 });
    }
    this.#inFlight.add(id);
    try {
      return await this.#replay(this.#deps.store.db, scope, fingerprint, isSecret) ??
        await this.#run(scope, fingerprint, work, isSecret);
    } finally {
      this.#inFlight.delete(id);
    }
  };

  /** Forgets answers older than 24 h; returns how many. */
  async purge(): Promise<number> {
    const before = iso(this.#deps.clock.now() - KEPT_MS);
    let purged = 0;
    while (true) {
      const gone = await this.#deps.store.write(({ db }) => purgeSome.run(db, { before, limit: PURGE_ROWS }));
      purged += gone;
      if (gone < PURGE_ROWS) return purged;
    }
  }

  async #run(
    scope: IdempotencyScope,
    fingerprint: string,
    work: () => Promise<StoredAnswer>,
    isSecret: boolean,
  ): Promise<Once> {
    try {
      return await this.#deps.store.write(async ({ db }) => {
        // The key comes first: another node that has it makes this wait until its answer is there.
        const at = iso(this.#deps.clock.now());
        if (await claimKey.run(db, { ...scope, fingerprint, at }) === 0) {
          const replay = await this.#replay(db, scope, fingerprint, isSecret);
          if (replay !== undefined) return replay;
          throw new Fault("idempotency_in_flight", "Another request with this key is running", { retryAfterMs: 1000 });
        }
        const answer = await work();
        if (answer.status >= 500) throw new Undo(answer);
        const { status, headers } = answer;
        const body = isSecret && answer.body !== null ? this.#deps.seal.seal(answer.body, idOf(scope)) : answer.body;
        await keepAnswer.run(db, { ...scope, status, headers: JSON.stringify(headers), body });
        return { answer, isReplay: false };
      });
    } catch (thrown) {
      if (thrown instanceof Undo) return { answer: thrown.answer, isReplay: false };
      throw thrown;
    }
  }

  async #replay(
    db: Kysely<CoreTables>,
    scope: IdempotencyScope,
    fingerprint: string,
    isSecret: boolean,
  ): Promise<Once | undefined> {
    const row = await answerOf.first(db, scope);
    if (row === undefined || row.status === null) return undefined;
    if (row.fingerprint !== fingerprint) {
      throw new Fault("idempotency_key_reused", "This Idempotency-Key was used with another request");
    }
    const headers = JSON.parse(row.headers ?? "{}");
    const body = isSecret && row.body !== null ? this.#deps.seal.open(row.body, idOf(scope)) : row.body;
    if (body === undefined) {
      throw new Fault(
        "conflict",
        "This Idempotency-Key has been used, but the secret in its answer can no longer be read; look for what it made, and use a new key",
      );
    }
    return { answer: { status: row.status, headers, body }, isReplay: true };
  }
}

function idOf({ tenantId, principalId, method, path, key }: IdempotencyScope): string {
  return JSON.stringify([tenantId, principalId, method, path, key]);
}

const answerOf = prepared((db: Kysely<CoreTables>, param: Param<IdempotencyScope>) =>
  db.selectFrom("idempotency").select(["fingerprint", "status", "headers", "body"])
    .where("tenant_id", "=", param("tenantId"))
    .where("principal_id", "=", param("principalId"))
    .where("method", "=", param("method"))
    .where("path", "=", param("path"))
    .where("key", "=", param("key"))
);

const claimKey = prepared((
  db: Kysely<CoreTables>,
  param: Param<IdempotencyScope & { fingerprint: string; at: string }>,
) =>
  db.insertInto("idempotency")
    .values({
      tenant_id: param("tenantId"),
      principal_id: param("principalId"),
      method: param("method"),
      path: param("path"),
      key: param("key"),
      fingerprint: param("fingerprint"),
      created_at: param("at"),
    })
    .onConflict((conflict) => conflict.doNothing())
);

const keepAnswer = prepared((
  db: Kysely<CoreTables>,
  param: Param<IdempotencyScope & { status: number; headers: string; body: string | null }>,
) =>
  db.updateTable("idempotency")
    .set({ status: param("status"), headers: param("headers"), body: param("body") })
    .where("tenant_id", "=", param("tenantId"))
    .where("principal_id", "=", param("principalId"))
    .where("method", "=", param("method"))
    .where("path", "=", param("path"))
    .where("key", "=", param("key"))
);

const KEY = ["tenant_id", "principal_id", "method", "path", "key"] as const satisfies (keyof IdempotencyRow)[];

const purgeSome = prepared((db: Kysely<CoreTables>, param: Param<{ before: string; limit: number }>) =>
  db.deleteFrom("idempotency").where((row) =>
    row(
      row.refTuple(...KEY),
      "in",
      row.selectFrom("idempotency").select(KEY).where("created_at", "<", param("before")).limit(param("limit"))
        .$asTuple(...KEY),
    )
  )
);
