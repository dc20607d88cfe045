// What somebody reads whose settings need a permission that `deno task start` lacks: the command that grants it.

/** Refuses a folder of a setting. */
export function outsideDirectories(name: string, path: string): string {
  return `${name} is outside the directories that this process may access. ${
    permissionFlagsHint(["read", "write"], path)
  }`;
}

export function permissionFlagsHint(accesses: readonly ("read" | "write")[], path: string): string {
  const flags = accesses.map((access) => `--allow-${access}=${path}`).join(" ");
  return `Allow it with: GATEWAY_PERMISSIONS="${flags}" deno task start`;
}
