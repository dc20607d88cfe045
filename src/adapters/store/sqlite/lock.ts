// One gateway per SQLite file: a second one could write to it safely, but their clients would not receive each other's events.
// The owner of the lock also completes a restore.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { logOf } from "@/core/log.ts";

/** Files of the database are readable by the user of the gateway alone. */
export const FILE_MODE = 0o600;
/** Suffixes of a database's files: its log, the log's index, and last the database, without which SQLite would create a new one. */
export const FILE_SUFFIXES = ["-wal", "-shm", ""];

const log = logOf("store");

/** Another gateway uses the database. */
export class DatabaseInUse extends Error {}

/**
 * Locks the file at `path` for this process until disposed. The operating system releases it however the process ends.
 * Throws while another process has the lock.
 */
export async function lockDatabaseFile(path: string): Promise<Disposable> {
  mkdirSync(dirname(path), { recursive: true });
  // A link is another name of the same file.
  const real = await Deno.realPath(path).catch(() => path);
  const file = await Deno.open(`${real}.lock`, { write: true, create: true });
  if (!await file.tryLock(true)) {
    file.close();
    throw new DatabaseInUse(
      `SVC_DATABASE_URL: another gateway is using ${path}; stop it first (multiple gateways need PostgreSQL and ` +
        "Redis)",
    );
  }
  try {
    if (existsSync(restoreCandidate(real))) log.warn("completing an interrupted restore", swapDatabase(real));
  } catch (cause) {
    file.close();
    throw cause;
  }
  return file;
}

/** The path of a restored database, complete and synced, that is about to replace the one at `path`. */
export function restoreCandidate(path: string): string {
  return `${path}.restored`;
}

/**
 * Replaces the database at `path` by the restored one. This takes several steps: if it is interrupted, the next owner of the lock
 * repeats it. The old database is renamed after the time of the restore, so that its files stay together.
 */
export function swapDatabase(path: string): { old?: string } {
  const fresh = restoreCandidate(path);
  const hadOld = existsSync(path);
  const name = `${path}.replaced-${statSync(fresh).mtime.toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
  let old = name;
  for (let again = 2; existsSync(old); again++) old = `${name}-${again}`;
  // Its log is renamed with it: applied to another database, it would corrupt that.
  for (const end of FILE_SUFFIXES) {
    if (existsSync(`${path}${end}`)) renameSync(`${path}${end}`, `${old}${end}`);
  }
  renameSync(fresh, path);
  fsyncPath(dirname(path));
  return hadOld ? { old } : {};
}

/** Syncs a file or a folder to stable storage. */
export function fsyncPath(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
