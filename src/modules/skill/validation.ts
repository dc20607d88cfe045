// Validates skills by the rules of Agent Skills, with the validator of the MCP library, and by bounds of our own.
import { createHash } from "node:crypto";
import { BODY_MAX_BYTES, FILES_MAX, type Problem, type SkillImport } from "./schema.ts";
import { readSource, type SourceFiles, sourceProblems } from "./source.ts";
import { compareText } from "@/core/text/text.ts";

/** The file that every skill has. */
export const MANIFEST = "SKILL.md";
/** Longer ones are allowed, but cost every agent that reads them. */
const BODY_LINES_ADVISED = 500;
const KNOWN_FIELDS: ReadonlySet<string> = new Set([
  "name",
  "description",
  "license",
  "compatibility",
  "metadata",
  "allowed-tools",
]);
const PROBLEMS_MAX = 50;

/** The fields of `SKILL.md` that are stored. */
export type Frontmatter = {
  name: string;
  description: string;
  license: string | null;
  compatibility: string | null;
  allowedTools: string | null;
};
type Examined = {
  name: string | null;
  problems: Problem[];
  warnings: Problem[];
  /** Present if there are no problems. */
  skill: ValidSkill | undefined;
};
export type ValidSkill = { frontmatter: Frontmatter; digest: string; files: ReadonlyMap<string, Uint8Array> };

/** Looks at everything, so that all problems are known at once. */
export async function examine(input: SkillImport): Promise<Examined> {
  return await examineFiles(await readSource(input));
}

/** The same for files that were read. */
export async function examineFiles({ files, directory, problems: found }: SourceFiles): Promise<Examined> {
  const problems = [...found, ...sourceProblems(files)];
  const warnings: Problem[] = [];
  const refused = (name: string | null): Examined => ({
    name,
    problems: problems.slice(0, PROBLEMS_MAX),
    warnings,
    skill: undefined,
  });
  if (files.size > FILES_MAX) problems.push({ path: "", detail: `expected at most ${FILES_MAX} files` });
  const manifest = files.get(MANIFEST);
  if (manifest === undefined) {
    // An archive that cannot be read has no files to miss.
    if (problems.length === 0) problems.push({ path: MANIFEST, detail: "SKILL.md is missing" });
    return refused(null);
  }
  if (manifest.length > BODY_MAX_BYTES) {
    problems.push({ path: MANIFEST, detail: `expected at most ${BODY_MAX_BYTES} bytes` });
    return refused(null);
  }
  const name = directory ?? nameIn(manifest);
  // Paths that it cannot have would only be named twice.
  const checked = problems.length === 0 ? Object.fromEntries(files) : { [MANIFEST]: manifest };
  const entry = await entryOf(name ?? "skill", checked);
  if ("problems" in entry) problems.push(...entry.problems.map((detail) => ({ path: MANIFEST, detail })));
  if ("problems" in entry || problems.length > 0) return refused(name);
  const { frontmatter } = entry;
  for (const field of Object.keys(frontmatter)) {
    if (!KNOWN_FIELDS.has(field)) warnings.push({ path: MANIFEST, detail: `unknown field ${field.slice(0, 64)}` });
  }
  if (new TextDecoder().decode(manifest).split("\n").length > BODY_LINES_ADVISED) {
    const detail = `more than ${BODY_LINES_ADVISED} lines; move parts to files of their own`;
    warnings.push({ path: MANIFEST, detail });
  }
  const skill = { frontmatter: stored(frontmatter), digest: digestOf(files), files };
  return { name, problems, warnings: warnings.slice(0, PROBLEMS_MAX), skill };
}

/** The frontmatter of a valid skill, or what is wrong. The library is large, so it is loaded when it is needed first. */
async function entryOf(
  name: string,
  files: Record<string, Uint8Array>,
): Promise<{ frontmatter: Record<string, unknown> } | { problems: string[] }> {
  const { SkillCatalogError, skillEntry } = await import("@modelcontextprotocol/server/ext/skills");
  try {
    return { frontmatter: { ...(await skillEntry(name, files)).frontmatter } };
  } catch (thrown) {
    if (SkillCatalogError.isInstance(thrown)) return { problems: thrown.problems.map(({ message }) => message) };
    // A name or path that it does not take at all.
    if (thrown instanceof TypeError || thrown instanceof URIError) return { problems: [thrown.message] };
    throw thrown;
  }
}

function stored(frontmatter: Record<string, unknown>): Frontmatter {
  const textOf = (field: string): string | null => {
    const value = frontmatter[field];
    if (typeof value === "string") return value.slice(0, 2000);
    return Array.isArray(value) ? value.map(String).join(" ").slice(0, 2000) : null;
  };
  return {
    name: textOf("name") ?? "",
    description: textOf("description") ?? "",
    license: textOf("license"),
    compatibility: textOf("compatibility"),
    allowedTools: textOf("allowed-tools"),
  };
}

/** The name that the frontmatter says, for files that are in no directory; the validator reads the frontmatter itself. */
function nameIn(manifest: Uint8Array): string | null {
  const lines = new TextDecoder().decode(manifest).split("\n").slice(0, 200).map((line) => line.trimEnd());
  const end = lines.indexOf("---", 1);
  const line = lines.slice(1, end < 0 ? 1 : end).find((one) => one.startsWith("name:"));
  const value = line?.slice("name:".length).trim() ?? "";
  const quote = value[0];
  const isQuoted = value.length > 1 && (quote === '"' || quote === "'") && value.endsWith(quote);
  const name = isQuoted ? value.slice(1, -1) : value;
  return name === "" ? null : name.slice(0, 100);
}

/** The same for the same files, in whatever order and archive they came. */
function digestOf(files: ReadonlyMap<string, Uint8Array>): string {
  const digest = createHash("sha256");
  for (const [path, content] of [...files].toSorted(([a], [b]) => compareText(a, b))) {
    digest.update(`${path}\0${createHash("sha256").update(content).digest("hex")}\n`);
  }
  return digest.digest("hex");
}
