// The idempotency store: responses are stored in the same transaction as the effects that they report.
import type { Kysely } from "kysely";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { currentAccount } from "@/core/caller.ts";
import { Fault } from "@/core/fault.ts";
import type { IdempotencyScope, RunOnce, StoredResponse } from "@/core/http/idempotency.ts";
import { type Param, prepared } from "@/ports/sql/prepared.ts";
import { LruMap } from "@/core/lru_map.ts";
import { type Encryptor, hashText } from "@/core/crypto.ts";
import type { Store } from "@/ports/store.ts";
import type { CoreTables, IdempotencyRow } from "./core_tables.ts";

const RETENTION_MS = DAY_MS;
const PURGE_ROWS = 500;
const NO_CONTENT = 204;
/** A response no longer than this is always stored: its row is hardly smaller without it. */
const ALWAYS_STORED_CHARS = 1024;
/** A longer path matches no resource, and may exceed the size of an index entry: its digest is stored instead. */
const PATH_MAX = 512;

const OWNERS_MAX = 10_000;

/** Characters of stored responses. */
export type StoredResponseLimits = {
  /** In one response. */
  responseMaxChars: number;
  /** For one principal and its agents, per day on this node. */
  ownerMaxChars: number;
};

type Deps = {
  store: Pick<Store<CoreTables>, "db" | "write" | "enclose">;
  clock: Clock;
  encryptor: Encryptor;
  limits: StoredResponseLimits;
};
type OnceResult = { response: StoredResponse; isReplay: boolean };

/** Thrown to roll back the effects of a response that is not stored. */
class DiscardResult extends Error {
  readonly response: StoredResponse;

  constructor(response: StoredResponse) {
    super(`Responded with status ${response.status}`);
    this.response = response;
  }
}

export class IdempotencyStore {
  readonly #deps: Deps;
  /** Keys whose work runs on this node; other nodes conflict with the uncommitted row. */
  readonly #inFlight = new Set<string>();
  /** Size of stored responses by principal, and since when it is counted. */
  readonly #storedByOwner = new LruMap<string, { size: number; since: number }>(OWNERS_MAX);

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  readonly runOnce: RunOnce = async ({ path, ...rest }, fingerprint, work, isSecret = false) => {
    const scope = { ...rest, path: path.length > PATH_MAX ? hashText(path) : path };
    const id = idOf(scope);
    if (this.#inFlight.has(id)) {
      throw new Fault("idempotency_in_flight", "A request with this Idempotency-Key is in progress", {
        retryAfterMs: 1000,
      });
    }
    this.#inFlight.add(id);
    try {
      return await this.#replay(this.#deps.store.db, scope, fingerprint, isSecret) ??
        await this.#run(scope, fingerprint, work, isSecret);
    } finally {
      this.#inFlight.delete(id);
    }
  };

  /** Deletes responses older than 24 h; returns how many. */
  async purge(): Promise<number> {
    const before = iso(this.#deps.clock.now() - RETENTION_MS);
    let purged = 0;
    while (true) {
      const deleted = await this.#deps.store.write(({ db }) => purgeExpired.run(db, { before, limit: PURGE_ROWS }));
      purged += deleted;
      if (deleted < PURGE_ROWS) return purged;
    }
  }

  async #run(
    scope: IdempotencyScope,
    fingerprint: string,
    work: () => Promise<StoredResponse>,
    isSecret: boolean,
  ): Promise<OnceResult> {
    try {
      return await this.#deps.store.enclose(async ({ db }) => {
        // The key is inserted first: if another node has it, this waits for that node's commit.
        const at = iso(this.#deps.clock.now());
        if (await insertKey.run(db, { ...scope, fingerprint, at }) === 0) {
          const replay = await this.#replay(db, scope, fingerprint, isSecret);
          if (replay !== undefined) return replay;
          throw new Fault("idempotency_in_flight", "A request with this Idempotency-Key is in progress", {
            retryAfterMs: 1000,
          });
        }
        const response = await work();
        if (response.status >= 500) throw new DiscardResult(response);
        const { status, headers } = response;
        const text = this.#mayStore(scope, response.body?.length ?? 0) ? response.body : null;
        const body = isSecret && text !== null ? this.#deps.encryptor.encrypt(text, idOf(scope)) : text;
        await storeResponse.run(db, { ...scope, status, headers: JSON.stringify(headers), body });
        return { response, isReplay: false };
      });
    } catch (thrown) {
      if (thrown instanceof DiscardResult) return { response: thrown.response, isReplay: false };
      throw thrown;
    }
  }

  /** Whether a response is stored; if so, its size is counted for the principal. That the key was used is stored in any case. */
  #mayStore({ tenantId, principalId }: IdempotencyScope, size: number): boolean {
    const { clock, limits } = this.#deps;
    const owner = currentAccount()?.key ?? `${tenantId}/${principalId}`;
    const now = clock.now();
    let stored = this.#storedByOwner.get(owner);
    if (stored === undefined || now - stored.since > RETENTION_MS) stored = { size: 0, since: now };
    const isTooMuch = size > limits.responseMaxChars || stored.size + size > limits.ownerMaxChars;
    if (isTooMuch && size > ALWAYS_STORED_CHARS) return false;
    this.#storedByOwner.set(owner, { size: stored.size + size, since: stored.since });
    return true;
  }

  async #replay(
    db: Kysely<CoreTables>,
    scope: IdempotencyScope,
    fingerprint: string,
    isSecret: boolean,
  ): Promise<OnceResult | undefined> {
    const row = await findResponse.first(db, scope);
    if (row === undefined || row.status === null) return undefined;
    if (row.fingerprint !== fingerprint) {
      throw new Fault("idempotency_key_reused", "This Idempotency-Key was used with a different request");
    }
    const headers = JSON.parse(row.headers ?? "{}");
    if (row.body === null && row.status !== NO_CONTENT) {
      const location = headers["Location"] ?? "the resource it changed";
      throw new Fault(
        "response_not_stored",
        `The request with this Idempotency-Key succeeded with status ${row.status}, but its response is too large ` +
          `to store; read ${location}`,
      );
    }
    const body = isSecret && row.body !== null ? this.#deps.encryptor.decrypt(row.body, idOf(scope)) : row.body;
    if (body === undefined) {
      throw new Fault(
        "conflict",
        "This Idempotency-Key was used, but the secret in the stored response can no longer be decrypted; read " +
          "the resource it created and use a new key",
      );
    }
    return { response: { status: row.status, headers, body }, isReplay: true };
  }
}

function idOf({ tenantId, principalId, method, path, key }: IdempotencyScope): string {
  return JSON.stringify([tenantId, principalId, method, path, key]);
}

const findResponse = prepared((db: Kysely<CoreTables>, param: Param<IdempotencyScope>) =>
  db.selectFrom("idempotency").select(["fingerprint", "status", "headers", "body"])
    .where("tenant_id", "=", param("tenantId"))
    .where("principal_id", "=", param("principalId"))
    .where("method", "=", param("method"))
    .where("path", "=", param("path"))
    .where("key", "=", param("key"))
);

const insertKey = prepared((
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

const storeResponse = prepared((
  db: Kysely<CoreTables>,
  param: Param<IdempotencyScope & { status: number; headers: string; body: string | null }>,
) =>
  db.updateTable("idempotency").set({ status: param("status"), headers: param("headers"), body: param("body") })
    .where("tenant_id", "=", param("tenantId"))
    .where("principal_id", "=", param("principalId"))
    .where("method", "=", param("method"))
    .where("path", "=", param("path"))
    .where("key", "=", param("key"))
);

const KEY = ["tenant_id", "principal_id", "method", "path", "key"] as const satisfies (keyof IdempotencyRow)[];

const purgeExpired = prepared((db: Kysely<CoreTables>, param: Param<{ before: string; limit: number }>) =>
  db.deleteFrom("idempotency").where((row) =>
    row(
      row.refTuple(...KEY),
      "in",
      row.selectFrom("idempotency").select(KEY).where("created_at", "<", param("before")).limit(param("limit"))
        .$asTuple(...KEY),
    )
  )
);
