// Changes of a principal's row: computed, and published.
import type { Actor } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { type EventActor, principalStream } from "@/core/event/event.ts";
import { Fault } from "@/core/fault.ts";
import type { PrincipalChange } from "@/core/module.ts";
import { flagOf, withoutUndefined } from "@/core/patch.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import { presentPrincipal } from "./presenter.ts";
import { nameSetByApi, withPreferences } from "./principal_settings.ts";
import type { MeUpdate, PrincipalUpdate } from "./schema.ts";
import { principalChanged, type PrincipalRow } from "./store.ts";

/** What its owner may change of an agent. */
type AgentPrincipalUpdate = Pick<PrincipalUpdate, "displayName" | "handle" | "disabled">;

/** The columns of a change through the API. */
export function updatedColumns(
  row: PrincipalRow,
  { displayName, handle, disabled }: AgentPrincipalUpdate,
): Partial<PrincipalRow> {
  return {
    ...nameSetByApi(row, displayName),
    ...withoutUndefined({ handle, is_disabled: flagOf(disabled) }),
  };
}

/** The columns of a change of its own. */
export function ownColumns(
  before: PrincipalRow,
  actor: Actor,
  input: Omit<MeUpdate, "version">,
  now: number,
): Partial<PrincipalRow> {
  const { handle, avatarFileId, timeZone, locale } = input;
  const row = { ...before, ...nameSetByApi(before, input.displayName) };
  return {
    display_name: row.display_name,
    ...withoutUndefined({ handle, avatar_file_id: avatarFileId, timezone: timeZone, locale }),
    prefs_json: withPreferences(row, actor, input),
    ...statusColumns(input.status, now),
  };
}

/** Whether the row already has these values. */
export function isUnchanged(row: PrincipalRow, set: Partial<PrincipalRow>): boolean {
  return Object.entries(set).every(([column, value]) => row[column as keyof PrincipalRow] === value); // a column of the one is one of the other
}

/** The changes of a principal on which other modules react. */
export function changesOf(before: PrincipalRow, after: PrincipalRow): PrincipalChange[] {
  const shown = ["handle", "display_name", "avatar_file_id", "status_text", "status_emoji", "status_until"] as const;
  const picture = before.avatar_file_id;
  return [
    ...before.is_disabled === after.is_disabled ? [] : [after.is_disabled === 1 ? "disabled" : "enabled"] as const,
    ...shown.some((column) => before[column] !== after[column]) ? ["profile"] as const : [],
    ...picture !== null && picture !== after.avatar_file_id ? ["picture"] as const : [],
  ];
}

/** Publishes a change. A principal that is disabled loses its connections. Without an actor, the gateway changed it. */
export async function publishChange(
  tx: AnyTransaction,
  { before, after }: { before: PrincipalRow; after: PrincipalRow },
  now: number,
  actor: EventActor | undefined,
): Promise<void> {
  const { tenant_id: tenantId, id } = after;
  const isEnding = changesOf(before, after).includes("disabled");
  await tx.emit({
    tenantId,
    stream: principalStream(id),
    type: isEnding ? "principal.disabled" : "principal.updated",
    actor,
    data: isEnding ? {} : { principal: presentPrincipal(after, now) },
    ...isEnding ? { effect: { kind: "disconnect", reason: "principal disabled" } } : {},
  });
  tx.signal(principalChanged.create(tenantId, id));
}

/** The columns of a new or cleared status; empty without a change. */
function statusColumns(status: MeUpdate["status"], now: number): Partial<PrincipalRow> {
  if (status === undefined) return {};
  const until = status?.until ?? null;
  if (until !== null && Date.parse(until) <= now) {
    throw Fault.forField("/status/until", "out_of_range", "expected a time in the future, or null");
  }
  return { status_text: status?.text ?? null, status_emoji: status?.emoji ?? null, status_until: until };
}

/** The time stored for a role set through the API: later than tokens issued now, which must not change it again. */
export function roleSetAt(clock: Clock): string {
  return iso(clock.now() + 1);
}
