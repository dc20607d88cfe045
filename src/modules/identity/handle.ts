// Handles that new principals get: free, and like their names.
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { normalizeText } from "@/core/normalize.ts";
import { MENTION_ALL_HANDLES } from "./schema.ts";
import type { IdentityStore, PrincipalRow } from "./store.ts";

const HANDLE_MAX = 32;
/** `ada`, `ada-2` and so on, up to this. */
const NUMBER_MAX = 5;

/**
 * Adds a principal unless its id exists, with a free handle like `name`, such as `ada-lovelace`; returns the row as added.
 * Without a name in Latin letters it has no handle, and is mentioned by its id.
 */
export async function addWithHandle(
  identities: IdentityStore,
  row: PrincipalRow,
  name: string | undefined,
): Promise<PrincipalRow | undefined> {
  const handles = name === undefined ? [] : await freeHandles(identities, row, baseOf(name));
  for (const handle of [...handles, null]) {
    const added = { ...row, handle };
    if (await identities.addPrincipal(added)) return added;
    // Another one may have taken the handle meanwhile.
    if (await identities.principal(row.tenant_id, row.id) !== undefined) return undefined;
  }
  return undefined;
}

/** Adds a new principal with its handle, or else a free one; throws `handle_taken`, or `conflict` if its id exists. */
export async function addNew(identities: IdentityStore, row: PrincipalRow): Promise<PrincipalRow> {
  if (row.handle === null) {
    const added = await addWithHandle(identities, row, row.display_name);
    if (added !== undefined) return added;
  } else {
    await assertHandleFree(identities, row, row.handle);
    if (await identities.addPrincipal(row)) return row;
    if (await identities.principal(row.tenant_id, row.id) === undefined) throw handleTaken();
  }
  throw new Fault("conflict", `The principal ${row.id} already exists`);
}

/** Throws `handle_taken` if another principal has the handle, or an id that reads the same in a mention. */
export async function assertHandleFree(
  identities: IdentityStore,
  { tenant_id, id }: Pick<PrincipalRow, "tenant_id" | "id">,
  handle: string,
): Promise<void> {
  if ((await identities.takenNames(tenant_id, [handle], id)).size > 0) throw handleTaken();
}

export function handleTaken(cause?: unknown): Fault {
  return new Fault("handle_taken", "Handle already taken", { cause });
}

/** Handles to try, in order. */
async function freeHandles(
  identities: IdentityStore,
  { tenant_id, id, role }: PrincipalRow,
  base: string,
): Promise<string[]> {
  if (base === "") return [];
  const ofId = `${base}-${hashText(id).slice(0, 6)}`;
  // A number would show a guest that there are others with this name.
  if (role === "guest") return [ofId];
  const numbered = Array.from({ length: NUMBER_MAX }, (_, at) => at === 0 ? base : `${base}-${at + 1}`)
    .filter((handle) => handle !== "me" && !MENTION_ALL_HANDLES.includes(handle));
  const taken = await identities.takenNames(tenant_id, numbered, id);
  return [...numbered.filter((handle) => !taken.has(handle)), ofId];
}

/** The name as a handle. Of an address only the part before the @, since handles are shown to everybody. */
function baseOf(name: string): string {
  return normalizeText(name).replaceAll(/(?<=\S)@\S*/g, "").replaceAll(/[^a-z0-9]+/g, "-").replace(/^-/, "").slice(
    0,
    HANDLE_MAX,
  ).replace(/-$/, "");
}
