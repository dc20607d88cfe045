// Capabilities of the gateway: version, modules and limits.
import { z } from "@zod/zod";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import type { Platform } from "@/ports/platform.ts";

const Capabilities = z.object({
  version: z.string(),
  commit: z.string().describe("Commit the gateway was built from"),
  apiVersion: z.literal("v1").describe("Version of the API, as in its paths"),
  modules: z.record(z.string(), z.looseObject({ enabled: z.boolean().describe("Whether the module is enabled") }))
    .describe("Modules by name, with their features and limits"),
  limits: z.record(z.string(), z.number()).describe("Limits in force, by name; disabled limits are absent"),
}).meta({ id: "Capabilities" });

type Deps = { version: string; commit: string; limits: Readonly<Record<string, number>> };

export function gatewayModule({ modules }: Platform, { version, commit, limits }: Deps): Module {
  return {
    name: "gateway",
    tags: {
      capabilities: "Version, modules, limits and formats of this gateway. Read them before using an optional feature.",
    },
    operations: [
      defineOperation({
        name: "capabilities.read",
        summary: "Get version, modules and limits of this gateway",
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
              modules.map((module) => [module.name, { enabled: true, ...module.capability?.() }]),
            ),
            limits: { ...limits },
          }),
      }),
    ],
  };
}
