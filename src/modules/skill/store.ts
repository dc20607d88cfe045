// SQL of skills.
import type { Kysely } from "kysely";

export type SkillRow = {
  tenant_id: string;
  name: string;
  /** The newest version. */
  digest: string;
  is_enabled: number;
  created_by: string;
  created_at: string;
  /** Whom it counts for: its creator, or the owner of that; null, from before this was stored: its creator. */
  charged_id: string | null;
};
export type SkillVersionRow = {
  tenant_id: string;
  skill_name: string;
  digest: string;
  state: "pending" | "approved";
  frontmatter_json: string;
  size: number;
  created_by: string;
  created_at: string;
  approved_by: string | null;
};
export type SkillFileRow = {
  tenant_id: string;
  skill_name: string;
  digest: string;
  path: string;
  size: number;
  encoding: "utf8" | "base64";
  content: string;
};
type SkillAttachmentRow = {
  tenant_id: string;
  kind: "agent" | "room";
  subject_id: string;
  skill_name: string;
  digest: string;
  attached_by: string;
  attached_at: string;
};
export type SkillTables = {
  skill: SkillRow;
  skill_version: SkillVersionRow;
  skill_file: SkillFileRow;
  skill_attachment: SkillAttachmentRow;
};
export type Subject = Pick<SkillAttachmentRow, "kind" | "subject_id">;
/** A skill with its newest version. */
type ListedSkill = SkillRow & Pick<SkillVersionRow, "state" | "frontmatter_json">;

export class SkillStore {
  readonly #db: Kysely<SkillTables>;

  constructor(db: Kysely<SkillTables>) {
    this.#db = db;
  }

  find(tenantId: string, name: string): Promise<SkillRow | undefined> {
    return this.#db.selectFrom("skill").selectAll().where("tenant_id", "=", tenantId).where("name", "=", name)
      .executeTakeFirst();
  }

  /** All skills by name, with their newest versions. */
  list(tenantId: string): Promise<ListedSkill[]> {
    return this.#db.selectFrom("skill")
      .innerJoin(
        "skill_version as version",
        (join) =>
          join.onRef("version.tenant_id", "=", "skill.tenant_id").onRef("version.skill_name", "=", "skill.name")
            .onRef("version.digest", "=", "skill.digest"),
      )
      .selectAll("skill").select(["version.state", "version.frontmatter_json"])
      .where("skill.tenant_id", "=", tenantId).orderBy("skill.name").execute();
  }

  async put(row: SkillRow): Promise<void> {
    const { digest, is_enabled } = row;
    await this.#db.insertInto("skill").values(row)
      .onConflict((conflict) => conflict.columns(["tenant_id", "name"]).doUpdateSet({ digest, is_enabled })).execute();
  }

  version(tenantId: string, name: string, digest: string): Promise<SkillVersionRow | undefined> {
    return this.#db.selectFrom("skill_version").selectAll().where("tenant_id", "=", tenantId)
      .where("skill_name", "=", name).where("digest", "=", digest).executeTakeFirst();
  }

  /** The newest first. */
  versions(tenantId: string, name: string): Promise<SkillVersionRow[]> {
    return this.#db.selectFrom("skill_version").selectAll().where("tenant_id", "=", tenantId)
      .where("skill_name", "=", name).orderBy("created_at", "desc").orderBy("digest").execute();
  }

  /** Bytes of all skills of a tenant. */
  async totalSize(tenantId: string): Promise<number> {
    const row = await this.#db.selectFrom("skill_version").select(({ fn }) => fn.sum<number>("size").as("bytes"))
      .where("tenant_id", "=", tenantId).executeTakeFirst();
    return Number(row?.bytes ?? 0);
  }

  /** Skills that count for a principal, and the bytes of their versions. */
  async chargedTo(tenantId: string, principalId: string): Promise<{ skills: number; bytes: number }> {
    const row = await this.#db.selectFrom("skill")
      .innerJoin(
        "skill_version as version",
        (join) =>
          join.onRef("version.tenant_id", "=", "skill.tenant_id").onRef("version.skill_name", "=", "skill.name"),
      )
      .select(({ fn }) => [
        fn.count<number>("skill.name").distinct().as("skills"),
        fn.sum<number | null>("version.size").as("bytes"),
      ])
      .where("skill.tenant_id", "=", tenantId)
      .where(({ fn, ref }) => fn.coalesce(ref("skill.charged_id"), ref("skill.created_by")), "=", principalId)
      .executeTakeFirstOrThrow();
    return { skills: Number(row.skills), bytes: Number(row.bytes ?? 0) };
  }

  async addVersion(row: SkillVersionRow, files: readonly SkillFileRow[]): Promise<void> {
    await this.#db.insertInto("skill_version").values(row).execute();
    for (const file of files) await this.#db.insertInto("skill_file").values(file).execute();
  }

  async approve(tenantId: string, name: string, digest: string, approvedBy: string): Promise<void> {
    await this.#db.updateTable("skill_version").set({ state: "approved", approved_by: approvedBy })
      .where("tenant_id", "=", tenantId).where("skill_name", "=", name).where("digest", "=", digest).execute();
  }

  /** The files of a version, without their contents. */
  files(tenantId: string, name: string, digest: string): Promise<Pick<SkillFileRow, "path" | "size">[]> {
    return this.#db.selectFrom("skill_file").select(["path", "size"]).where("tenant_id", "=", tenantId)
      .where("skill_name", "=", name).where("digest", "=", digest).orderBy("path").execute();
  }

  file(tenantId: string, name: string, digest: string, path: string): Promise<SkillFileRow | undefined> {
    return this.#db.selectFrom("skill_file").selectAll().where("tenant_id", "=", tenantId)
      .where("skill_name", "=", name).where("digest", "=", digest).where("path", "=", path).executeTakeFirst();
  }

  async remove(tenantId: string, name: string): Promise<void> {
    for (const table of ["skill_attachment", "skill_file", "skill_version"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("skill_name", "=", name).execute();
    }
    await this.#db.deleteFrom("skill").where("tenant_id", "=", tenantId).where("name", "=", name).execute();
  }

  /** Removes a version that is not attached. */
  async removeVersion(tenantId: string, name: string, digest: string): Promise<void> {
    for (const table of ["skill_file", "skill_version"] as const) {
      await this.#db.deleteFrom(table).where("tenant_id", "=", tenantId).where("skill_name", "=", name)
        .where("digest", "=", digest).execute();
    }
  }

  attachments(tenantId: string, name: string): Promise<SkillAttachmentRow[]> {
    return this.#db.selectFrom("skill_attachment").selectAll().where("tenant_id", "=", tenantId)
      .where("skill_name", "=", name).orderBy("kind").orderBy("subject_id").execute();
  }

  attachmentsOf(tenantId: string, { kind, subject_id }: Subject): Promise<SkillAttachmentRow[]> {
    return this.#db.selectFrom("skill_attachment").selectAll().where("tenant_id", "=", tenantId)
      .where("kind", "=", kind).where("subject_id", "=", subject_id).orderBy("skill_name").execute();
  }

  /** What an agent may read: approved versions of enabled skills that are attached to it or to the room, by name. */
  readable(tenantId: string, agentId: string, roomId: string): Promise<(SkillVersionRow & Pick<Subject, "kind">)[]> {
    return this.#db.selectFrom("skill_attachment as attachment")
      .innerJoin(
        "skill",
        (join) =>
          join.onRef("skill.tenant_id", "=", "attachment.tenant_id").onRef("skill.name", "=", "attachment.skill_name"),
      )
      .innerJoin("skill_version as version", (join) =>
        join.onRef("version.tenant_id", "=", "attachment.tenant_id")
          .onRef("version.skill_name", "=", "attachment.skill_name")
          .onRef("version.digest", "=", "attachment.digest"))
      .selectAll("version").select("attachment.kind")
      .where("attachment.tenant_id", "=", tenantId).where("skill.is_enabled", "=", 1)
      .where("version.state", "=", "approved")
      .where(({ or, and, eb }) =>
        or([
          and([eb("attachment.kind", "=", "agent"), eb("attachment.subject_id", "=", agentId)]),
          and([eb("attachment.kind", "=", "room"), eb("attachment.subject_id", "=", roomId)]),
        ])
      )
      // What is attached to the agent counts before what is attached to the room.
      .orderBy("version.skill_name").orderBy("attachment.kind").execute();
  }

  async attach(row: SkillAttachmentRow): Promise<void> {
    const { digest, attached_by, attached_at } = row;
    await this.#db.insertInto("skill_attachment").values(row)
      .onConflict((conflict) =>
        conflict.columns(["tenant_id", "kind", "subject_id", "skill_name"])
          .doUpdateSet({ digest, attached_by, attached_at })
      ).execute();
  }

  /** Removes the attachments of a subject: that of one skill, or all; returns whether there were any. */
  async detach(tenantId: string, { kind, subject_id }: Subject, name?: string): Promise<boolean> {
    let query = this.#db.deleteFrom("skill_attachment").where("tenant_id", "=", tenantId).where("kind", "=", kind)
      .where("subject_id", "=", subject_id);
    if (name !== undefined) query = query.where("skill_name", "=", name);
    return (await query.returning("skill_name").execute()).length > 0;
  }

  /** Number of versions of all tenants, by state. */
  async countByState(): Promise<{ state: string; count: number }[]> {
    const rows = await this.#db.selectFrom("skill_version").select((
      { fn },
    ) => ["state", fn.countAll<number>().as("count")])
      .groupBy("state").execute();
    return rows.map(({ state, count }) => ({ state, count: Number(count) }));
  }
}
