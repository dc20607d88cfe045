// The tables of outgoing webhooks, and those of other modules that their queries join.
import type { TenantRole } from "@/core/actor.ts";
import type { OUTCOMES, Webhook } from "./schema.ts";

export type WebhookRow = {
  tenant_id: string;
  id: string;
  creator_id: string;
  /** Role and scopes of the token that created it: it never receives more than that token could. */
  creator_role: TenantRole;
  /** Separated by spaces; null: every scope. */
  scopes: string | null;
  /** Whom it counts for, and whom delivery is charged to: the creator, or the owner of the agent that created it. */
  charged_id: string;
  /** Who is notified besides the creator when it is disabled; null: nobody. */
  responsible_id: string | null;
  url: string;
  description: string | null;
  events_json: string;
  room_ids_json: string | null;
  is_enabled: number;
  disabled_reason: Webhook["disabledReason"];
  secret_encrypted: string;
  previous_secret_encrypted: string | null;
  previous_until: string | null;
  /** Failed attempts since the last delivery. */
  failures: number;
  failing_since: string | null;
  next_attempt_at: string | null;
  last_error: string | null;
  /** The run that delivers it now, on some node. */
  lease_owner: string | null;
  lease_until: string | null;
  /** Attempts so far; the last ones are in `webhook_delivery`. */
  delivery_count: number;
  version: number;
  created_at: string;
  updated_at: string;
};

/** The rooms that a webhook names; null: all of its creator. */
export function roomIdsOf({ room_ids_json: json }: Pick<WebhookRow, "room_ids_json">): string[] | null {
  return json === null ? null : JSON.parse(json);
}

export type CursorRow = {
  tenant_id: string;
  webhook_id: string;
  stream: string;
  epoch: string;
  /** The last event that was handled. */
  seq: number;
  /** How often a person has moved it, so that a run which began before does not undo it. */
  puts: number;
  /** Streams that waited longest are next. */
  moved_at: string;
  /** Set where the creator may not read the room. */
  paused_until: string | null;
};

export type ParkedRow = {
  tenant_id: string;
  webhook_id: string;
  id: string;
  stream: string;
  epoch: string;
  seq: number;
  type: string;
  state: "parked" | "waiting";
  http_status: number | null;
  error: string | null;
  parked_at: string;
};

type Defaulted =
  | "responsible_id"
  | "previous_secret_encrypted"
  | "previous_until"
  | "failures"
  | "failing_since"
  | "next_attempt_at"
  | "last_error"
  | "lease_owner"
  | "lease_until"
  | "delivery_count"
  | "version"
  | "created_at"
  | "updated_at";

/** A webhook that has delivered nothing yet. */
export function newWebhookRow(
  given: Omit<WebhookRow, Defaulted> & Partial<Pick<WebhookRow, "responsible_id">>,
  now: string,
): WebhookRow {
  return {
    responsible_id: null,
    ...given,
    previous_secret_encrypted: null,
    previous_until: null,
    ...FRESH,
    lease_owner: null,
    lease_until: null,
    delivery_count: 0,
    version: 1,
    created_at: now,
    updated_at: now,
  };
}

/** What is known of an endpoint that has not failed. */
export const FRESH = { failures: 0, failing_since: null, next_attempt_at: null, last_error: null };

export type DeliveryRow = {
  tenant_id: string;
  webhook_id: string;
  slot: number;
  id: string;
  event_id: string;
  stream: string;
  epoch: string;
  seq: number;
  type: string;
  attempt: number;
  outcome: typeof OUTCOMES[number];
  http_status: number | null;
  error: string | null;
  duration_ms: number;
  at: string;
  next_attempt_at: string | null;
};

export type WebhookTables = {
  webhook: WebhookRow;
  webhook_cursor: CursorRow;
  webhook_parked: ParkedRow;
  webhook_delivery: DeliveryRow;
  stream: { tenant_id: string; name: string; epoch: string; head: number; floor: number };
  member: { tenant_id: string; room_id: string; principal_id: string; joined_seq: number };
  event: { tenant_id: string; stream: string; seq: number; at: string };
};
