// One gateway for one SQLite file: a second one would write to it safely, but clients of the two would not hear each other.
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";

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
  return file;
}
