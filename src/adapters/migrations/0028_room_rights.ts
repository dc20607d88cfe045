// Who comes into a room is decided by its row, its members and its bans: a change of them gives the room's stream another number.
// Triggers, so that no change can be forgotten.
import { type Kysely, sql } from "kysely";
import { anotherNumber } from "./0027_stream_rights.ts";
import type { Migration } from "./migration.ts";

/** What decides, of a member and of a room. */
const OF_MEMBER = ["role", "joined_seq"];
const OF_ROOM = ["kind", "visibility", "history_visibility", "state", "member_count", "agent_policy_json"];

export const roomRights: Migration = {
  name: "0028_room_rights",
  async up(db, dialect) {
    if (dialect === "sqlite") return;
    // Many streams are locked in the order that everybody keeps.
    await sql`create function renew_rights_of_many() returns trigger language plpgsql as $$
      begin
        perform 1 from stream where (tenant_id, name) in (select tenant_id, 'room:' || room_id from changed)
          order by tenant_id, name for update;
        update stream set rights = ${anotherNumber}
          where (tenant_id, name) in (select tenant_id, 'room:' || room_id from changed);
        return null;
      end $$`.execute(db);
    for (const table of ["member", "ban"]) {
      for (const [change, rows] of [["insert", "new"], ["delete", "old"]]) {
        const [name, event, side] = [sql.id(`${table}_${change}_rights`), sql.raw(`${change}`), sql.raw(`${rows}`)];
        await sql`create trigger ${name} after ${event} on ${sql.id(table)} referencing ${side} table as changed
          for each statement execute function renew_rights_of_many()`.execute(db);
      }
    }
    await renewWith(db, "member", "room_id", OF_MEMBER);
    await renewWith(db, "room", "id", OF_ROOM);
  },
};

/** Another number for the room that `roomId` names in a row, when one of the columns changes. */
async function renewWith(
  db: Kysely<unknown>,
  table: string,
  roomId: string,
  columns: readonly string[],
): Promise<void> {
  const [renew, id] = [sql.id(`renew_rights_of_${table}`), sql.id(roomId)];
  await sql`create function ${renew}() returns trigger language plpgsql as $$
    begin
      update stream set rights = ${anotherNumber} where tenant_id = new.tenant_id and name = 'room:' || new.${id};
      return null;
    end $$`.execute(db);
  const [list, isOther] = [
    sql.join(columns.map((column) => sql.id(column))),
    sql.join(columns.map((column) => sql`old.${sql.id(column)} is distinct from new.${sql.id(column)}`), sql` or `),
  ];
  await sql`create trigger ${sql.id(`${table}_update_rights`)} after update of ${list} on ${sql.id(table)}
    for each row when (${isOther}) execute function ${renew}()`.execute(db);
}
