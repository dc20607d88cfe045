// The tables every store has, as made by `migrations/0001_core.ts`.
import type { Generated } from "kysely";

/** `rights` is on PostgreSQL only. */
export type StreamRow = {
  tenant_id: string;
  name: string;
  epoch: string;
  head: number;
  floor: number;
  rights: Generated<number>;
};

/** `effect` holds an `EventEffect` as JSON. */
export type EventRow = {
  tenant_id: string;
  stream: string;
  seq: number;
  type: string;
  at: string;
  json: string;
  effect: string | null;
};

export type JobState = "waiting" | "running" | "dead";

export type JobRow = {
  id: string;
  tenant_id: string;
  kind: string;
  payload: string;
  key: string | null;
  state: JobState;
  run_at: string;
  attempts: number;
  lease_until: string | null;
  lease_owner: string | null;
  last_error: string | null;
  created_at: string;
};

/** `status` is null until the work has answered; nobody sees that but the transaction that runs it. */
export type IdempotencyRow = {
  tenant_id: string;
  principal_id: string;
  method: string;
  path: string;
  key: string;
  fingerprint: string;
  status: number | null;
  headers: string | null;
  body: string | null;
  created_at: string;
};

export type MigrationRow = { name: string; at: string };

export type CoreTables = {
  stream: StreamRow;
  event: EventRow;
  job: JobRow;
  idempotency: IdempotencyRow;
  migration: MigrationRow;
};
