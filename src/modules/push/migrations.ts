// The table of push subscriptions.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";

const baseline: Migration = {
  name: "0001_push",
  async up(db) {
    await sql`create table push_subscription (
      tenant_id text not null,
      id text primary key,
      principal_id text not null,
      name text not null,
      endpoint text not null,
      p256dh text not null,
      auth text not null,
      application_key text not null,
      scopes text,
      role text not null,
      token_id text,
      pushed_id text not null,
      created_at text not null,
      renewed_at text not null,
      constraint push_subscription_endpoint unique (tenant_id, endpoint)
    )`.execute(db);
    await sql`create index push_subscription_principal on push_subscription (tenant_id, principal_id)`.execute(db);
    await sql`create index push_subscription_token on push_subscription
      (tenant_id, token_id) where token_id is not null`.execute(db);
    await sql`create index push_subscription_renewed on push_subscription (renewed_at)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [baseline];
