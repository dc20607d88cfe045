// Skills of a tenant: each import is a version by its digest, which an admin approves before agents read it.
import { Buffer } from "node:buffer";
import { type Actor, isAtLeast, TENANT_ROLES } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { principalStream } from "@/core/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Metrics } from "@/core/metrics.ts";
import type { Context } from "@/core/operation.ts";
import { isSafeText } from "@/core/text.ts";
import type { AnyDatabase, Store, Transaction } from "@/ports/store.ts";
import type { SkillAttachments } from "./attachments.ts";
import {
  type ImportedSkill,
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
import { type SkillFileRow, type SkillRow, SkillStore, type SkillTables, type SkillVersionRow } from "./store.ts";
import { examine, type Frontmatter } from "./validation.ts";

/** A stream without events: its lock serializes changes of the skills of a tenant. */
const CHANGES_LOCK = "skill:changes";
const MANIFEST = "SKILL.md";

type Tx = Transaction<SkillTables>;
type Deps = { store: Store<SkillTables>; clock: Clock; metrics: Metrics; attachments: SkillAttachments };

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
    const { store, clock } = this.#deps;
    const { tenantId, principalId } = actor;
    const { problems, warnings, skill } = await examine(input);
    if (skill === undefined) {
      const [first] = problems;
      throw new Fault("skill_invalid", first === undefined ? "Not a skill" : `${first.path}: ${first.detail}`, {
        errors: problems.map(({ path, detail }) => ({ pointer: `/${path}`, code: "skill_invalid", detail })),
      });
    }
    const { frontmatter, digest, files } = skill;
    const { name } = frontmatter;
    return await store.write(async (tx) => {
      await tx.reserve(tenantId, CHANGES_LOCK, 0);
      const skills = new SkillStore(tx.db);
      const existing = await skills.find(tenantId, name);
      if (existing !== undefined) assertMayChange(actor, existing);
      const known = existing && await skills.version(tenantId, name, digest);
      if (known !== undefined) return { name, version: await this.#presentVersion(tx.db, known), warnings };
      const size = [...files.values()].reduce((sum, { length }) => sum + length, 0);
      await this.#assertRoom(skills, actor, existing, size);
      const at = iso(clock.now());
      const version: SkillVersionRow = {
        tenant_id: tenantId,
        skill_name: name,
        digest,
        state: "pending",
        frontmatter_json: JSON.stringify(frontmatter),
        size,
        created_by: principalId,
        created_at: at,
        approved_by: null,
      };
      await skills.addVersion(version, [...files].map(([path, content]) => fileRow(version, path, content)));
      await skills.put({
        tenant_id: tenantId,
        name,
        digest,
        is_enabled: existing?.is_enabled ?? 1,
        created_by: existing?.created_by ?? principalId,
        created_at: existing?.created_at ?? at,
      });
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
      await tx.reserve(actor.tenantId, CHANGES_LOCK, 0);
      const row = await new SkillStore(tx.db).find(actor.tenantId, name);
      if (row === undefined) throw notFound("skill");
      return await work(tx, row);
    });
  }

  /** Throws when there is no room for one more version. Of too many, the oldest that nothing has attached is dropped. */
  async #assertRoom(skills: SkillStore, actor: Actor, existing: SkillRow | undefined, size: number): Promise<void> {
    const { tenantId, principalId, role } = actor;
    if (existing === undefined) {
      const all = await skills.list(tenantId);
      if (all.length >= SKILLS_MAX) throw new Fault("limit_reached", `A tenant has at most ${SKILLS_MAX} skills`);
      const own = all.filter(({ created_by }) => created_by === principalId).length;
      if (!isAtLeast(TENANT_ROLES, role, "admin") && own >= SKILLS_PER_MEMBER) {
        throw new Fault("limit_reached", `A member has at most ${SKILLS_PER_MEMBER} skills`);
      }
    } else {
      const versions = await skills.versions(tenantId, existing.name);
      if (versions.length >= VERSIONS_MAX) {
        const attached = new Set((await skills.attachments(tenantId, existing.name)).map(({ digest }) => digest));
        const oldest = versions.findLast(({ digest }) => !attached.has(digest));
        if (oldest === undefined) throw new Fault("limit_reached", `A skill has at most ${VERSIONS_MAX} versions`);
        await skills.removeVersion(tenantId, existing.name, oldest.digest);
      }
    }
    if (await skills.totalSize(tenantId) + size > TENANT_MAX_BYTES) {
      throw new Fault("limit_reached", `The skills of a tenant have at most ${TENANT_MAX_BYTES} bytes`);
    }
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
function assertMayChange({ role, principalId }: Actor, { created_by }: SkillRow): void {
  if (created_by === principalId || isAtLeast(TENANT_ROLES, role, "admin")) return;
  throw new Fault("forbidden", "The skill belongs to another principal; changing it requires the tenant role admin");
}

async function publish(tx: Tx, actor: Actor, { name, created_by }: SkillRow, change: string): Promise<void> {
  const stream = principalStream(created_by);
  await tx.emit({ tenantId: actor.tenantId, stream, type: "skill.updated", actor, data: { name, change } });
}

function fileRow({ tenant_id, skill_name, digest }: SkillVersionRow, path: string, content: Uint8Array): SkillFileRow {
  const text = textOf(content);
  return {
    tenant_id,
    skill_name,
    digest,
    path,
    size: content.length,
    encoding: text === undefined ? "base64" : "utf8",
    content: text ?? Buffer.from(content).toString("base64"),
  };
}

/** The text of a file; `undefined` if it is none that can be stored as one. */
function textOf(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    return isSafeText(text) ? text : undefined;
  } catch {
    return undefined; // not UTF-8
  }
}
