// Skills of a tenant: each import is a version by its digest, which an admin approves before agents read it.
import { type Actor, chargedId, isAdmin } from "@/core/actor.ts";
import { principalStream } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Context } from "@/core/operation.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import type { SkillAttachments } from "./attachments.ts";
import {
  type ImportedSkill,
  MEMBER_MAX_BYTES,
  type Skill,
  type SkillFile,
  type SkillImport,
  type SkillList,
  SKILLS_MAX,
  SKILLS_PER_MEMBER,
  type SkillSummary,
  type SkillValidation,
  type SkillVersion,
  TENANT_MAX_BYTES,
  VERSIONS_MAX,
} from "./schema.ts";
import { type SkillRow, SkillStore, type SkillTables, type SkillVersionRow } from "./store.ts";
import { examine, type Frontmatter, MANIFEST } from "./validation.ts";
import { CHANGES_LOCK, type SkillWriter } from "./writer.ts";

type Tx = Transaction<SkillTables>;
type Deps = { store: Store<SkillTables>; metrics: Metrics; attachments: SkillAttachments; writer: SkillWriter };

export class SkillService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async validate(input: SkillImport): Promise<SkillValidation> {
    const { name, problems, warnings, skill } = await examine(input);
    return { valid: skill !== undefined, name, digest: skill?.digest ?? null, problems, warnings };
  }

  async import({ actor }: Context, input: SkillImport): Promise<ImportedSkill> {
    const { store, writer } = this.#deps;
    const { tenantId, principalId } = actor;
    const { problems, warnings, skill } = await examine(input);
    if (skill === undefined) {
      const [first] = problems;
      const detail = first === undefined ? "The files are not a skill" : `${first.path}: ${first.detail}`;
      const errors = problems.map(({ path, detail }) => ({ pointer: `/${path}`, code: "skill_invalid", detail }));
      throw new Fault("skill_invalid", detail, { errors });
    }
    const { name } = skill.frontmatter;
    return await store.write(async (tx) => {
      const skills = new SkillStore(tx.db);
      const existing = await skills.find(tenantId, name);
      if (existing !== undefined) assertMayChange(actor, existing);
      const author = { tenantId, principalId, chargedId: chargedId(actor), isAdmin: isAdmin(actor) };
      if (await writer.add(tx, author, skill) === "limit_reached") {
        throw new Fault(
          "limit_reached",
          `A tenant has at most ${SKILLS_MAX} skills with ${TENANT_MAX_BYTES} bytes, a member with their agents ` +
            `${SKILLS_PER_MEMBER} with ${MEMBER_MAX_BYTES}; a skill has at most ${VERSIONS_MAX} versions`,
        );
      }
      const version = await skills.version(tenantId, name, skill.digest);
      if (version === undefined) throw new Error("Expected the version that was added, received none");
      return { name, version: await this.#presentVersion(tx.db, version), warnings };
    });
  }

  async list(context: Context, { q, agentId, roomId }: SkillList): Promise<SkillSummary[]> {
    const { store, attachments } = this.#deps;
    const skills = new SkillStore(store.db);
    const wanted = await attachments.namesOf(context, { agentId, roomId });
    const text = q?.toLowerCase();
    return (await skills.list(context.actor.tenantId)).flatMap((row) => {
      const { description }: Frontmatter = JSON.parse(row.frontmatter_json);
      if (wanted !== undefined && !wanted.has(row.name)) return [];
      if (text !== undefined && !`${row.name}\n${description}`.toLowerCase().includes(text)) return [];
      return [{ name: row.name, description, digest: row.digest, state: row.state, enabled: row.is_enabled === 1 }];
    });
  }

  async read(context: Context, name: string, digest?: string): Promise<Skill> {
    const { store, attachments, metrics } = this.#deps;
    const { tenantId } = context.actor;
    const { row, version } = await this.#require(store.db, tenantId, name, digest);
    const skills = new SkillStore(store.db);
    metrics.skillReads.inc();
    return {
      name,
      enabled: row.is_enabled === 1,
      body: (await skills.file(tenantId, name, version.digest, MANIFEST))?.content ?? "",
      version: await this.#presentVersion(store.db, version),
      versions: (await skills.versions(tenantId, name)).map(({ digest, state, created_at }) => ({
        digest,
        state,
        createdAt: created_at,
      })),
      attachments: await attachments.visible(context, name),
    };
  }

  async file({ actor: { tenantId } }: Context, name: string, path: string, digest?: string): Promise<SkillFile> {
    const { store, metrics } = this.#deps;
    const { version } = await this.#require(store.db, tenantId, name, digest);
    const file = await new SkillStore(store.db).file(tenantId, name, version.digest, path);
    if (file === undefined) throw notFound("file of the skill");
    metrics.skillReads.inc();
    const { size, encoding, content } = file;
    return { path, digest: version.digest, size, encoding, content };
  }

  async approve({ actor }: Context, name: string, digest: string): Promise<SkillVersion> {
    return await this.#change(actor, name, async (tx, row) => {
      const skills = new SkillStore(tx.db);
      const version = await skills.version(actor.tenantId, name, digest);
      if (version === undefined) throw notFound("version of the skill");
      if (version.state === "approved") return await this.#presentVersion(tx.db, version);
      await skills.approve(actor.tenantId, name, digest, actor.principalId);
      await publish(tx, actor, row, "approved");
      return await this.#presentVersion(tx.db, { ...version, state: "approved", approved_by: actor.principalId });
    });
  }

  async update({ actor }: Context, name: string, isEnabled: boolean): Promise<void> {
    await this.#change(actor, name, async (tx, row) => {
      assertMayChange(actor, row);
      if (row.is_enabled === (isEnabled ? 1 : 0)) return;
      await new SkillStore(tx.db).put({ ...row, is_enabled: isEnabled ? 1 : 0 });
      await publish(tx, actor, row, isEnabled ? "enabled" : "disabled");
    });
  }

  async remove({ actor }: Context, name: string): Promise<void> {
    await this.#change(actor, name, async (tx, row) => {
      assertMayChange(actor, row);
      await new SkillStore(tx.db).remove(actor.tenantId, name);
      await publish(tx, actor, row, "removed");
    });
  }

  #change<Result>(actor: Actor, name: string, work: (tx: Tx, row: SkillRow) => Promise<Result>): Promise<Result> {
    return this.#deps.store.write(async (tx) => {
      await tx.lock(actor.tenantId, CHANGES_LOCK);
      const row = await new SkillStore(tx.db).find(actor.tenantId, name);
      if (row === undefined) throw notFound("skill");
      return await work(tx, row);
    });
  }

  async #require(
    db: AnyDatabase,
    tenantId: string,
    name: string,
    digest: string | undefined,
  ): Promise<{ row: SkillRow; version: SkillVersionRow }> {
    const skills = new SkillStore(db);
    const row = await skills.find(tenantId, name);
    const version = row && await skills.version(tenantId, name, digest ?? row.digest);
    if (row === undefined || version === undefined) throw notFound("skill or version");
    return { row, version };
  }

  async #presentVersion(db: AnyDatabase, row: SkillVersionRow): Promise<SkillVersion> {
    const { name: _name, ...metadata }: Frontmatter = JSON.parse(row.frontmatter_json);
    return {
      digest: row.digest,
      state: row.state,
      ...metadata,
      files: await new SkillStore(db).files(row.tenant_id, row.skill_name, row.digest),
      createdBy: row.created_by,
      createdAt: row.created_at,
      approvedBy: row.approved_by,
    };
  }
}

/** Who imported a skill first, and admins, change it. */
function assertMayChange(actor: Actor, { created_by }: SkillRow): void {
  if (created_by === actor.principalId || isAdmin(actor)) return;
  throw new Fault("forbidden", "The skill belongs to another principal; changing it requires the tenant role admin");
}

async function publish(tx: Tx, actor: Actor, { name, created_by }: SkillRow, change: string): Promise<void> {
  const stream = principalStream(created_by);
  await tx.emit({ tenantId: actor.tenantId, stream, type: "skill.updated", actor, data: { name, change } });
}
