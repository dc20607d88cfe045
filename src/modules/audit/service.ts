// The audit log: who did what administers the tenant, or changes what others may do. A call and its entry commit together.
import type { Actor } from "@/core/actor.ts";
import { collectInSlices } from "@/core/caller.ts";
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import type { Holds } from "@/core/hold.ts";
import { newId } from "@/core/id.ts";
import { logOf } from "@/core/log.ts";
import { type Client, isReadOnly, Outcome, type RecordedCall } from "@/core/operation.ts";
import { type Cursors, type Page, paginate } from "@/core/page.ts";
import { truncateText } from "@/core/text/text.ts";
import type { RetentionService } from "@/modules/tenant/mod.ts";
import { lastIdOfSlice } from "@/ports/sql/filters.ts";
import type { AnyDatabase, AnyTransaction, Store } from "@/ports/store.ts";
import { type AuditChain, CUT_AT_ONCE, headOf, type NewEntry } from "./chain.ts";
import type { AuditEntry, AuditList, AuditVerification } from "./schema.ts";
import { type AuditRow, AuditStore, type AuditTables } from "./store.ts";

type Deps = {
  store: Store<AuditTables>;
  clock: Clock;
  cursors: Cursors;
  chain: AuditChain;
  holds: Holds;
  retention: RetentionService;
  /** For tenants that have not set any. */
  days: number;
};

/** Fields whose texts say what somebody may do, or where; others may be confidential. */
const PLAIN_FIELDS: ReadonlySet<string> = new Set([
  ...["role", "scopes", "visibility", "state", "kind", "decision", "ownerId", "principalId", "agentId", "roomId"],
  ...["actorId", "operation", "resourceId", "from", "to"],
]);
const FIELDS_MAX = 50;
const VALUE_MAX_CHARS = 200;
const EXPORTED_AT_ONCE = 100;
const PATH_PARAMETER = /:(\w+)/g;
/** The caller itself, where a principal is named. */
const ME = "me";

const log = logOf("audit");

export class AuditLog {
  readonly #deps: Deps;
  /** Heads of the last day, by tenant. */
  #published: ReadonlyMap<string, string> = new Map();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Runs a call and adds its entry; of one that reads or calls out afterwards, so that no transaction waits for it. */
  async record(call: RecordedCall, run: () => Promise<unknown>): Promise<unknown> {
    const { store } = this.#deps;
    if (call.operation.callsOut === true || isReadOnly(call.operation)) {
      const result = await run();
      await store.write((tx) => this.#add(tx, call, result));
      return result;
    }
    return await store.enclose(async (tx) => {
      const result = await run();
      await this.#add(tx, call, result);
      return result;
    });
  }

  /** What is no operation: the start of a session, or a download. */
  recordOther(tx: AnyTransaction, { tenantId, principalId, ownerId, ...of }: OtherCall): Promise<void> {
    return this.#append(tx, {
      tenant_id: tenantId,
      actor_id: principalId,
      owner_id: ownerId ?? null,
      token_id: of.tokenId ?? null,
      operation: of.operation,
      via: "http",
      request_id: of.requestId ?? null,
      client: of.client,
    });
  }

  async list(actor: Actor, { limit, cursor, ...filter }: AuditList): Promise<Page<AuditEntry>> {
    const { store, cursors } = this.#deps;
    const bind = ["audit.list", actor.tenantId, filter];
    const before = cursors.decodeId(cursor, bind);
    const rows = await findInPieces(store.db, actor.tenantId, filter, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  verify({ tenantId }: Actor, head: string | undefined): Promise<AuditVerification> {
    return this.#deps.chain.verify(tenantId, head);
  }

  /** All entries of a tenant that exist now, the oldest first. */
  async *readAll({ tenantId }: Actor): AsyncGenerator<readonly AuditEntry[]> {
    const entries = new AuditStore(this.#deps.store.db);
    const end = (await entries.head(tenantId))?.seq ?? 0;
    const pages = paginate(
      EXPORTED_AT_ONCE,
      (last: AuditRow | undefined) => entries.after(tenantId, last?.seq ?? 0, EXPORTED_AT_ONCE),
    );
    for await (const rows of pages) {
      yield rows.filter(({ seq }) => seq <= end).map(present);
      if ((rows.at(-1)?.seq ?? end) >= end) return;
    }
  }

  /** Deletes what is older than the days of retention, of tenants that are not under legal hold. */
  async purge(): Promise<void> {
    const { store, clock, chain, holds, retention, days } = this.#deps;
    const own = await retention.daysByTenant("audit");
    for (const { id, at } of await new AuditStore(store.db).oldestOfTenants()) {
      const before = iso(clock.now() - Math.min(days, own.get(id) ?? days) * DAY_MS);
      if (at >= before || await holds.isHeld(store.db, id)) continue;
      let cut: number;
      do {
        cut = await chain.cut(id, before);
        retention.recordDeleted("audit", id, cut);
      } while (cut === CUT_AT_ONCE);
    }
  }

  /** Logs the heads of chains that grew, so that what is removed from their ends later is missed. */
  async publishHeads(): Promise<void> {
    const { store, clock } = this.#deps;
    const rows = await new AuditStore(store.db).headsSince(iso(clock.now() - DAY_MS));
    const heads = new Map(rows.map((row) => [row.tenant_id, headOf(row)]));
    for (const [tenant, head] of heads) {
      if (this.#published.get(tenant) !== head) log.info("head of the audit log", { tenant, head });
    }
    this.#published = heads;
  }

  /** How many entries there ever were, of all tenants: a number that never falls. */
  count(): Promise<number> {
    return new AuditStore(this.#deps.store.db).count();
  }

  async #add(
    tx: AnyTransaction,
    { actor, operation, input, requestId, via, client }: RecordedCall,
    result: unknown,
  ): Promise<void> {
    const given = input as Record<string, unknown>;
    const inPath = [...operation.http.path.matchAll(PATH_PARAMETER)].map(([, name = ""]) => name);
    const named = given[inPath.at(-1) ?? ""];
    const created = (result instanceof Outcome ? result.output : result) as { id?: unknown } | null | undefined;
    const resource = named === ME ? actor.principalId : named ?? created?.id;
    await this.#append(tx, {
      tenant_id: actor.tenantId,
      actor_id: actor.principalId,
      owner_id: actor.ownerId,
      token_id: actor.tokenId ?? null,
      operation: operation.name,
      via,
      request_id: requestId,
      resource_id: typeof resource === "string" ? resource : null,
      changes_json: JSON.stringify(changesOf(given, inPath)),
      client,
    });
  }

  async #append(tx: AnyTransaction, { client, ...entry }: Partial<NewEntry> & Recorded): Promise<void> {
    await this.#deps.chain.append(tx, {
      ...{ id: newId("aud"), at: iso(this.#deps.clock.now()) },
      ...{ owner_id: null, token_id: null, request_id: null, resource_id: null, changes_json: "{}" },
      ...{ ip: client?.ip ?? null, user_agent: client?.userAgent ?? null },
      ...entry,
    });
  }
}

/**
 * The newest entries before this id that fit. Others are served between pieces of the log where no index leads to what fits, which
 * may be none.
 */
async function findInPieces(
  db: AnyDatabase,
  tenantId: string,
  { operation, ...filter }: Omit<AuditList, "limit" | "cursor">,
  before: string | undefined,
  limit: number,
): Promise<AuditRow[]> {
  const entries = new AuditStore(db);
  const operations = operation === undefined ? undefined : await entries.operations(tenantId, operation);
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if (operations !== undefined && !isFiltered) {
    const rows = [];
    for (const one of operations) rows.push(...await entries.list(tenantId, { operations: [one] }, { before }, limit));
    return rows.sort((a, b) => a.id < b.id ? 1 : -1).slice(0, limit);
  }
  if ((operations ?? filter.from ?? filter.to) === undefined) {
    return await entries.list(tenantId, filter, { before }, limit);
  }
  return await collectInSlices(before, limit, async (until, left) => {
    const next = await lastIdOfSlice(db, "audit_entry", tenantId, until, "desc");
    const range = { before: until, since: next };
    return { rows: await entries.list(tenantId, { ...filter, operations }, range, left), next };
  });
}

/** What every entry has; what it is not about may be absent. */
type Recorded = Pick<NewEntry, "tenant_id" | "actor_id" | "operation" | "via"> & { client: Client | undefined };
/** A call that is no operation, or the start of a session, which has no request. */
type OtherCall =
  & { operation: string; client: Client | undefined; requestId?: string }
  & Pick<Actor, "tenantId" | "principalId">
  & Partial<Pick<Actor, "ownerId" | "tokenId">>;

function changesOf(given: Record<string, unknown>, inPath: readonly string[]): AuditEntry["changes"] {
  const fields = Object.entries(given).filter(([, value]) => value !== undefined).slice(0, FIELDS_MAX);
  return Object.fromEntries(fields.map(([name, value]) => {
    if (typeof value === "number" || typeof value === "boolean") return [name, String(value)];
    const texts = [value].flat();
    const isPlain = (PLAIN_FIELDS.has(name) || inPath.includes(name)) &&
      texts.every((text) => typeof text === "string");
    return [name, isPlain ? truncateText(texts.join(" "), VALUE_MAX_CHARS) : null];
  }));
}

function present(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    seq: row.seq,
    hash: row.hash,
    at: row.at,
    actorId: row.actor_id,
    onBehalfOf: row.owner_id,
    tokenId: row.token_id,
    ip: row.ip,
    userAgent: row.user_agent,
    operation: row.operation,
    via: row.via,
    requestId: row.request_id,
    resourceId: row.resource_id,
    changes: JSON.parse(row.changes_json),
  };
}
