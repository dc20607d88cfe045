// Writes versions of skills, within the limits of a tenant.
import { Buffer } from "node:buffer";
import { type Clock, iso } from "@/core/time/clock.ts";
import { isSafeText } from "@/core/text/text.ts";
import type { Transaction } from "@/ports/store.ts";
import { MEMBER_MAX_BYTES, SKILLS_MAX, SKILLS_PER_MEMBER, TENANT_MAX_BYTES, VERSIONS_MAX } from "./schema.ts";
import { type SkillFileRow, type SkillRow, SkillStore, type SkillTables, type SkillVersionRow } from "./store.ts";
import type { ValidSkill } from "./validation.ts";

/** A stream without events: its lock serializes changes of the skills of a tenant. */
export const CHANGES_LOCK = "skill:changes";

/** Who adds it, and whom that counts for: only admins have no limits of their own. */
type Author = { tenantId: string; principalId: string; chargedId: string; isAdmin: boolean };

export class SkillWriter {
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds a version, pending, and makes it the newest; `present` if it exists. The caller may change the skill. */
  async add(
    tx: Transaction<SkillTables>,
    author: Author,
    { frontmatter, digest, files }: ValidSkill,
  ): Promise<"added" | "present" | "limit_reached"> {
    const { tenantId, principalId, chargedId } = author;
    const { name } = frontmatter;
    await tx.lock(tenantId, CHANGES_LOCK);
    const skills = new SkillStore(tx.db);
    const existing = await skills.find(tenantId, name);
    if (existing !== undefined && await skills.version(tenantId, name, digest) !== undefined) return "present";
    const size = [...files.values()].reduce((sum, { length }) => sum + length, 0);
    if (!await hasRoom(skills, author, existing, size)) return "limit_reached";
    const at = iso(this.#clock.now());
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
      charged_id: existing === undefined ? chargedId : existing.charged_id,
    });
    return "added";
  }
}

/** Whether one more version fits. The oldest ones that are not attached are dropped for it. */
async function hasRoom(
  skills: SkillStore,
  { tenantId, chargedId, isAdmin }: Author,
  existing: SkillRow | undefined,
  size: number,
): Promise<boolean> {
  const own = isAdmin ? { skills: 0, bytes: -Infinity } : await skills.chargedTo(tenantId, chargedId);
  const excess = Math.max(
    await skills.totalSize(tenantId) + size - TENANT_MAX_BYTES,
    own.bytes + size - MEMBER_MAX_BYTES,
  );
  if (existing === undefined) {
    return excess <= 0 && own.skills < SKILLS_PER_MEMBER && (await skills.list(tenantId)).length < SKILLS_MAX;
  }
  const versions = await skills.versions(tenantId, existing.name);
  const attached = new Set((await skills.attachments(tenantId, existing.name)).map(({ digest }) => digest));
  const dropped: SkillVersionRow[] = [];
  const isTooMuch = (): boolean =>
    excess > dropped.reduce((sum, version) => sum + version.size, 0) ||
    versions.length - dropped.length >= VERSIONS_MAX;
  for (const version of versions.toReversed()) {
    if (isTooMuch() && !attached.has(version.digest)) dropped.push(version);
  }
  if (isTooMuch()) return false;
  for (const { digest } of dropped) await skills.removeVersion(tenantId, existing.name, digest);
  return true;
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
