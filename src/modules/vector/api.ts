// Operations on vectors.
import { z } from "@zod/zod";
import { Fault } from "@/core/fault.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { VectorStatus } from "./schema.ts";
import type { VectorService } from "./service.ts";

const PATH = "/v1/collaboration/vectors";

/** The public API of vectors; without search there are none. */
export function vectorApi(vectors: VectorService, isEnabled: boolean): ModuleApi {
  const disabled = isEnabled
    ? undefined
    : () => new Fault("search_not_configured", "Search is disabled in this gateway");
  return {
    tags: {
      vectors: "Vectors of the tenant's content, created by an embedding model and used by semantic and hybrid search.",
    },
    operations: [
      defineOperation({
        name: "vector.status",
        summary: "Get the state of the tenant's vectors",
        access: { scope: "search.read", tenant: "admin" },
        http: { method: "GET", path: `${PATH}/status`, status: 200 },
        input: z.strictObject({}),
        output: VectorStatus,
        example: {},
        run: ({ actor }) => vectors.status(actor),
      }),
      defineOperation({
        name: "vector.reindex",
        summary: "Rebuild the tenant's vectors; search remains available",
        description:
          "New vectors are built beside those that are searched, and replace them when they are complete. All " +
          "content is embedded again, which the tenant's AI budgets bound. A change of the embedding model does the " +
          "same by itself.",
        access: { scope: "search.manage", tenant: "admin" },
        http: { method: "POST", path: `${PATH}/reindex`, status: 202 },
        input: z.strictObject({}),
        output: VectorStatus,
        faults: ["ai_not_configured", "already_running", "search_not_configured"],
        example: {},
        disabled,
        async run({ actor }) {
          return new Outcome(await vectors.reindex(actor));
        },
      }),
    ],
  };
}
