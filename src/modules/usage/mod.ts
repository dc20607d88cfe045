// Usage of the limits by a caller and its tenant, so that clients can warn before a limit is reached.
import { z } from "@zod/zod";
import { type Actor, isAdmin } from "@/core/actor.ts";
import type { Module } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import type { Platform } from "@/ports/platform.ts";

const Share = z.object({
  bytes: z.int().describe("Bytes used"),
  limit: z.int().nullable().describe("Limit in bytes; null if unlimited"),
}).meta({ id: "UsageShare" });
const Shares = z.object({
  stored: Share.describe("Bytes of stored files, exports and imports, including uploads in progress"),
  writtenToday: Share.describe(
    "Bytes of rows written since midnight UTC; writes on other nodes are included after a few seconds",
  ),
}).meta({ id: "UsageShares" });

const Usage = z.object({
  member: Shares.describe(
    "Usage of the caller and its agents, or for an agent, of its owner and all the owner's agents",
  ),
  tenant: Shares.nullable().describe(
    "Usage of the whole tenant; null for all but admins, since it says how much others write",
  ),
}).meta({ id: "Usage" });

type UsageShare = { bytes: number; limit: number | null };
type UsageByScope = Record<"member" | "tenant", UsageShare>;
type Deps = { stored: (actor: Actor) => Promise<UsageByScope> };

export function usageModule({ writeBudget }: Platform, { stored }: Deps): Module {
  return {
    name: "usage",
    tags: { usage: "Bytes used by the caller and its tenant, and their limits." },
    operations: [
      defineOperation({
        name: "usage.read",
        summary: "Get usage and limits of the caller and its tenant",
        access: { scope: null },
        http: { method: "GET", path: "/v1/collaboration/usage", status: 200 },
        input: z.strictObject({}),
        output: Usage,
        async run({ actor }) {
          const [now, today] = [await stored(actor), await writeBudget.usageOf(actor)];
          const sharesOf = (who: "member" | "tenant") => ({ stored: now[who], writtenToday: roundBytes(today[who]) });
          return { member: sharesOf("member"), tenant: isAdmin(actor) ? sharesOf("tenant") : null };
        },
      }),
    ],
  };
}

function roundBytes({ bytes, limit }: UsageShare): UsageShare {
  return { bytes: Math.round(bytes), limit };
}
