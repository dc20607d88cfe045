// Who may do what with a webhook. Its creator manages it; admins of the tenant list, disable and delete all.
import { type Actor, hasScope, isAdmin, scopesOf } from "@/core/actor.ts";
import type { EventType } from "@/core/event/event.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Context } from "@/core/operation.ts";
import type { RoomAccess } from "@/modules/room/mod.ts";
import type { AnyTransaction } from "@/ports/store.ts";
import type { WebhookRow } from "./tables.ts";

/** The webhook, if the caller may see it. */
export function requireVisible(actor: Actor, row: WebhookRow | undefined): WebhookRow {
  if (row === undefined || row.creator_id !== actor.principalId && !isAdmin(actor)) throw notFound("webhook");
  return row;
}

/** The webhook, if the caller created it: deliveries show what its creator may read. */
export function requireOwn(actor: Actor, row: WebhookRow | undefined): WebhookRow {
  const visible = requireVisible(actor, row);
  if (visible.creator_id === actor.principalId) return visible;
  throw new Fault("forbidden", "Only its creator can do this; an admin can disable or delete the webhook");
}

/**
 * The webhook, if the caller created it, and its token has the scopes with which the webhook delivers. Otherwise a token could have
 * events sent to itself that it may not read.
 */
export function requireDirectable(
  actor: Actor,
  row: WebhookRow | undefined,
  roomEvents: readonly EventType[],
): WebhookRow {
  const own = requireOwn(actor, row);
  const delivered = { scopes: scopesOf(own.scopes) };
  const lacked = roomEvents.find(({ scope }) => hasScope(delivered, scope) && !hasScope(actor, scope));
  if (lacked === undefined) return own;
  throw new Fault(
    "scope_missing",
    `The caller's token lacks the scope ${lacked.scope}, with which the webhook delivers`,
  );
}

/** Throws unless the caller may have events of these rooms delivered, as the operation declares; of all its rooms, as an admin. */
export async function assertMayFollow(
  tx: AnyTransaction,
  roomAccess: RoomAccess,
  context: Context,
  roomIds: readonly string[] | null,
): Promise<void> {
  if (roomIds === null) {
    if (isAdmin(context.actor)) return;
    throw new Fault("forbidden", "A webhook of all rooms requires the tenant role admin; name rooms in roomIds");
  }
  // In the order of their ids, as rooms are locked everywhere.
  for (const roomId of [...roomIds].sort()) await roomAccess.require(context, roomId, { tx });
}
