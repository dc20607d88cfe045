// Tenants, principals, API tokens, revoked JWT ids.
import type { Migration } from "./migration.ts";

export const identity: Migration = {
  name: "0002_identity",
  async up(db) {
    await db.schema.createTable("tenant")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("settings_json", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .execute();
    await db.schema.createTable("principal")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.notNull())
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("handle", "text")
      .addColumn("display_name", "text", (column) => column.notNull())
      .addColumn("role", "text", (column) => column.notNull())
      .addColumn("role_set_at", "text")
      .addColumn("owner_id", "text")
      .addColumn("external_id", "text")
      .addColumn("avatar_file_id", "text")
      .addColumn("timezone", "text")
      .addColumn("locale", "text")
      .addColumn("prefs_json", "text", (column) => column.notNull())
      .addColumn("is_disabled", "integer", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("updated_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("principal_pk", ["tenant_id", "id"])
      .addUniqueConstraint("principal_handle", ["tenant_id", "handle"])
      .execute();
    await db.schema.createIndex("principal_owner").on("principal").columns(["tenant_id", "owner_id"])
      .where("owner_id", "is not", null).execute();
    await db.schema.createTable("api_token")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("principal_id", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("hash", "text", (column) => column.notNull().unique())
      .addColumn("scopes", "text", (column) => column.notNull())
      .addColumn("created_by", "text", (column) => column.notNull())
      .addColumn("created_at", "text", (column) => column.notNull())
      .addColumn("expires_at", "text", (column) => column.notNull())
      .addColumn("last_used_at", "text")
      .execute();
    await db.schema.createIndex("api_token_principal").on("api_token").columns(["tenant_id", "principal_id", "id"])
      .execute();
    await db.schema.createTable("revoked_jti")
      .addColumn("tenant_id", "text", (column) => column.notNull())
      .addColumn("jti", "text", (column) => column.notNull())
      .addColumn("expires_at", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("revoked_jti_pk", ["tenant_id", "jti"])
      .execute();
  },
};
