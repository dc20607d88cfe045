// Principals of hooks: each posts in one room, and has no tokens.
import { type Clock, iso } from "@/core/time/clock.ts";
import { principalEvent, principalStream } from "@/core/event/event.ts";
import { patchedOr } from "@/core/patch.ts";
import { presentPrincipal } from "./presenter.ts";
import { IdentityStore, newPrincipal, principalChanged, type PrincipalRow } from "./store.ts";
import type { AnyTransaction } from "@/ports/store.ts";

type ServiceProfile = { displayName: string; avatarFileId: string | null };

/** Creates the principal of a hook, with the lowest role in the tenant: it reaches only rooms that it is added to. */
export async function addHookPrincipal(
  tx: AnyTransaction,
  clock: Clock,
  { tenantId, id, displayName, avatarFileId }: ServiceProfile & { tenantId: string; id: string },
): Promise<PrincipalRow> {
  const row = newPrincipal(iso(clock.now()), {
    tenant_id: tenantId,
    id,
    kind: "service",
    display_name: displayName,
    avatar_file_id: avatarFileId,
    role: "guest",
    owner_id: null,
  });
  await new IdentityStore(tx.db).addPrincipal(row);
  return row;
}

/** Changes a principal's name and picture, or disables it. The caller enqueues what depends on a profile. */
export async function changeProfile(
  tx: AnyTransaction,
  clock: Clock,
  { tenantId, id }: { tenantId: string; id: string },
  change: Partial<ServiceProfile> & { isDisabled?: boolean },
): Promise<void> {
  const identities = new IdentityStore(tx.db);
  // What is read next stays the newest version until the commit.
  await tx.lock(tenantId, principalStream(id));
  const before = await identities.principal(tenantId, id);
  if (before === undefined) return;
  const set = {
    display_name: change.displayName ?? before.display_name,
    avatar_file_id: patchedOr(change.avatarFileId, before.avatar_file_id),
    is_disabled: change.isDisabled === true ? 1 : before.is_disabled,
    version: before.version + 1,
    updated_at: iso(clock.now()),
  };
  await identities.updatePrincipal(tenantId, id, set);
  await tx.emit(
    principalEvent({ tenantId }, id, "principal.updated", {
      principal: presentPrincipal({ ...before, ...set }, clock.now()),
    }),
  );
  tx.signal(principalChanged.create(tenantId, id));
}
