// Operations on invitations.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation } from "@/core/operation.ts";
import { pageInput, pageSchema } from "@/core/page.ts";
import { joinRoute } from "./route.ts";
import { Invitation, InvitationCreate, NewInvitation } from "./schema.ts";
import type { InvitationService } from "./service.ts";

const PATH = "/v1/collaboration/invitations";

export function invitationApi(invitations: InvitationService): ModuleApi {
  return {
    tags: { invitations: "Invitations to the tenant: codes that people join with." },
    routes: [joinRoute(invitations)],
    operations: [
      defineOperation({
        name: "invitation.create",
        summary: "Create an invitation; its code is returned only once",
        description: "People who have the code join the tenant with `POST /v1/collaboration/auth/join`.",
        access: { scope: "principal.manage", tenant: "admin" },
        http: { method: "POST", path: PATH, status: 201 },
        input: InvitationCreate,
        output: NewInvitation,
        isSecret: true,
        faults: ["limit_reached"],
        example: { name: "Design team", uses: 5 },
        run: ({ actor }, input) => invitations.create(actor, input),
      }),
      defineOperation({
        name: "invitation.list",
        summary: "List invitations that can still be used, without their codes",
        access: { scope: "principal.manage", tenant: "admin" },
        http: { method: "GET", path: PATH, status: 200 },
        input: z.strictObject({ ...pageInput }),
        output: pageSchema(Invitation),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => invitations.list(actor, input),
      }),
      defineOperation({
        name: "invitation.revoke",
        summary: "Revoke an invitation; those who have joined with it stay",
        access: { scope: "principal.manage", tenant: "admin" },
        http: { method: "DELETE", path: `${PATH}/:id`, status: 204 },
        input: z.strictObject({ id: z.string().min(1).max(64) }),
        output: z.void(),
        faults: ["not_found"],
        example: { id: exampleId("inv") },
        run: ({ actor }, { id }) => invitations.revoke(actor, id),
      }),
    ],
  };
}
