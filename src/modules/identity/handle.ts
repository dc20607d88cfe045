// Handles that new principals and groups get: free, and like their names.
import { hashText } from "@/core/crypto.ts";
import { Fault } from "@/core/fault.ts";
import { normalizeText } from "@/core/text/normalize.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { MENTION_ALL_HANDLES } from "./schema.ts";
import { IdentityStore, type PrincipalRow } from "./store.ts";

const HANDLE_MAX = 32;
/** `ada`, `ada-2` and so on, up to this. */
const NUMBER_MAX = 5;
/** A stream without events: its lock serializes those that take a handle. Principals and groups share them, and no index has both. */
const HANDLES_LOCK = "tenant:handles";

type Owner = Pick<PrincipalRow, "tenant_id" | "id">;

/**
 * Adds a principal unless its id exists, with a free handle like `name`, such as `ada-lovelace`; returns the row as added.
 * Without a name in Latin letters it has no handle, and is mentioned by its id.
 */
export async function addWithHandle(
  tx: AnyTransaction,
  row: PrincipalRow,
  name: string | undefined,
): Promise<PrincipalRow | undefined> {
  const identities = new IdentityStore(tx.db);
  const handles = name === undefined ? [] : await freeHandles(tx, row, name);
  for (const handle of [...handles, null]) {
    const added = { ...row, handle };
    if (await identities.addPrincipal(added)) return added;
    // Another one may have taken the handle meanwhile.
    if (await identities.principal(row.tenant_id, row.id) !== undefined) return undefined;
  }
  return undefined;
}

/** Adds a new principal with its handle, or else a free one; throws `handle_taken`, or `conflict` if its id exists. */
export async function addNew(tx: AnyTransaction, row: PrincipalRow): Promise<PrincipalRow> {
  if (row.handle === null) {
    const added = await addWithHandle(tx, row, row.display_name);
    if (added !== undefined) return added;
  } else {
    const identities = new IdentityStore(tx.db);
    await assertHandleFree(tx, row, row.handle);
    if (await identities.addPrincipal(row)) return row;
    if (await identities.principal(row.tenant_id, row.id) === undefined) throw handleTaken();
  }
  throw new Fault("conflict", `The principal ${row.id} already exists`);
}

/** Throws `handle_taken` if another principal or group has the handle, or a principal an id that reads the same in a mention. */
export async function assertHandleFree(tx: AnyTransaction, { tenant_id, id }: Owner, handle: string): Promise<void> {
  await lockHandles(tx, tenant_id);
  if ((await new IdentityStore(tx.db).takenNames(tenant_id, [handle], id)).size > 0) throw handleTaken();
}

/** A free handle like the name of a group; null for a name without Latin letters. It stays free until the commit. */
export async function freeHandle(tx: AnyTransaction, group: Owner, name: string): Promise<string | null> {
  const [handle = null] = await freeHandles(tx, { ...group, role: "member" }, name);
  return handle;
}

/** Those of these handles that new principals cannot have. The others stay free until the commit. */
export async function findTakenHandles(
  tx: AnyTransaction,
  tenantId: string,
  handles: readonly string[],
): Promise<Set<string>> {
  if (handles.length === 0) return new Set();
  await lockHandles(tx, tenantId);
  return new Set(await new IdentityStore(tx.db).takenNames(tenantId, handles, ""));
}

export function handleTaken(cause?: unknown): Fault {
  return new Fault("handle_taken", "Handle already taken", { cause });
}

async function lockHandles(tx: AnyTransaction, tenantId: string): Promise<void> {
  await tx.lock(tenantId, HANDLES_LOCK);
}

/** Handles to try, in order; free ones, locked until the commit. */
async function freeHandles(
  tx: AnyTransaction,
  { tenant_id, id, role }: Owner & Pick<PrincipalRow, "role">,
  name: string,
): Promise<string[]> {
  const base = baseOf(name);
  if (base === "") return [];
  await lockHandles(tx, tenant_id);
  const ofId = `${base}-${hashText(id).slice(0, 6)}`;
  // A number would show a guest that there are others with this name.
  if (role === "guest") return [ofId];
  const numbered = Array.from({ length: NUMBER_MAX }, (_, at) => at === 0 ? base : `${base}-${at + 1}`)
    .filter((handle) => handle !== "me" && !MENTION_ALL_HANDLES.includes(handle));
  const taken = await new IdentityStore(tx.db).takenNames(tenant_id, numbered, id);
  return [...numbered.filter((handle) => !taken.has(handle)), ofId];
}

/** The name as a handle. Of an address only the part before the @, since handles are shown to everybody. */
function baseOf(name: string): string {
  return normalizeText(name).replaceAll(/(?<=\S)@\S*/g, "").replaceAll(/[^a-z0-9]+/g, "-").replace(/^-/, "").slice(
    0,
    HANDLE_MAX,
  ).replace(/-$/, "");
}
