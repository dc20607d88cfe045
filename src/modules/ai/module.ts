// The ai module: models and their providers, completions, budgets and usage.
import { type Clock, DAY_MS, iso } from "@/core/time/clock.ts";
import { Encryptor } from "@/core/crypto.ts";
import type { Module } from "@/core/module.ts";
import type { IdentityService } from "@/modules/identity/mod.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { OperatorProvider } from "@/ports/model.ts";
import type { Platform } from "@/ports/platform.ts";
import type { AnyTransaction, Store } from "@/ports/store.ts";
import { aiApi } from "./api.ts";
import { BudgetService } from "./budget_service.ts";
import { BudgetStore } from "./budget_store.ts";
import { Budgets, type TokenLimits } from "./budgets.ts";
import { Catalog, keyContext } from "./catalog.ts";
import type { ImageFiles } from "./completion_images.ts";
import { type Complete, CompletionService } from "./completion_service.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { ProviderService } from "./provider_service.ts";
import { MESSAGES_MAX, OUTPUT_TOKENS_MAX, PROVIDERS_MAX, TOOLS_MAX } from "./schema.ts";
import { AiService } from "./service.ts";
import { UsageStore, type UsageTables } from "./usage_store.ts";

const USAGE_DAYS = 400;

type Deps = {
  identity: IdentityService;
  files: ImageFiles;
  /** The operator's provider of models. */
  operator: OperatorProvider | undefined;
  /** Private hosts that tenants may use as providers. */
  allowHosts: readonly string[];
  limits: TokenLimits;
  roomAccess: Pick<RoomAccess, "findMany">;
  /** Models of a tenant were changed in this transaction. */
  onModelsChanged: (tx: AnyTransaction, tenantId: string) => Promise<void>;
  /** The gateway's secrets: keys of tenants are encrypted with the first one. */
  secrets: readonly Uint8Array[];
};

export type AiModule = Module & { ai: AiService; complete: Complete };

export function aiModule(
  { store, clock, models, outbound, metrics }: Platform,
  { identity, files, roomAccess, operator, allowHosts, limits, onModelsChanged, secrets }: Deps,
): AiModule {
  const encryptor = new Encryptor(secrets, "ai provider");
  const catalog = new Catalog({ store, encryptor, operator, allowHosts });
  const budgets = new Budgets({ store, clock, limits });
  const ai = new AiService({ store, clock, models, metrics, catalog, budgets });
  const completions = new CompletionService(ai, files);
  return {
    name: "ai",
    migrations,
    erases,
    ...aiApi({
      ai,
      completions,
      providers: new ProviderService({ store, clock, outbound, encryptor, catalog, ai, allowHosts, onModelsChanged }),
      budgets: new BudgetService({ store, clock, identity, roomAccess }),
    }),
    encrypted: [{
      table: "ai_provider",
      column: "key_encrypted",
      encryptor,
      contextOf: ({ tenant_id, id }) => keyContext(tenant_id, id),
    }],
    maintenance: { aiBudgets: () => budgets.maintain(), aiUsage: () => forgetUsage(store, clock) },
    purgeRoom: (tenantId, roomId) =>
      store.write((tx) => new BudgetStore(tx.db).removeBudgets(tenantId, { scope: "room", subject_id: roomId })),
    drain: () => completions.drain(),
    capability: () => ({
      hasOperatorProvider: operator !== undefined,
      providers: PROVIDERS_MAX,
      messages: MESSAGES_MAX,
      tools: TOOLS_MAX,
      outputTokens: OUTPUT_TOKENS_MAX,
    }),
    ai,
    complete: (...of) => completions.create(...of),
  };
}

async function forgetUsage(store: Store<UsageTables>, clock: Clock): Promise<void> {
  const before = iso(clock.now() - USAGE_DAYS * DAY_MS).slice(0, 10);
  await store.write((tx) => new UsageStore(tx.db).removeBefore(before));
}
