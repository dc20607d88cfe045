// The gateway about itself: version, modules and limits, so that clients need not guess.
import { z } from "@zod/zod";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";

const Capabilities = z.object({
  version: z.string(),
  commit: z.string(),
  apiVersion: z.literal("v1"),
  modules: z.record(z.string(), z.looseObject({ enabled: z.boolean() })),
  limits: z.record(z.string(), z.number()).describe("Limits in force, by name; what is switched off is absent"),
}).meta({ id: "Capabilities" });

type Deps = {
  version: string;
  commit: string;
  limits: Readonly<Record<string, number>>;
  modules: () => readonly Module[];
};

/** The gateway module. */
export function gatewayModule({ version, commit, limits, modules }: Deps): Module {
  return {
    name: "gateway",
    operations: [
      defineOperation({
        name: "capabilities.read",
        summary: "What this gateway offers: version, modules, limits",
        access: { scope: "capabilities.read" },
        http: { method: "GET", path: "/v1/collaboration/capabilities", status: 200 },
        input: z.strictObject({}),
        output: Capabilities,
        run: () =>
          Promise.resolve({
            version,
            commit,
            apiVersion: "v1" as const,
            modules: Object.fromEntries(
              modules().map((module) => [module.name, { enabled: true, ...module.capability?.() }]),
            ),
            limits: { ...limits },
          }),
      }),
    ],
  };
}
