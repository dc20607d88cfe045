// Skills as clients see them: instructions for agents in the format of Agent Skills, with files beside them.
import { z } from "@zod/zod";
import { type EventType, eventTypes } from "@/core/event/event.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";

export const SKILLS_MAX = 100;
export const VERSIONS_MAX = 20;
/** Skills of a person with their agents, except for admins of the tenant, so that no member takes all places. */
export const SKILLS_PER_MEMBER = 10;
/** Size of all their versions together. */
export const MEMBER_MAX_BYTES = 40 * 1024 * 1024;
export const FILES_MAX = 100;
export const SKILL_MAX_BYTES = 5 * 1024 * 1024;
/** Size of all skills of a tenant together. */
export const TENANT_MAX_BYTES = 200 * 1024 * 1024;
/** `SKILL.md` is read whole by models; longer ones are no instructions. */
export const BODY_MAX_BYTES = 100 * 1024;
export const ATTACHMENTS_MAX = 50;
/** The files as base64 in JSON, and what is around them. */
export const IMPORT_BODY_BYTES = 8 * 1024 * 1024;
const PATH_MAX = 200;

export const SkillName = z.string().max(64).regex(
  /^[a-z0-9]+(?:-[a-z0-9]+)*$/,
  "expected 1 to 64 characters of a-z 0-9 and single hyphens",
);
const Digest = z.string().regex(/^[0-9a-f]{64}$/, "expected the digest of a version")
  .describe("SHA-256 of the version's files; identifies the version");
const Path = z.string().min(1).max(PATH_MAX);
const State = z.enum(["pending", "approved"]).meta({ id: "SkillState" });

export const SkillImport = z.strictObject({
  files: z.array(z.strictObject({
    path: Path.describe("Path within the directory of the skill, such as `SKILL.md` or `references/api.md`"),
    content: z.string().max(SKILL_MAX_BYTES).describe("Text of the file"),
  })).min(1).max(FILES_MAX).optional().describe("Files of the skill; alternative to `zip`"),
  zip: z.string().max(7 * 1024 * 1024).optional().describe(
    "A zip archive of the files as base64, in a directory with the name of the skill or in none",
  ),
}).superRefine(({ files, zip }, context) => {
  if ((files === undefined) === (zip === undefined)) {
    context.addIssue({ code: "custom", path: ["files"], message: "expected either files or zip" });
  }
});
export type SkillImport = z.output<typeof SkillImport>;

const Problem = z.object({
  path: z.string().describe("The file, or the archive"),
  detail: z.string().describe("Human-readable explanation"),
}).meta({ id: "SkillProblem" });
export type Problem = z.output<typeof Problem>;
const warnings = z.array(Problem).describe("What is allowed but probably not meant, such as unknown fields");

export const SkillValidation = z.object({
  valid: z.boolean().describe("Whether it can be imported"),
  name: z.string().nullable().describe("Name of the skill; null if it has none"),
  digest: z.string().nullable().describe("Digest of the files; null if it is not valid"),
  problems: z.array(Problem).describe("Everything that is wrong"),
  warnings,
}).meta({ id: "SkillValidation" });
export type SkillValidation = z.output<typeof SkillValidation>;

const metadata = {
  description: z.string().describe("What it does and when to use it"),
  license: z.string().nullable().describe("License; null if it names none"),
  compatibility: z.string().nullable().describe("What it needs; null if it needs nothing"),
  allowedTools: z.string().nullable().describe("Tools that the skill requests; grants nothing"),
};

export const SkillVersion = z.object({
  digest: Digest,
  state: State.describe("Only approved versions can be attached and read by agents"),
  ...metadata,
  files: z.array(z.object({
    path: Path.describe("Path within the directory of the skill"),
    size: z.int().describe("Bytes"),
  })).describe("Files, by path"),
  createdBy: PrincipalId,
  createdAt: z.iso.datetime(),
  approvedBy: PrincipalId.nullable().describe("Principal that approved it; null while it is pending"),
}).meta({ id: "SkillVersion" });
export type SkillVersion = z.output<typeof SkillVersion>;

const AttachmentKind = z.enum(["agent", "room"]).meta({ id: "SkillAttachmentKind" });
const Attachment = z.object({
  kind: AttachmentKind.describe("To what it is attached"),
  subjectId: z.string().describe("Id of the agent or the room"),
  digest: Digest,
}).meta({ id: "SkillAttachment" });

export const SkillSummary = z.object({
  name: SkillName.describe("Name of the skill"),
  description: metadata.description,
  digest: Digest.describe("The newest version"),
  state: State.describe("State of the newest version"),
  enabled: z.boolean().describe("Whether agents can read it"),
}).meta({ id: "SkillSummary" });
export type SkillSummary = z.output<typeof SkillSummary>;

export const Skill = z.object({
  name: SkillName.describe("Name of the skill"),
  enabled: z.boolean().describe("Whether agents can read it"),
  body: z.string().describe("Text of `SKILL.md` in the requested version"),
  version: SkillVersion.describe("The requested version"),
  versions: z.array(
    z.object({
      digest: Digest,
      state: State.describe("Whether it was approved"),
      createdAt: z.iso.datetime(),
    }).meta({ id: "SkillVersionSummary" }),
  ).describe("All versions, the newest first"),
  attachments: z.array(Attachment).describe(
    "Agents of the caller and rooms of the caller that have it; admins see all",
  ),
}).meta({ id: "Skill" });
export type Skill = z.output<typeof Skill>;

export const ImportedSkill = z.object({
  name: SkillName.describe("Name of the skill"),
  version: SkillVersion.describe("The version; one with the same files is not imported twice"),
  warnings,
}).meta({ id: "ImportedSkill" });
export type ImportedSkill = z.output<typeof ImportedSkill>;

export const SkillList = z.strictObject({
  q: z.string().max(200).optional().describe("Only skills with this text in name or description"),
  agentId: PrincipalId.optional().describe("Only skills attached to this agent"),
  roomId: z.string().max(64).optional().describe("Only skills attached to this room"),
});
export type SkillList = z.output<typeof SkillList>;
export const SkillRef = z.strictObject({
  name: SkillName.describe("Name of the skill"),
  digest: Digest.optional().describe("Version; default the newest"),
});
export const SkillFileRef = z.strictObject({
  name: SkillName.describe("Name of the skill"),
  path: Path.describe("Path of the file"),
  digest: Digest.optional().describe("Version; default the newest"),
});
export const SkillFile = z.object({
  path: Path.describe("Path of the file"),
  digest: Digest.describe("The version"),
  size: z.int().describe("Bytes"),
  encoding: z.enum(["utf8", "base64"]).meta({ id: "SkillFileEncoding" }).describe("base64 for files that are not text"),
  content: z.string().describe("The file, as text or base64"),
}).meta({ id: "SkillFile" });
export type SkillFile = z.output<typeof SkillFile>;

export const SkillUpdate = z.strictObject({
  name: SkillName.describe("Name of the skill"),
  enabled: z.boolean().describe("Whether agents can read it"),
});
export const SkillApprove = z.strictObject({ name: SkillName.describe("Name of the skill"), digest: Digest });
export const SkillAttach = z.strictObject({
  name: SkillName.describe("Name of the skill"),
  kind: AttachmentKind.describe("To what it is attached"),
  subjectId: PrincipalId.describe("Id of the agent or the room"),
  digest: Digest.describe("The version, which stays until another one is attached"),
});
export const SkillDetach = SkillAttach.omit({ digest: true });
export type SkillDetach = z.output<typeof SkillDetach>;

export const SKILL_EVENTS: readonly EventType[] = eventTypes("skill.read", [{
  type: "skill.updated",
  summary: "A skill that the recipient imported was approved, enabled, disabled or removed",
  streams: ["principal"],
  data: z.object({
    name: SkillName.describe("Name of the skill"),
    change: z.enum(["approved", "enabled", "disabled", "removed"]).describe("What happened"),
  }),
}]);
