// Provisioning: an identity provider says who the people and the groups of a tenant are, by SCIM 2.0.
import { type Module, operationsOf } from "@/core/module.ts";
import type { Platform } from "@/ports/platform.ts";
import { createDispatch } from "./call.ts";
import { ScimGroups } from "./groups.ts";
import { migrations } from "./migrations.ts";
import { erases } from "./principal_erasure.ts";
import { scimRoutes } from "./routes.ts";
import { ScimUsers } from "./service.ts";

type Deps = { identity: Module; group: Module; publicUrl: string | undefined };

export function scimModule({ store, clock, dispatch }: Platform, { identity, group, publicUrl }: Deps): Module {
  const run = createDispatch(dispatch, operationsOf([identity, group]));
  const users = new ScimUsers({ store, clock, dispatch: run });
  const groups = new ScimGroups({ store, dispatch: run });
  return {
    name: "scim",
    migrations,
    erases,
    tags: { scim: "Provisioning of people and groups by an identity provider: SCIM 2.0." },
    operations: [],
    routes: scimRoutes({ users, groups, publicUrl }),
  };
}
