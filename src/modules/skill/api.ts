// Operations on skills.
import { z } from "@zod/zod";
import { exampleId } from "@/core/id.ts";
import type { ModuleApi } from "@/core/module.ts";
import { defineOperation, Outcome, type Rates } from "@/core/operation.ts";
import type { SkillAttachments } from "./attachments.ts";
import {
  IMPORT_BODY_BYTES,
  ImportedSkill,
  Skill,
  SKILL_EVENTS,
  SkillApprove,
  SkillAttach,
  SkillDetach,
  SkillFile,
  SkillFileRef,
  SkillImport,
  SkillList,
  SkillRef,
  SkillSummary,
  SkillUpdate,
  SkillValidation,
  SkillVersion,
} from "./schema.ts";
import type { SkillService } from "./service.ts";

const PATH = "/v1/collaboration/skills";
const READ = { scope: "skill.read", tenant: "member" } as const;
const WRITE = { scope: "skill.write", tenant: "member" } as const;
const ATTACH = { ...WRITE, namedRoom: "moderator" } as const;
const IMPORT_RATE: Rates = { human: { perSecond: 0.2, burst: 10 } };
const RESPONSIBLE =
  "For an agent, the caller becomes responsible for its schedule, as by a change of its instructions with `agent.update`.";
const NAME = "release-notes";
const DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const FILES = [{
  path: "SKILL.md",
  content:
    "---\nname: release-notes\ndescription: Writes release notes. Use it for release notes.\n---\n\nList what changed.\n",
}];

export function skillApi(skills: SkillService, attachments: SkillAttachments): ModuleApi {
  return {
    tags: { skills: "Instructions for agents, in the format of Agent Skills." },
    events: SKILL_EVENTS,
    operations: [
      defineOperation({
        name: "skill.import",
        summary: "Import a skill as a new version",
        description:
          "The version is pending until an admin approves it. Scripts in it are text: the gateway runs none.",
        access: WRITE,
        http: { method: "POST", path: PATH, status: 201, bodyMaxBytes: IMPORT_BODY_BYTES, hasLocation: true },
        rate: IMPORT_RATE,
        input: SkillImport,
        output: ImportedSkill,
        faults: ["skill_invalid", "limit_reached"],
        example: { files: FILES },
        async run(context, input) {
          const imported = await skills.import(context, input);
          return new Outcome(imported, { location: `${PATH}/${imported.name}` });
        },
      }),
      defineOperation({
        name: "skill.validate",
        summary: "Validate a skill without importing it",
        access: READ,
        http: { method: "POST", path: `${PATH}/validate`, status: 200, bodyMaxBytes: IMPORT_BODY_BYTES },
        rate: IMPORT_RATE,
        input: SkillImport,
        output: SkillValidation,
        example: { files: FILES },
        run: (_context, input) => skills.validate(input),
      }),
      defineOperation({
        name: "skill.list",
        summary: "List skills with their descriptions",
        access: READ,
        http: { method: "GET", path: PATH, status: 200 },
        input: SkillList,
        output: z.object({ items: z.array(SkillSummary) }).meta({ id: "Skills" }),
        faults: ["not_found"],
        example: { q: "release" },
        async run(context, input) {
          return { items: await skills.list(context, input) };
        },
      }),
      defineOperation({
        name: "skill.read",
        summary: "Get a skill with the text of its instructions",
        access: READ,
        http: { method: "GET", path: `${PATH}/:name`, status: 200 },
        input: SkillRef,
        output: Skill,
        faults: ["not_found"],
        example: { name: NAME },
        run: (context, { name, digest }) => skills.read(context, name, digest),
      }),
      defineOperation({
        name: "skill.file",
        summary: "Get a file of a skill",
        access: READ,
        http: { method: "GET", path: `${PATH}/:name/file`, status: 200 },
        input: SkillFileRef,
        output: SkillFile,
        faults: ["not_found"],
        example: { name: NAME, path: "SKILL.md" },
        run: (context, { name, path, digest }) => skills.file(context, name, path, digest),
      }),
      defineOperation({
        name: "skill.update",
        summary: "Enable or disable a skill for agents",
        access: WRITE,
        http: { method: "PATCH", path: `${PATH}/:name`, status: 204 },
        input: SkillUpdate,
        output: z.void(),
        faults: ["not_found"],
        example: { name: NAME, enabled: false },
        run: (context, { name, enabled }) => skills.update(context, name, enabled),
      }),
      defineOperation({
        name: "skill.remove",
        summary: "Remove a skill with all versions and attachments",
        access: WRITE,
        http: { method: "DELETE", path: `${PATH}/:name`, status: 204 },
        input: SkillRef.pick({ name: true }),
        output: z.void(),
        faults: ["not_found"],
        example: { name: NAME },
        run: (context, { name }) => skills.remove(context, name),
      }),
      defineOperation({
        name: "skill.approve",
        summary: "Approve a version of a skill, so that it can be attached and agents read it",
        access: { scope: "skill.manage", tenant: "admin" },
        http: { method: "POST", path: `${PATH}/:name/approve`, status: 200 },
        input: SkillApprove,
        output: SkillVersion,
        faults: ["not_found"],
        example: { name: NAME, digest: DIGEST },
        run: (context, { name, digest }) => skills.approve(context, name, digest),
      }),
      defineOperation({
        name: "skill.attach",
        summary: "Attach a version of a skill to an agent or to a room",
        description:
          "The version stays until another one is attached. Owners of agents, moderators of rooms and admins attach. " +
          RESPONSIBLE,
        access: ATTACH,
        http: { method: "POST", path: `${PATH}/:name/attach`, status: 204 },
        input: SkillAttach,
        output: z.void(),
        faults: ["not_found", "skill_not_approved", "limit_reached", "room_archived"],
        example: { name: NAME, kind: "room", subjectId: exampleId("room"), digest: DIGEST },
        run: (context, input) => attachments.attach(context, input),
      }),
      defineOperation({
        name: "skill.detach",
        summary: "Detach a skill from an agent or a room",
        description: RESPONSIBLE,
        access: ATTACH,
        http: { method: "POST", path: `${PATH}/:name/detach`, status: 204 },
        input: SkillDetach,
        output: z.void(),
        faults: ["not_found", "room_archived"],
        example: { name: NAME, kind: "room", subjectId: exampleId("room") },
        run: (context, input) => attachments.detach(context, input),
      }),
    ],
  };
}
