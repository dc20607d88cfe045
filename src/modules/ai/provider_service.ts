// Providers that tenants configure: their keys are stored encrypted and never returned.
import { chargedId } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import type { Encryptor } from "@/core/crypto.ts";
import { Fault, invalidField, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import { assertVersion } from "@/core/patch.ts";
import { trimTrailing } from "@/core/text/text.ts";
import { ModelError, type ModelRequest } from "@/ports/model.ts";
import { assertAddressAllowed, type Outbound } from "@/ports/outbound.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { type Candidate, type Catalog, keyContext } from "./catalog.ts";
import { type ProviderRow, ProviderStore, type ProviderTables } from "./provider_store.ts";
import { type Provider, type ProviderPut, PROVIDERS_MAX } from "./schema.ts";
import { type AiService, MODEL_FAILURES } from "./service.ts";

/** A stream without events: its lock serializes changes of the providers of a tenant. */
const CHANGES_LOCK = "ai:providers";
const TEST_MS = 20_000;
const TEST: ModelRequest = { messages: [{ role: "user", text: "Reply with OK." }], maxOutputTokens: 16 };

type Deps = {
  store: Store<ProviderTables>;
  clock: Clock;
  outbound: Outbound;
  encryptor: Encryptor;
  catalog: Catalog;
  ai: AiService;
  /** Private hosts that providers may have. */
  allowHosts: readonly string[];
  /** The models of a tenant were changed in this transaction. */
  onModelsChanged: (tx: AnyTransaction, tenantId: string) => Promise<void>;
};
type TestResult = { ok: boolean; model: string; code: string | null; detail: string | null; durationMs: number };

export class ProviderService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async list({ actor }: Context): Promise<Provider[]> {
    return (await new ProviderStore(this.#deps.store.db).list(actor.tenantId)).map(present);
  }

  /** Creates or replaces a provider; resolves to it, and to whether it is new. */
  async put({ actor }: Context, input: ProviderPut): Promise<{ provider: Provider; isNew: boolean }> {
    const { store, clock, encryptor } = this.#deps;
    const { tenantId } = actor;
    const baseUrl = this.#checkAddress(input.baseUrl);
    assertDistinct(input);
    return await store.write(async (tx) => {
      await tx.lock(tenantId, CHANGES_LOCK);
      const providers = new ProviderStore(tx.db);
      const before = await providers.find(tenantId, input.id);
      assertVersion("provider", before?.version ?? 0, input.version);
      if (before === undefined && (await providers.list(tenantId)).length >= PROVIDERS_MAX) {
        throw new Fault("limit_reached", `A tenant has at most ${PROVIDERS_MAX} providers`);
      }
      const now = iso(clock.now());
      const row: ProviderRow = {
        tenant_id: tenantId,
        id: input.id,
        kind: input.kind,
        base_url: baseUrl,
        key_encrypted: typeof input.apiKey === "string"
          ? encryptor.encrypt(input.apiKey, keyContext(tenantId, input.id))
          : input.apiKey === null
          ? null
          : storedKey(before, input.kind, baseUrl),
        models_json: JSON.stringify(input.models),
        priority: input.priority,
        version: (before?.version ?? 0) + 1,
        created_at: before?.created_at ?? now,
        updated_at: now,
      };
      await providers.put(row);
      await this.#deps.onModelsChanged(tx, tenantId);
      return { provider: present(row), isNew: before === undefined };
    });
  }

  async delete({ actor }: Context, id: string): Promise<void> {
    const { store, onModelsChanged } = this.#deps;
    await store.write(async (tx) => {
      if (!await new ProviderStore(tx.db).remove(actor.tenantId, id)) throw notFound("provider");
      await onModelsChanged(tx, actor.tenantId);
    });
  }

  /** Calls the first model of a provider. Throws only what is not about the provider. */
  async test({ actor, signal }: Context, id: string): Promise<TestResult> {
    const { store, catalog, ai } = this.#deps;
    const { tenantId } = actor;
    const row = await new ProviderStore(store.db).find(tenantId, id);
    if (row === undefined) throw notFound("provider");
    const [candidate] = catalog.ofProvider(row);
    if (candidate === undefined) throw notFound("model of this provider");
    const startedAt = performance.now();
    const charge = { tenantId, principalId: chargedId(actor) };
    const limit = AbortSignal.timeout(TEST_MS);
    const failure = await callOnce(
      ai,
      charge,
      candidate,
      signal === undefined ? limit : AbortSignal.any([limit, signal]),
    );
    const code = failure?.code === "cancelled" && limit.aborted ? "timed_out" : failure?.code;
    return {
      ok: code === undefined,
      model: candidate.model.id,
      code: code ?? null,
      detail: code === undefined ? null : [MODEL_FAILURES[code], failure?.reply].filter(Boolean).join(": "),
      durationMs: Math.round(performance.now() - startedAt),
    };
  }

  /** The address as it is stored. */
  #checkAddress(text: string): string {
    const { outbound, allowHosts } = this.#deps;
    assertAddressAllowed(outbound, text, "/baseUrl", { allow: allowHosts });
    const url = new URL(text);
    if (url.search !== "" || url.hash !== "") throw invalidField("/baseUrl", "expected an address without a query");
    return trimTrailing(url.href, "/");
  }
}

/** The failure, if there is one. */
async function callOnce(
  ai: AiService,
  charge: { tenantId: string; principalId: string },
  candidate: Candidate,
  signal: AbortSignal,
): Promise<ModelError | undefined> {
  try {
    if (candidate.model.kind === "embedding") {
      await ai.embedWith(charge, [candidate], ["OK"], signal);
      return undefined;
    }
    const step = ai.stepWith(charge, [candidate], TEST, signal);
    while (!(await step.next()).done);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof ModelError) return thrown;
    throw thrown;
  }
}

/** The key that is stored. It is not sent to another address: who sets that one may not know the key. */
function storedKey(before: ProviderRow | undefined, kind: string, baseUrl: string): string | null {
  const key = before?.key_encrypted ?? null;
  if (key === null || before?.base_url === baseUrl && before.kind === kind) return key;
  throw Fault.forField("/apiKey", "required", "expected the key again, since the address or protocol changes; or null");
}

function assertDistinct({ models }: ProviderPut): void {
  const seen = new Set<string>();
  for (const [at, { kind, id }] of models.entries()) {
    if (seen.has(`${kind} ${id}`)) throw Fault.forField(`/models/${at}/id`, "duplicate", "expected each model once");
    seen.add(`${kind} ${id}`);
  }
}

function present(row: ProviderRow): Provider {
  return {
    id: row.id,
    kind: row.kind as Provider["kind"],
    baseUrl: row.base_url,
    hasKey: row.key_encrypted !== null,
    models: JSON.parse(row.models_json),
    priority: row.priority,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
