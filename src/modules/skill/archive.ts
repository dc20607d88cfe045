// Skills in archives: in the export of a tenant, each with the files of its newest version. Imported ones wait for an approval.
import { Buffer } from "node:buffer";
import { z } from "@zod/zod";
import {
  type ArchiveSection,
  type ExportContext,
  handleRecord,
  type ImportContext,
  type ImportedPart,
  type RecordHandler,
  type SectionImporter,
} from "@/core/archive/section.ts";
import { PrincipalId } from "@/modules/identity/mod.ts";
import type { Store, Transaction } from "@/ports/store.ts";
import { FILES_MAX, SKILL_MAX_BYTES, SkillName } from "./schema.ts";
import { SkillStore, type SkillTables } from "./store.ts";
import { examineFiles } from "./validation.ts";
import type { SkillWriter } from "./writer.ts";

/** A file whose text is longer as JSON is written as base64, which is never longer than a line may be. */
const TEXT_MAX_CHARS = 7 * 1024 * 1024;

const SkillRecord = z.object({ name: SkillName, createdBy: PrincipalId });
const SkillFileRecord = z.object({
  skill: SkillName,
  path: z.string().min(1).max(200),
  encoding: z.enum(["utf8", "base64"]),
  content: z.string(),
});

type Tx = Transaction<SkillTables>;

export function skillArchive(store: Store<SkillTables>, writer: SkillWriter): ArchiveSection<Tx> {
  return {
    description: {
      exported: "in the export of a tenant, skills (`skill`) with the files of their newest version (`skill_file`)",
      imported: "Imported skills wait for an approval, and are attached to nothing.",
    },
    counts: { skills: "Skills" },
    skipCodes: { skill_invalid: "each_run", too_many_skills: "each_run" },
    exportPersonal: (context) => exportSkills(new SkillStore(store.db), context),
    createImporter: (context) => new SkillImporter(context, writer),
  };
}

async function* exportSkills(skills: SkillStore, context: ExportContext): AsyncGenerator<unknown[]> {
  for (const { tenant_id, name, digest, created_by } of await skills.list(context.tenantId)) {
    yield await context.principalRecords([created_by]);
    context.recordExported([partOf(name, digest)]);
    context.count("skills", 1);
    yield [{ type: "skill", name, createdBy: created_by }];
    for (const { path } of await skills.files(tenant_id, name, digest)) {
      const file = await skills.file(tenant_id, name, digest, path);
      if (file === undefined) continue;
      const isLong = file.encoding === "utf8" && JSON.stringify(file.content).length > TEXT_MAX_CHARS;
      yield [{
        type: "skill_file",
        skill: name,
        path,
        encoding: isLong ? "base64" : file.encoding,
        content: isLong ? Buffer.from(file.content).toString("base64") : file.content,
      }];
    }
  }
}

/** Collects the files of one skill at a time. */
class SkillImporter implements SectionImporter {
  readonly records: Readonly<Record<string, RecordHandler>>;
  readonly #context: ImportContext<Tx>;
  readonly #writer: SkillWriter;
  #pending:
    | { name: string; createdBy: string; where: string; files: Map<string, Uint8Array>; bytes: number }
    | undefined;

  constructor(context: ImportContext<Tx>, writer: SkillWriter) {
    this.#context = context;
    this.#writer = writer;
    this.records = {
      skill: handleRecord(SkillRecord, async ({ name, createdBy }, { where }) => {
        await this.flush();
        this.#pending = { name, createdBy, where, files: new Map(), bytes: 0 };
      }),
      skill_file: handleRecord(SkillFileRecord, ({ skill, path, encoding, content }) => {
        const pending = this.#pending;
        if (pending?.name !== skill) return;
        const bytes = Buffer.from(content, encoding);
        pending.bytes += bytes.length;
        // What is too much is not collected; without its files the skill is not valid.
        if (pending.files.size > FILES_MAX || pending.bytes > SKILL_MAX_BYTES) pending.files.clear();
        else pending.files.set(path, bytes);
      }),
    };
  }

  async flush(): Promise<void> {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) return;
    const { tenantId, report } = this.#context;
    const { name, createdBy, where, files, bytes } = pending;
    const { skill } = await examineFiles({ files, directory: name, problems: [] });
    if (skill === undefined || bytes > SKILL_MAX_BYTES) return report.skip("skill_invalid", where);
    await this.#context.write(async (tx) => {
      const history = this.#context.history(tx);
      const part = partOf(name, skill.digest);
      const [isNew] = await history.filterNew([part], (one) => [one]);
      if (isNew === undefined) return;
      await this.#context.createPlaceholders(tx, [createdBy]);
      const author = { tenantId, principalId: createdBy, chargedId: createdBy, isAdmin: true };
      const outcome = await this.#writer.add(tx, author, skill);
      await history.record([part]);
      if (outcome === "limit_reached") report.skip("too_many_skills", where);
      else if (outcome === "added") report.count("skills", 1);
    });
  }
}

function partOf(name: string, digest: string): ImportedPart {
  return { container: "", name: `skill ${name} ${digest}` };
}
