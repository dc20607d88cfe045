// One gateway for one SQLite file: a second one would write to it safely, but clients of the two would not hear each other.
// Whoever has it is the one to bring what was restored into its place.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { logOf } from "@/core/log.ts";

/** Ends of the names of a database's files: its log, the index of that, and last itself, without which it would be made anew. */
export const ENDS = ["-wal", "-shm", ""];

const log = logOf("store");

/**
 * Holds the file at `path` for this process until disposed. The system lets go of it however the process ends.
 * Throws while another process holds it.
 */
export async function claimSqlite(path: string): Promise<Disposable> {
  mkdirSync(dirname(path), { recursive: true });
  // A link to it is another name for the same file.
  const real = await Deno.realPath(path).catch(() => path);
  const file = await Deno.open(`${real}.lock`, { write: true, create: true });
  if (!await file.tryLock(true)) {
    file.close();
    throw new Error(`Another gateway has ${path} open; several need PostgreSQL and Redis`);
  }
  try {
    if (existsSync(restoredOf(real))) log.warn("a restore that was cut off is brought to its end", replace(real));
  } catch (cause) {
    file.close();
    throw cause;
  }
  return file;
}

/** Where a database that was restored, whole and synced, waits to take the place of the one at `path`. */
export function restoredOf(path: string): string {
  return `${path}.restored`;
}

/**
 * Puts what was restored in the place of the database at `path`. No single step does that, so it is done again by the next
 * who claims the database if this ends in the middle: the old one gets its new name, if there is one, from the time of the
 * restore, so that its files stay together.
 */
export function replace(path: string): { old?: string } {
  const fresh = restoredOf(path);
  const hadOld = existsSync(path);
  const name = `${path}.replaced-${statSync(fresh).mtime.toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
  let old = name;
  for (let again = 2; existsSync(old); again++) old = `${name}-${again}`;
  // Its log goes with it: read into another database, it would destroy that.
  for (const end of ENDS) {
    if (existsSync(`${path}${end}`)) renameSync(`${path}${end}`, `${old}${end}`);
  }
  renameSync(fresh, path);
  sync(dirname(path));
  return hadOld ? { old } : {};
}

/** Makes what was written to a file, or to a folder, last. */
export function sync(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
