// Nobody writes in a room after the commit that took the right away: every operation, in both orders, against every such end.
//
// The database itself says when: whatever the gateway commits waits at its commit, by a trigger that runs there, and is undone
// by it, so that all operations meet the same room. The right ends over a connection of its own, as another node would end it.
import assert from "node:assert/strict";
import postgres from "postgres";
import { type FaultCode, FAULTS } from "@/core/fault.ts";
import { isReadOnly, type Operation } from "@/core/operation.ts";
import { type ApiResponse, openGateway } from "../harness.ts";
import { testOnPostgres } from "../engines.ts";
import { callOperation } from "../operation_request.ts";
import { eventually, until } from "../wait.ts";
import { ScriptedCommands } from "./command/command_fixture.ts";
import { insertMember } from "./postgres_node.ts";
import { openWriteRaceFixture, TOKEN_ID, type WriteRaceFixture } from "./write_race_fixture.ts";

/** Writes that have nothing to do with a room that is there, or write nothing in it, and why. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "room.create": "creates another room",
  "room.restore": "has a room without writers, whose rights are checked with its stream locked",
  "read.put": "moves a column of the caller's own membership, which is deleted with it",
  "message.mark_unread": "as read.put",
  "unread.read_all": "as read.put",
  "room_settings.update": "as read.put",
  "scheduled_message.cancel": "is of the caller's own",
  "thread.follow": "is of the caller's own",
  "thread.unfollow": "is of the caller's own",
  "saved_message.put": "is of the caller's own",
  "saved_message.remove": "is of the caller's own",
  "job.retry": "is of no room",
  "job.discard": "is of no room",
  "feed.delete": "is of the caller's own",
  "export.create": "is of the caller's own; the download checks again",
  "document.share": "is of private documents",
  "document.unshare": "is of private documents",
  "skill.import": "is of the tenant",
  "skill.validate": "writes nothing",
  "skill.update": "is of the tenant",
  "skill.remove": "is of the tenant",
  "skill.approve": "is of the tenant",
  "interaction.respond": "is of the caller's own; a message that it sends is checked as by message.send",
  "run.reply": "as run.cancel, of a run whose model has asked",
  "run.append": "is of the caller's own run, whose access is checked in the same transaction",
  "run.step": "as run.append",
  "run.finish": "as run.append; its message is checked as by message.send",
  "approval.decide": "as run.cancel, of a run that waits",
  "grant.revoke": "as run.cancel, of what was decided in a run",
  "meeting.record": "takes a media server; is checked as all of a meeting",
  "meeting.stop_recording": "as meeting.record",
  "meeting.consent": "as meeting.record",
  "meeting.transcribe": "as meeting.record",
  "webhook.update": "is of the caller's own; rooms that it names are checked as by webhook.create",
  "webhook.delete": "is of the caller's own",
  "webhook.rotate": "is of the caller's own",
  "webhook.test": "writes nothing",
  "memory.extract": "its facts are checked as by memory.create",
};
/** Modules that write in no room. */
const OUTSIDE =
  /^(plugin|tenant|retention|hold|me|principal|group|group_member|erasure|token|session|invitation|notification|inbox|push_subscription|search|import|provider|completion|budget|mcp_server|oauth_request|oauth_application|agent|delivery|parked_event|webhook_cursor|vector)\./;
/** At the commit, and undone by the trigger. */
const COMMITTED = 503;
const COMMIT_LOCK_KEY = 424_242;
/** Tables that are written in while nobody writes in a room: jobs, and the streams, which are locked by being written. */
const UNWATCHED = ["job", "stream", "migration", "idempotency"];

type Sql = postgres.Sql;
type Revocation = {
  name: string;
  lock: (sql: Sql, roomId: string) => Promise<unknown>;
  restore: (sql: Sql, roomId: string) => Promise<unknown>;
};

const lockRoom = (sql: Sql, roomId: string) => sql`update stream set head = head where name = ${`room:${roomId}`}`;
const lockPrincipalOrToken = (sql: Sql, key: string) => sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`;
const addBob = (sql: Sql, roomId: string) => insertMember(sql, roomId, "bob", "owner");

const REVOCATIONS: readonly Revocation[] = [{
  name: "is removed",
  async lock(sql, roomId) {
    await lockRoom(sql, roomId);
    await sql`delete from member where room_id = ${roomId} and principal_id = 'bob'`;
  },
  restore: addBob,
}, {
  name: "is banned",
  async lock(sql, roomId) {
    await lockRoom(sql, roomId);
    await sql`delete from member where room_id = ${roomId} and principal_id = 'bob'`;
    await sql`insert into ban (tenant_id, room_id, principal_id, created_by, created_at)
      values ('default', ${roomId}, 'bob', 'alice', '2026-03-01T12:00:00.000Z')`;
  },
  async restore(sql, roomId) {
    await sql`delete from ban where principal_id = 'bob'`;
    await addBob(sql, roomId);
  },
}, {
  name: "becomes an observer",
  async lock(sql, roomId) {
    await lockRoom(sql, roomId);
    await sql`update member set role = 'observer' where room_id = ${roomId} and principal_id = 'bob'`;
  },
  restore: (sql, roomId) => sql`update member set role = 'owner' where room_id = ${roomId} and principal_id = 'bob'`,
}, {
  name: "has the room archived",
  async lock(sql, roomId) {
    await lockRoom(sql, roomId);
    await sql`update room set state = 'archived' where id = ${roomId}`;
  },
  restore: (sql, roomId) => sql`update room set state = 'active' where id = ${roomId}`,
}, {
  name: "has the token revoked",
  async lock(sql) {
    await lockPrincipalOrToken(sql, `default token ${TOKEN_ID}`);
    await sql`insert into revoked_jti (tenant_id, jti, expires_at)
      values ('default', ${TOKEN_ID}, '2027-01-01T00:00:00.000Z')`;
  },
  restore: (sql) => sql`delete from revoked_jti`,
}, {
  name: "is disabled",
  async lock(sql) {
    await lockPrincipalOrToken(sql, "default principal bob");
    await sql`update principal set is_disabled = 1 where id = 'bob'`;
  },
  restore: (sql) => sql`update principal set is_disabled = 0 where id = 'bob'`,
}];
/** What may still be done after each: to decide for oneself, and to clean up what has ended. */
const STILL_ALLOWED: Readonly<Record<string, readonly string[]>> = {
  "is removed": ["event.rsvp"],
  "becomes an observer": ["action.invoke", "event.rsvp", "feed.create", "file.delete", "run.cancel"],
  "has the room archived": [
    "room.delete",
    "member.put",
    "member.remove",
    "file.delete",
    "meeting.end",
    "meeting.leave",
    "meeting.remove_participant",
    "memory.forget",
    "run.cancel",
  ],
};

testOnPostgres("nobody writes in a room after the commit that took the right away", async (environment) => {
  const commands = new ScriptedCommands("toy", { name: "toy" });
  await using gateway = await openGateway(environment, { modules: [() => commands.module()] });
  const world = await openWriteRaceFixture(gateway);
  const operations = [...gateway.app.operations.values()].filter((operation) =>
    !isReadOnly(operation) && !OUTSIDE.test(operation.name) && ELSEWHERE[operation.name] === undefined
  );
  assert.deepEqual(
    operations.map(({ name }) => name).sort(),
    Object.keys(world.inputs).sort(),
    "each operation that writes has an input in write_race_fixture.ts, or a reason here",
  );
  const options = { onnotice: () => {}, connection: { application_name: "other-node" } };
  const node = postgres(environment["SVC_DATABASE_URL"] ?? "", { ...options, max: 2 });
  try {
    await watchCommits(node);
    const failures: string[] = [];
    const failed = (error: Error) => failures.push(error.message.split("\n")[0] ?? "");
    for (const operation of operations) {
      await checkLocks(node, world, operation).catch(failed);
      for (const end of REVOCATIONS) await checkRevocation(node, world, operation, end).catch(failed);
    }
    assert.deepEqual(failures, []);
  } finally {
    await node.end();
  }
});

/** What the operation would commit waits for the right that it had: neither room nor standing can change before that. */
async function checkLocks(node: Sql, { bob, roomId, inputs }: WriteRaceFixture, operation: Operation): Promise<void> {
  const { name } = operation;
  await node.begin(async (sql) => {
    await sql`select pg_advisory_xact_lock(${COMMIT_LOCK_KEY})`;
    const calling = trackCall(callOperation(bob, operation, inputs[name] ?? {}));
    await until(async () => calling.answer !== undefined || await isAtCommit(node), `${name} commits`);
    assert.equal(calling.answer, undefined, `${name} writes nothing: ${JSON.stringify(calling.answer)}`);
    // Asked again: what waits first may be a job of the gateway, while the call is still on its way.
    await eventually(() => checkLocked(node, name, roomId));
    return calling;
  }).then(async (calling) => assert.equal(statusOf(await calling.done), COMMITTED, name));
}

async function checkLocked(node: Sql, name: string, roomId: string): Promise<void> {
  const free = await node`select 1 from stream where name = ${`room:${roomId}`} for update skip locked`;
  assert.equal(free.length, 0, `${name} commits without having locked the room`);
  for (const key of [`default token ${TOKEN_ID}`, "default principal bob"]) {
    const [row] = await node`select pg_try_advisory_xact_lock(hashtextextended(${key}, 0)) as is_free`;
    assert.equal(row?.["is_free"], false, `${name} commits without having locked ${key}`);
  }
}

/** A call whose right ends before its commit responds as one that comes after it. */
async function checkRevocation(
  node: Sql,
  { bob, roomId, inputs }: WriteRaceFixture,
  operation: Operation,
  end: Revocation,
): Promise<void> {
  const what = `${operation.name} of who ${end.name}`;
  const input = inputs[operation.name] ?? {};
  try {
    const calling = await node.begin(async (sql) => {
      await end.lock(sql as unknown as Sql, roomId);
      const calling = trackCall(callOperation(bob, operation, input));
      await until(async () => calling.answer !== undefined || await isWaiting(node), `${what} waits`);
      return calling;
    });
    const [raced, later] = [await calling.done, await callOperation(bob, operation, input)];
    assert.equal(statusOf(raced), statusOf(later), `${what}: ${JSON.stringify([raced.body, later.body])}`);
    const mayStill = STILL_ALLOWED[end.name]?.includes(operation.name) === true;
    assert.equal(statusOf(later) === COMMITTED, mayStill, `${what}: ${JSON.stringify(later.body)}`);
  } finally {
    await end.restore(node, roomId);
  }
}

/** The status, and of a call with several results that of the first. */
function statusOf({ status, body }: ApiResponse): number {
  const code: FaultCode | undefined = body?.results?.[0]?.error?.code;
  return code === undefined ? status : FAULTS[code].status;
}

type PendingCall = {
  answer: ApiResponse | undefined;
  done: Promise<ApiResponse>;
};

function trackCall(done: PendingCall["done"]): PendingCall {
  const calling: PendingCall = { answer: undefined, done };
  void done.then((answer) => calling.answer = answer);
  return calling;
}

/** Whether something of the gateway waits at its commit. */
async function isAtCommit(sql: Sql): Promise<boolean> {
  const waiting =
    await sql`select 1 from pg_locks where locktype = 'advisory' and objid = ${COMMIT_LOCK_KEY} and not granted`;
  return waiting.length > 0;
}

/** Whether something of the gateway waits for what is locked. */
async function isWaiting(sql: Sql): Promise<boolean> {
  const waiting = await sql`select 1 from pg_stat_activity where datname = current_database()
    and wait_event_type = 'Lock' and application_name <> 'other-node'`;
  return waiting.length > 0;
}

/** From here on whatever the gateway commits waits at its commit while the gate is closed, and is undone. */
async function watchCommits(sql: Sql): Promise<void> {
  await sql.unsafe(`create function at_commit() returns trigger language plpgsql as $$
    begin
      if current_setting('application_name') <> 'other-node' then
        perform pg_advisory_xact_lock_shared(${COMMIT_LOCK_KEY});
        raise exception 'undone by the test';
      end if;
      return null;
    end $$`);
  const tables = await sql`select tablename from pg_tables where schemaname = 'public'`;
  for (const { tablename } of tables) {
    if (UNWATCHED.includes(tablename)) continue;
    await sql.unsafe(`create constraint trigger at_commit after insert or update or delete on "${tablename}"
      deferrable initially deferred for each row execute function at_commit()`);
  }
}
