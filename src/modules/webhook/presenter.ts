// Webhooks as clients see them.
import type { Webhook, WebhookDelivery } from "./schema.ts";
import { type DeliveryRow, roomIdsOf, type WebhookRow } from "./tables.ts";

/** `roomIds`: those of its rooms that the caller may see; absent for its creator, who chose them. */
export function presentWebhook(
  row: WebhookRow,
  { parkedCount, now, roomIds }: { parkedCount: number; now: number; roomIds?: ReadonlySet<string> },
): Webhook {
  const chosen = roomIdsOf(row);
  const isOverlapping = row.previous_until !== null && Date.parse(row.previous_until) > now;
  return {
    id: row.id,
    url: row.url,
    events: JSON.parse(row.events_json),
    roomIds: roomIds === undefined ? chosen : chosen?.filter((id) => roomIds.has(id)) ?? null,
    description: row.description,
    enabled: row.is_enabled === 1,
    state: row.is_enabled === 0 ? "disabled" : row.failures > 0 ? "retrying" : "active",
    disabledReason: row.disabled_reason,
    failingSince: row.failing_since,
    nextAttemptAt: row.next_attempt_at,
    lastError: row.last_error,
    parkedCount,
    previousSecretUntil: isOverlapping ? row.previous_until : null,
    createdBy: row.creator_id,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export function presentDelivery(row: DeliveryRow): WebhookDelivery {
  return {
    id: row.id,
    eventId: row.event_id,
    stream: row.stream,
    epoch: row.epoch,
    seq: row.seq,
    type: row.type,
    attempt: row.attempt,
    outcome: row.outcome,
    httpStatus: row.http_status,
    error: row.error,
    durationMs: row.duration_ms,
    at: row.at,
    nextAttemptAt: row.next_attempt_at,
  };
}
