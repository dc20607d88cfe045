// The models of a tenant, and the providers that offer them: the tenant's own in their order, then the operator's.
import type { Encryptor } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { suggestionFor } from "@/core/input/suggestion.ts";
import type { ModelConfig, ModelEndpoint, OperatorProvider } from "@/ports/model.ts";
import type { Store } from "@/ports/store.ts";
import { type ProviderRow, ProviderStore, type ProviderTables } from "./provider_store.ts";
import { OPERATOR } from "./schema.ts";

/** Label in metrics of what tenants name. */
const OTHER = "other";

/** A model that a tenant can use. */
export type AiModel = ModelConfig & {
  /** Ids of the providers that offer it, in the order in which they are called. */
  providers: readonly string[];
};

/** A model at a provider. */
export type Candidate = {
  providerId: string;
  model: ModelConfig;
  endpoint: ModelEndpoint;
  /** Names the provider across tenants. */
  breakerKey: string;
  /** Bounded in number: what tenants name is one label. */
  labels: { provider: string; model: string };
};

type Deps = {
  store: Store<ProviderTables>;
  encryptor: Encryptor;
  operator: OperatorProvider | undefined;
  /** Private hosts that providers of tenants may have. */
  allowHosts: readonly string[];
};

export class Catalog {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async models(tenantId: string): Promise<AiModel[]> {
    const models = new Map<string, AiModel>();
    for (const { providerId, model } of await this.#candidates(tenantId)) {
      const known = models.get(keyOf(model));
      models.set(keyOf(model), { ...model, ...known, providers: [...known?.providers ?? [], providerId] });
    }
    return [...models.values()];
  }

  /** The candidates of a model, or of the first one of its kind. Throws `ai_not_configured` and `model_unknown`. */
  async require(
    tenantId: string,
    kind: ModelConfig["kind"],
    id: string | undefined,
  ): Promise<[Candidate, ...Candidate[]]> {
    const all = (await this.#candidates(tenantId)).filter(({ model }) => model.kind === kind);
    const [any] = all;
    if (any === undefined) throw new Fault("ai_not_configured", "No AI provider is configured for this tenant");
    const chosen = id ?? any.model.id;
    const [first, ...more] = all.filter(({ model }) => model.id === chosen);
    if (first !== undefined) return [first, ...more];
    const hint = suggestionFor(chosen, all.map(({ model }) => model.id));
    throw new Fault("model_unknown", `No provider offers the model ${chosen.slice(0, 100)}${hint}`);
  }

  /** The candidates of one provider of the tenant. */
  ofProvider(row: ProviderRow): Candidate[] {
    const { encryptor, allowHosts, operator } = this.#deps;
    const { tenant_id: tenantId, id: providerId, key_encrypted: encrypted } = row;
    // With a key that can no longer be decrypted, the provider refuses the call, which says what to do.
    const apiKey = encrypted === null ? undefined : encryptor.decrypt(encrypted, keyContext(tenantId, providerId));
    const known = new Set(operator?.models.map(({ id }) => id));
    return (JSON.parse(row.models_json) as ModelConfig[]).map((model) => ({
      providerId,
      model,
      endpoint: {
        kind: row.kind as ModelEndpoint["kind"],
        baseUrl: row.base_url,
        apiKey,
        model: model.providerModel ?? model.id,
        allowHosts,
      },
      breakerKey: `${tenantId}/${providerId}`,
      labels: { provider: "tenant", model: known.has(model.id) ? model.id : OTHER },
    }));
  }

  async #candidates(tenantId: string): Promise<Candidate[]> {
    const { store, operator } = this.#deps;
    const own = await new ProviderStore(store.db).list(tenantId);
    return [
      ...own.flatMap((row) => this.ofProvider(row)),
      ...operator === undefined ? [] : operatorCandidates(operator),
    ];
  }
}

/** What a key is encrypted for. */
export function keyContext(tenantId: string, providerId: string): string {
  return `${tenantId}/${providerId}`;
}

function operatorCandidates({ models, ...endpoint }: OperatorProvider): Candidate[] {
  return models.map((model) => ({
    providerId: OPERATOR,
    model,
    endpoint: { ...endpoint, model: model.providerModel ?? model.id },
    breakerKey: OPERATOR,
    labels: { provider: OPERATOR, model: model.id },
  }));
}

function keyOf({ kind, id }: ModelConfig): string {
  return `${kind} ${id}`;
}
