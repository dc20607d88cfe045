// Provisioning: an identity provider says who the people of a tenant are, by SCIM 2.0.
import { type Module, operationsOf } from "@/core/module.ts";
import type { IdentityModule } from "@/modules/identity/mod.ts";
import type { Platform } from "@/ports/platform.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { scimRoutes } from "./routes.ts";
import { ScimUsers } from "./service.ts";

type Deps = { identity: IdentityModule; publicUrl: string | undefined };

export function scimModule({ store, clock, dispatch }: Platform, { identity, publicUrl }: Deps): Module {
  const users = new ScimUsers({ store, clock, dispatch, operations: operationsOf([identity]) });
  return {
    name: "scim",
    migrations,
    erases,
    tags: { scim: "Provisioning of people by an identity provider: SCIM 2.0." },
    operations: [],
    routes: scimRoutes({ users, publicUrl }),
  };
}
