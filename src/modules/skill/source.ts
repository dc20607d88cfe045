// The files of a skill as they are sent: as JSON, or as a zip archive whose directory is checked before anything is unpacked.
import { Buffer } from "node:buffer";
import { ArchiveFault, ZipArchive } from "@/modules/transfer/mod.ts";
import { FILES_MAX, type Problem, SKILL_MAX_BYTES, type SkillImport } from "./schema.ts";

/** Files by their path within the directory of the skill; `directory` is that of an archive. */
export type SourceFiles = { files: Map<string, Uint8Array>; directory: string | undefined; problems: Problem[] };

const PATH_MAX_CHARS = 200;
const SEGMENTS_MAX = 10;
/** Files of an archive, and folders above them. */
const ENTRIES_MAX = FILES_MAX * SEGMENTS_MAX;
const BLOB_KEY = "skill";

export async function readSource({ files, zip }: SkillImport): Promise<SourceFiles> {
  return zip === undefined ? fromJson(files ?? []) : await fromZip(zip);
}

/** What is wrong with paths and sizes. */
export function sourceProblems(files: ReadonlyMap<string, Uint8Array>): Problem[] {
  const problems: Problem[] = [];
  for (const path of files.keys()) {
    const detail = pathProblem(path);
    if (detail !== undefined) problems.push({ path: path.slice(0, PATH_MAX_CHARS), detail });
  }
  const bytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  if (bytes > SKILL_MAX_BYTES) problems.push({ path: "", detail: `expected at most ${SKILL_MAX_BYTES} bytes in all` });
  return problems;
}

function fromJson(files: NonNullable<SkillImport["files"]>): SourceFiles {
  const problems: Problem[] = [];
  const read = new Map<string, Uint8Array>();
  for (const { path, content } of files) {
    if (read.has(path)) problems.push({ path, detail: "this path appears twice" });
    read.set(path, Buffer.from(content, "utf8"));
  }
  return { files: read, directory: undefined, problems };
}

async function fromZip(zip: string): Promise<SourceFiles> {
  const problems: Problem[] = [];
  const read = new Map<string, Uint8Array>();
  const problem = (path: string, detail: string) => problems.push({ path: path.slice(0, PATH_MAX_CHARS), detail });
  let archive: ZipArchive;
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = Uint8Array.fromBase64(zip);
  } catch {
    problem("", "expected the archive as base64");
    return { files: read, directory: undefined, problems };
  }
  try {
    archive = await ZipArchive.open(blobOf(bytes), BLOB_KEY, bytes.length, ENTRIES_MAX);
  } catch (thrown) {
    if (!(thrown instanceof ArchiveFault)) throw thrown;
    problem("", `${thrown.failure.code}: ${thrown.failure.detail}`);
    return { files: read, directory: undefined, problems };
  }
  try {
    const { names } = archive;
    if (names.length > FILES_MAX) problem("", `expected at most ${FILES_MAX} files, received ${names.length}`);
    const total = names.reduce((sum, name) => sum + (archive.size(name) ?? 0), 0);
    if (total > SKILL_MAX_BYTES) problem("", `expected at most ${SKILL_MAX_BYTES} bytes in all, received ${total}`);
    for (const name of names) if (!archive.isRegular(name)) problem(name, "links and special files are not allowed");
    if (problems.length > 0) return { files: read, directory: undefined, problems };
    for (const name of names) read.set(name, await archive.read(name) ?? new Uint8Array());
  } catch (thrown) {
    if (!(thrown instanceof ArchiveFault)) throw thrown;
    problem("", `${thrown.failure.code}: ${thrown.failure.detail}`);
  } finally {
    archive.close();
  }
  return { ...withoutDirectory(read), problems };
}

/** Removes the one directory that all files of an archive are in. */
function withoutDirectory(
  files: Map<string, Uint8Array>,
): { files: Map<string, Uint8Array>; directory: string | undefined } {
  const [first = ""] = files.keys();
  const directory = first.slice(0, first.indexOf("/") + 1);
  const isShared = directory !== "" && [...files.keys()].every((path) => path.startsWith(directory));
  if (!isShared || files.has("SKILL.md")) return { files, directory: undefined };
  const inside = [...files].map(([path, content]) => [path.slice(directory.length), content] as const);
  return { files: new Map(inside), directory: directory.slice(0, -1) };
}

/** Why a path is not one within the directory of a skill; each check reads the text once. */
function pathProblem(path: string): string | undefined {
  if (path.length > PATH_MAX_CHARS) return `expected at most ${PATH_MAX_CHARS} characters`;
  if (path.includes("\\")) return "expected / between directories";
  if (/[\p{Cc}\p{Cf}]/u.test(path)) return "expected no control characters";
  const segments = path.split("/");
  if (segments.length > SEGMENTS_MAX) return `expected at most ${SEGMENTS_MAX} directories`;
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) {
    return "expected a path within the directory of the skill";
  }
  return undefined;
}

/** An archive in memory, as the reader of archives reads one. */
function blobOf(bytes: Uint8Array<ArrayBuffer>): Parameters<typeof ZipArchive.open>[0] {
  return {
    get: (_key, range = { start: 0, end: bytes.length }) =>
      Promise.resolve(new Blob([bytes.subarray(range.start, range.end)]).stream()),
  };
}
