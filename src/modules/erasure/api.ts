// Operations on erasures.
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome } from "@/core/operation.ts";
import { pageSchema } from "@/core/page.ts";
import { Erasure, ErasureCreate, ErasureList, ErasureRef } from "./schema.ts";
import type { ErasureService } from "./service.ts";

const PATH = "/v1/collaboration/erasures";
const EXAMPLE = { id: "era_0190c5d2e7f07b1c9d0a1b2c3d4e5f60" };

export function erasureApi(erasures: ErasureService): ModuleApi {
  return {
    tags: { erasures: "Erasure of people: what names or describes them is replaced by a pseudonym or deleted." },
    operations: [
      defineOperation({
        name: "erasure.create",
        summary: "Erase a person, or count what that would change",
        description:
          "For people themselves, and for admins and owners of the tenant, of people below them. The person is disabled at " +
          "once: tokens end and connections close. After some days a job replaces the person everywhere by a disabled " +
          'principal `erased-<n>` named "Deleted user", and deletes profile, tokens, memberships, bans, notifications, ' +
          "scheduled messages, and facts of the person and about it; rooms publish `member.left` and `principal.erased`. Agents of the person stay disabled with " +
          "their owner. A token that was issued before is refused from then on; a later one makes a new principal, which has " +
          "nothing of the old one. Documents, tasks and events stay, except private ones that no other principal could see if `mode` is " +
          "`delete_content`. Private rooms without members are deleted.\n\n" +
          "Not erased are what others wrote about the person in their own words, archives of exports until they expire, logs, and " +
          "backups. An import of an older archive restores neither the person nor their memberships, nor what they wrote; what " +
          "others continue names `erased-0`.\n\n" +
          "A dry run is counted by a job; get its result with `erasure.read`.",
        access: { scope: "erasure.manage" },
        http: { method: "POST", path: PATH, status: 202, hasLocation: true },
        input: ErasureCreate,
        output: Erasure,
        faults: ["not_found", "already_running", "legal_hold"],
        example: { principalId: "alice", mode: "anonymize", confirm: "alice" },
        async run({ actor }, input) {
          const erasure = await erasures.create(actor, input);
          return new Outcome(erasure, { location: `${PATH}/${erasure.id}` });
        },
      }),
      defineOperation({
        name: "erasure.list",
        summary: "List erasures, the newest first",
        description: "All of the tenant for its admins; for others, those that are about themselves.",
        access: { scope: "erasure.read" },
        http: { method: "GET", path: PATH, status: 200 },
        input: ErasureList,
        output: pageSchema(Erasure),
        faults: ["invalid_cursor"],
        run: ({ actor }, input) => erasures.list(actor, input),
      }),
      defineOperation({
        name: "erasure.read",
        summary: "Get an erasure with what it has done",
        access: { scope: "erasure.read" },
        http: { method: "GET", path: `${PATH}/:id`, status: 200 },
        input: ErasureRef,
        output: Erasure,
        faults: ["not_found"],
        example: EXAMPLE,
        run: ({ actor }, { id }) => erasures.read(actor, id),
      }),
      defineOperation({
        name: "erasure.cancel",
        summary: "Cancel an erasure that has not begun, and enable the person again",
        access: { scope: "erasure.manage", tenant: "admin" },
        http: { method: "POST", path: `${PATH}/:id/cancel`, status: 200 },
        input: ErasureRef,
        output: Erasure,
        faults: ["not_found", "conflict"],
        example: EXAMPLE,
        run: ({ actor }, { id }) => erasures.cancel(actor, id),
      }),
    ],
  };
}
