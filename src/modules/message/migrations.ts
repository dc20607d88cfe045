// Messages with their mentions, edits and reactions, and scheduled messages.
import { sql } from "kysely";
import type { Migration } from "@/core/migration.ts";
import { setTableStatistics } from "@/ports/sql/sqlite_statistics.ts";

const baseline: Migration = {
  name: "0001_baseline",
  async up(db) {
    await sql`create table message (
      tenant_id text not null,
      id text primary key,
      room_id text not null,
      seq bigint not null,
      sender_id text not null,
      sender_kind text not null,
      type text not null,
      text text,
      format text not null,
      thread_id text,
      reply_to_id text,
      mentions_json text not null,
      files_json text not null,
      elements_json text,
      reply_count integer not null,
      last_reply_at text,
      client_message_id text,
      fingerprint text,
      metadata_json text not null,
      pinned_at text,
      edited_at text,
      edit_count integer not null,
      deleted_at text,
      version integer not null,
      created_at text not null
    )`.execute(db);
    await sql`create unique index message_room_seq on message (room_id, seq)`.execute(db);
    await sql`create unique index message_client_id on message
      (room_id, sender_id, client_message_id) where client_message_id is not null`.execute(db);
    await sql`create index message_thread on message (thread_id, seq) where thread_id is not null`.execute(db);
    await sql`create index message_pinned on message (room_id, pinned_at) where pinned_at is not null`.execute(db);

    await sql`create table mention (
      tenant_id text not null,
      room_id text not null,
      seq bigint not null,
      principal_id text not null,
      message_id text not null,
      constraint mention_pk primary key (room_id, principal_id, seq)
    )`.execute(db);
    await sql`create index mention_message on mention (message_id)`.execute(db);

    await sql`create table message_edit (
      tenant_id text not null,
      message_id text not null,
      version integer not null,
      text text,
      editor_id text not null,
      at text not null,
      constraint message_edit_pk primary key (message_id, version)
    )`.execute(db);

    await sql`create table reaction (
      tenant_id text not null,
      message_id text not null,
      key text not null,
      principal_id text not null,
      created_at text not null,
      constraint reaction_pk primary key (message_id, key, principal_id)
    )`.execute(db);

    await sql`create table scheduled_message (
      tenant_id text not null,
      id text primary key,
      room_id text not null,
      sender_id text not null,
      client_message_id text,
      message_json text not null,
      send_at text not null,
      state text not null,
      failure_json text,
      version integer not null,
      created_at text not null
    )`.execute(db);
    await sql`create index scheduled_message_sender on scheduled_message (tenant_id, sender_id, id)`.execute(db);
    await sql`create unique index scheduled_message_client_id on scheduled_message
      (room_id, sender_id, client_message_id) where client_message_id is not null`.execute(db);
  },
};

/** What a scheduled message starts has no other scopes than the token that scheduled it. */
const senderScopes: Migration = {
  name: "0002_sender_scopes",
  async up(db) {
    await sql`alter table scheduled_message add column sender_scopes text`.execute(db);
  },
};

/** Who reacted is listed in the order of time, page by page. */
const reactionTimes: Migration = {
  name: "0003_reaction_times",
  async up(db) {
    await sql`create index reaction_time on reaction (message_id, created_at, key, principal_id)`.execute(db);
  },
};

/** Filters may decide otherwise about a repeat of the call than about the first one. */
const givenInput: Migration = {
  name: "0004_given_input",
  async up(db) {
    await sql`alter table scheduled_message add column given_json text`.execute(db);
  },
};

/** With the index of client ids, who has written in a room is found without reading the room. */
const senders: Migration = {
  name: "0005_index_senders",
  async up(db) {
    await sql`create index message_sender on message (room_id, sender_id) where client_message_id is null`.execute(db);
  },
};

/** What is listed of one sender, or of types that are rare, is found without reading the room. */
const listFilters: Migration = {
  name: "0006_index_list_filters",
  async up(db) {
    await sql`create index message_sender_seq on message (room_id, sender_id, seq)`.execute(db);
    await sql`drop index message_sender`.execute(db);
    await sql`create index message_type on message (room_id, type, seq) where type <> 'text'`.execute(db);
  },
};

/** Without them SQLite reads a room by its positions, since those are unique, for the messages of one sender. */
const senderSizes: Migration = {
  name: "0007_sender_statistics",
  async up(db, dialect) {
    if (dialect !== "sqlite") return;
    await setTableStatistics(db, {
      message: { message_room_seq: "1000000 1000 1", message_sender_seq: "1000000 1000 50 1" },
    });
  },
};

/** The threads of a principal are listed without reading those of others. */
const threadParticipants: Migration = {
  name: "0008_thread_participants",
  async up(db) {
    await sql`create table thread_participant (
      tenant_id text not null,
      message_id text not null,
      principal_id text not null,
      active_at text not null,
      constraint thread_participant_pk primary key (message_id, principal_id)
    )`.execute(db);
    await sql`create index thread_participant_active on thread_participant
      (tenant_id, principal_id, active_at, message_id)`.execute(db);
    const part = sql`select message.tenant_id, root.id as root_id, message.id, message.sender_id, message.created_at
      from message inner join message as root on root.id = coalesce(message.thread_id, message.id)
      where message.thread_id is not null or message.reply_count > 0`;
    await sql`insert into thread_participant (tenant_id, message_id, principal_id, active_at)
      select tenant_id, root_id, principal_id, max(created_at) from (
        select tenant_id, root_id, sender_id as principal_id, created_at from (${part}) as written
        union all
        select part.tenant_id, part.root_id, mention.principal_id, part.created_at from (${part}) as part
          inner join mention on mention.message_id = part.id where mention.principal_id <> '*'
      ) as taking_part group by tenant_id, root_id, principal_id`.execute(db);
  },
};

/** Who follows a thread without taking part, or takes part and does not follow it. */
const threadFollowing: Migration = {
  name: "0009_thread_following",
  async up(db) {
    await sql`alter table thread_participant add column following integer`.execute(db);
    await sql`drop index thread_participant_active`.execute(db);
    await sql`create index thread_participant_active on thread_participant
      (tenant_id, principal_id, active_at, message_id, following)`.execute(db);
  },
};

/** Append only. */
export const migrations: readonly Migration[] = [
  baseline,
  senderScopes,
  reactionTimes,
  givenInput,
  senders,
  listFilters,
  senderSizes,
  threadParticipants,
  threadFollowing,
];
