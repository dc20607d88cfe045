// The audit log: who did what administers the tenant, or changes what others may do. A call and its entry commit together.
import type { Actor } from "@/core/actor.ts";
import { type Clock, DAY_MS, iso } from "@/core/clock.ts";
import { newId } from "@/core/id.ts";
import { Outcome, type RecordedCall } from "@/core/operation.ts";
import type { Cursors, Page } from "@/core/page.ts";
import { truncateText } from "@/core/text.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import type { AuditEntry, AuditList } from "./schema.ts";
import { type AuditRow, AuditStore, type AuditTables } from "./store.ts";

type Deps = { store: Store<AuditTables>; clock: Clock; cursors: Cursors; days: number };

/** Fields whose texts say what somebody may do, or where; others may be confidential. */
const PLAIN_FIELDS: ReadonlySet<string> = new Set([
  ...["role", "scopes", "visibility", "state", "kind", "decision", "ownerId", "principalId", "agentId", "roomId"],
]);
const FIELDS_MAX = 50;
const VALUE_MAX_CHARS = 200;
const REMOVED_AT_ONCE = 1000;
const PATH_PARAMETER = /:(\w+)/g;
/** The caller itself, where a principal is named. */
const ME = "me";

export class AuditLog {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Runs a call and adds its entry; of one that calls out afterwards, so that no transaction waits for others. */
  async record(call: RecordedCall, run: () => Promise<unknown>): Promise<unknown> {
    const { store } = this.#deps;
    if (call.operation.callsOut === true) {
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

  /** The start of a session, which is no operation; part of the caller's transaction. */
  async recordSignIn(tx: AnyTransaction, { tenantId, principalId, tokenId }: SignIn): Promise<void> {
    await this.#insert(tx, {
      tenant_id: tenantId,
      actor_id: principalId,
      token_id: tokenId,
      operation: "sign_in",
      via: "http",
    });
  }

  async list(actor: Actor, { limit, cursor, ...filter }: AuditList): Promise<Page<AuditEntry>> {
    const { store, cursors } = this.#deps;
    const bind = ["audit.list", actor.tenantId, filter];
    const before = cursors.decode(cursor, bind)?.[0]?.toString();
    const rows = await new AuditStore(store.db).list(actor.tenantId, filter, before, limit + 1);
    return cursors.page(rows, limit, bind, (row) => [row.id], present);
  }

  async purge(): Promise<void> {
    const { store, clock, days } = this.#deps;
    const at = iso(clock.now() - days * DAY_MS);
    const remove = (): Promise<number> => store.write((tx) => new AuditStore(tx.db).removeBefore(at, REMOVED_AT_ONCE));
    while (await remove() === REMOVED_AT_ONCE);
  }

  async #add(
    tx: AnyTransaction,
    { actor, operation, input, requestId, via }: RecordedCall,
    result: unknown,
  ): Promise<void> {
    const given = input as Record<string, unknown>;
    const inPath = [...operation.http.path.matchAll(PATH_PARAMETER)].map(([, name = ""]) => name);
    const named = given[inPath.at(-1) ?? ""];
    const created = (result instanceof Outcome ? result.output : result) as { id?: unknown } | null | undefined;
    const resource = named === ME ? actor.principalId : named ?? created?.id;
    await this.#insert(tx, {
      tenant_id: actor.tenantId,
      actor_id: actor.principalId,
      owner_id: actor.ownerId,
      token_id: actor.tokenId ?? null,
      operation: operation.name,
      via,
      request_id: requestId,
      resource_id: typeof resource === "string" ? resource : null,
      changes_json: JSON.stringify(changesOf(given, inPath)),
    });
  }

  async #insert(tx: AnyTransaction, entry: NewEntry): Promise<void> {
    const nothing = { owner_id: null, token_id: null, request_id: null, resource_id: null, changes_json: "{}" };
    await new AuditStore(tx.db).add({ id: newId("aud"), at: iso(this.#deps.clock.now()), ...nothing, ...entry });
  }
}

/** What it is not about may be absent. */
type NewEntry = Pick<AuditRow, "tenant_id" | "actor_id" | "operation" | "via"> & Partial<AuditRow>;
type SignIn = { tenantId: string; principalId: string; tokenId: string };

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
    at: row.at,
    actorId: row.actor_id,
    onBehalfOf: row.owner_id,
    tokenId: row.token_id,
    operation: row.operation,
    via: row.via,
    requestId: row.request_id,
    resourceId: row.resource_id,
    changes: JSON.parse(row.changes_json),
  };
}
