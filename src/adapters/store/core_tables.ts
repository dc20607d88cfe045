// The tables every store has, as created by `migrations.ts`.
import type { Generated } from "kysely";
import type { JobRow } from "@/core/job.ts";

/** `access_version` is on PostgreSQL only. */
export type StreamRow = {
  tenant_id: string;
  name: string;
  epoch: string;
  head: number;
  floor: number;
  access_version: Generated<number>;
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

/** `status` is null until the work has a response; only the transaction that runs it sees that. */
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

/** `owner_id` is empty in the sum of a tenant. */
type WrittenRow = { day: string; tenant_id: string; owner_id: string; bytes: number };

type MigrationRow = { name: string; at: string };

export type CoreTables = {
  stream: StreamRow;
  event: EventRow;
  job: JobRow;
  idempotency: IdempotencyRow;
  migration: MigrationRow;
  written: WrittenRow;
};
