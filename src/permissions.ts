// Permissions that `deno task start` lacks for these settings, reported as the command that grants them.
import { dirname } from "node:path";
import { sqlitePathOf } from "@/adapters/open.ts";
import type { Config } from "@/config/config.ts";
import { outsideDirectories, permissionFlagsHint } from "@/config/permission_hint.ts";

/** Throws when folders of the settings are not permitted, naming the command that permits them. Creates missing ones. */
export async function ensureDirectories({ settings }: Config): Promise<void> {
  const database = sqlitePathOf(settings.SVC_DATABASE_URL);
  const directories = {
    SVC_DATABASE_URL: database === undefined || database === ":memory:" ? undefined : dirname(database),
    SVC_DATA_DIR: settings.SVC_DATA_DIR,
  };
  for (const [name, path] of Object.entries(directories)) {
    if (path === undefined) continue;
    const states = await Promise.all(
      (["read", "write"] as const).map((access) => Deno.permissions.query({ name: access, path })),
    );
    if (states.some(({ state }) => state !== "granted")) throw new Error(outsideDirectories(name, path));
    // Its parent may not be permitted. A failure is reported where the folder is first used.
    await Deno.mkdir(path, { recursive: true }).catch(() => {});
  }
}

/** How to permit a file or folder whose denied permission caused an error, if that is the cause. */
export function permissionHintFor(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (!(cause instanceof Deno.errors.NotCapable)) continue;
    const [, access, path = ""] = /^Requires (read|write) access to "([^"]+)"/.exec(cause.message) ?? [];
    return access === "read" || access === "write" ? permissionFlagsHint([access], path) : undefined;
  }
  return undefined;
}
