// What a request makes the gateway write is a few times its size, and a little for each resource it changes and each person
// who is notified: however large the resources are already.
import assert from "node:assert/strict";
import { type Kysely, type RawBuilder, sql } from "kysely";
import { isReadOnly } from "@/core/operation.ts";
import { type Caller, type Harness, openGateway } from "../harness.ts";
import { requestFor } from "../operation_request.ts";
import { completeSearch, createCallers, createRoom, ok, sendMessage } from "./fixtures.ts";

/** Bytes written for each byte of a request: its row, an event, an earlier version, a stored response, the search index. */
const PER_BYTE = 8;
/** Bytes written for each resource that is changed, and each person who is notified; index entries are merged later. */
const PER_RESOURCE = 5000;

/** A stored response. */
const STORED_RESPONSE_BYTES = 65_536;
/**
 * Operations that touch nothing long, or write it as it was sent. Of what the text of a document is written with, see the
 * budget of bytes: each revision is stored whole.
 */
const SMALL: ReadonlySet<string> = new Set([
  "tenant.update",
  "retention.put",
  "me.update",
  "principal.create",
  "principal.update",
  "principal.disable",
  "erasure.create",
  "erasure.cancel",
  "group.create",
  "group.update",
  "group.delete",
  "group_member.add",
  "group_member.remove",
  "token.create",
  "token.revoke",
  "session.end",
  "invitation.create",
  "invitation.revoke",
  "hold.create",
  "hold.release",
  "job.retry",
  "job.discard",
  "notification.update",
  "notification.read_all",
  "inbox.pull",
  "inbox.ack",
  "push_subscription.create",
  "push_subscription.delete",
  "ban.remove",
  "file.delete",
  "reaction.remove",
  "read.put",
  "message.mark_unread",
  "unread.read_all",
  "scheduled_message.cancel",
  "thread.follow",
  "thread.unfollow",
  "saved_message.put",
  "saved_message.remove",
  "message.delete",
  "search.reindex",
  "vector.reindex",
  "task.release",
  "event.delete",
  "event.rsvp",
  "feed.create",
  "feed.delete",
  "calendar_import.create",
  "meeting.start",
  "meeting.end",
  "meeting.heartbeat",
  "meeting.leave",
  "meeting.update_participant",
  "meeting.remove_participant",
  "meeting.record",
  "meeting.stop_recording",
  "meeting.consent",
  "meeting.transcribe",
  "document.import",
  "document.delete",
  "document.restore",
  "document.unshare",
  "document.write",
  "document.edit",
  "document.revert",
  "comment.delete",
  "import.create",
  "import.cancel",
  "export.create",
  "provider.put",
  "provider.delete",
  "provider.test",
  "completion.create",
  "budget.put",
  "command.run",
  "action.invoke",
  "interaction.respond",
  "mcp_server.put",
  "mcp_server.delete",
  "mcp_server.test",
  "skill.import",
  "skill.validate",
  "skill.update",
  "skill.remove",
  "skill.approve",
  "skill.attach",
  "skill.detach",
  "plugin.install",
  "plugin.update",
  "plugin.grant",
  "plugin.enable",
  "plugin.disable",
  "plugin.uninstall",
  "plugin.respond",
  "plugin_filter.enable",
  "plugin_filter.disable",
  "oauth_request.decide",
  "oauth_application.revoke",
  "agent.delete",
  "memory.extract",
  "run.create",
  "run.cancel",
  "run.reply",
  "webhook.test",
  "delivery.replay",
  "run.append",
  "run.step",
  "run.finish",
  "approval.decide",
  "grant.revoke",
]);

const large = (name: string): string => `${name} `.repeat(3000).slice(0, 15_000);
const metadata = { note: "m".repeat(7000) };

type Input = Record<string, unknown>;
/** An operation, how many resources it changes and people it notifies, and its input. */
type Step = { operation: string; resources: number; input: Input };

/** Bytes of all values of all rows, those of the search index included. */
async function storedBytes({ app }: Harness): Promise<number> {
  const db = app.store.db as unknown as Kysely<unknown>;
  const tables = await sql<{ name: string }>`select name from sqlite_master where type = 'table'
    and sql not like 'create virtual%' and name not like 'sqlite_%'`.execute(db);
  let bytes = 0;
  for (const { name } of tables.rows) {
    const columns = await sql<{ name: string }>`select name from pragma_table_info(${name})`.execute(db);
    const lengths = columns.rows.map((column): RawBuilder<number> =>
      sql`coalesce(length(cast(${sql.ref(column.name)} as blob)), 0)`
    );
    const sum = await sql<{ bytes: number | null }>`select sum(${sql.join(lengths, sql` + `)}) as bytes
      from ${sql.table(name)}`.execute(db);
    bytes += Number(sum.rows[0]?.bytes ?? 0);
  }
  return bytes;
}

/** The same once all that was caused by calls before is written, so that no later call is taken for its cause. */
async function settledBytes(gateway: Harness, who: Caller): Promise<number> {
  await gateway.runJobs();
  await completeSearch(() => who.get("/v1/search?q=anything"));
  return await storedBytes(gateway);
}

const LONG_URL = `https://hooks.example.com/${"x".repeat(1900)}`;

/** A webhook, a hook and a command, as long as they can be. */
async function createLongHooks(
  who: Caller,
  roomId: string,
): Promise<{ webhookId: string; hookId: string; commandId: string }> {
  const others = await Promise.all(Array.from({ length: 49 }, () => createRoom(who, [])));
  const webhook = {
    url: LONG_URL,
    roomIds: [roomId, ...others],
    events: Array.from({ length: 50 }, () => "message.created"),
    description: "d".repeat(500),
    enabled: false,
  };
  const command = { roomId, name: "long", description: "d".repeat(200), displayName: "Long", url: LONG_URL };
  const [{ id: webhookId }, { id: hookId }, { id: commandId }] = [
    ok(await who.post("/v1/collaboration/webhooks", webhook)),
    ok(await who.post("/v1/collaboration/incoming", { roomId, displayName: "Long", description: "d".repeat(500) })),
    ok(await who.post("/v1/collaboration/slash-commands", command)),
  ];
  return { webhookId, hookId, commandId };
}

Deno.test("every writing operation writes a few times what it is sent, whatever it touches", async () => {
  await using gateway = await openGateway();
  const names = Array.from({ length: 30 }, (_, n) => `member${n}`);
  const { alice } = await createCallers(gateway, "alice");
  await createCallers(gateway, "bob", ...names);
  const roomId = await createRoom(alice, ["bob", ...names], { description: large("room").slice(0, 4000), metadata });
  const grouped = ["design", "paint", "print"];
  await createCallers(gateway, ...grouped);
  const boss = await gateway.as("boss", { role: "admin" });
  const group = ok(await boss.post("/v1/collaboration/groups", { name: "Design", description: "d".repeat(500) }));
  ok(await boss.post(`/v1/collaboration/groups/${group.id}/members`, { principalIds: [...grouped, ...names] }));
  const TASKS = "/v1/collaboration/tasks";
  const DOCUMENTS = "/v1/collaboration/documents";
  const taskIds: string[] = [];
  for (let n = 0; n < 20; n++) {
    taskIds.push(ok(await alice.post(TASKS, { roomId, title: `${n}`, description: large("task"), metadata })).id);
  }
  const [taskId = "", otherId = ""] = taskIds;
  const message = await sendMessage(alice, roomId, large("message"), { metadata });
  const attendees = names.map((principalId) => ({ principalId }));
  const when = { start: { dateTime: "2026-03-02T09:00:00", timeZone: "UTC" }, durationMinutes: 30 };
  const event = ok(
    await alice.post("/v1/collaboration/calendar/events", {
      roomId,
      title: "All",
      description: large("event"),
      attendees,
      ...when,
    }),
  );
  const document = ok(await alice.post(DOCUMENTS, { title: "Own", metadata }));
  for (const name of names.slice(0, 10)) {
    ok(await alice.put(`${DOCUMENTS}/${document.id}/access/${name}`, { role: "editor" }));
  }
  const comment = ok(
    await alice.post(`${DOCUMENTS}/${document.id}/comments`, { text: large("comment").slice(0, 4000) }),
  );
  const meeting = ok(await alice.post("/v1/collaboration/meetings", { roomId, title: "Now" }));
  const fact = ok(
    await alice.post("/v1/collaboration/memory/items", {
      scope: { type: "room", id: roomId },
      text: large("fact").slice(0, 4000),
      sourceMessageIds: [message.id],
    }),
  );
  const agent = ok(await alice.post("/v1/collaboration/agents", { displayName: "Helper", instructions: large("do") }));

  const long = await createLongHooks(alice, roomId);
  const hook = { displayName: "Hook", description: "d".repeat(500) };
  const command = { name: "other", description: "d".repeat(200), displayName: "Other", url: LONG_URL };

  const steps: Step[] = [
    { operation: "task.bulk", resources: 20, input: { ids: taskIds, patch: { priority: "high" } } },
    { operation: "task.create", resources: 1, input: { roomId, title: "new", description: large("new") } },
    { operation: "task.update", resources: 1, input: { id: taskId, title: "small" } },
    { operation: "task.update", resources: 20, input: { id: taskId, assigneeIds: names.slice(0, 10) } },
    { operation: "task.relate", resources: 2, input: { id: taskId, kind: "blocks", otherId } },
    { operation: "task.unrelate", resources: 2, input: { id: taskId, kind: "blocks", otherId } },
    { operation: "task.claim", resources: 1, input: { id: taskId } },
    { operation: "task.delete", resources: 1, input: { id: otherId } },
    { operation: "task.restore", resources: 1, input: { id: otherId } },
    { operation: "message.send", resources: 1, input: { roomId, text: large("sent") } },
    { operation: "message.update", resources: 1, input: { id: message.id, metadata: { small: 1 } } },
    { operation: "message.update", resources: 1, input: { id: message.id, text: large("edited") } },
    { operation: "reaction.add", resources: 1, input: { id: message.id, key: "👍" } },
    { operation: "pin.add", resources: 1, input: { id: message.id } },
    { operation: "pin.remove", resources: 1, input: { id: message.id } },
    { operation: "room.update", resources: 1, input: { id: roomId, name: "Renamed" } },
    { operation: "room_settings.update", resources: 1, input: { id: roomId, level: "mentions" } },
    { operation: "member.add_group", resources: 2 * grouped.length, input: { id: roomId, groupId: group.id } },
    { operation: "member.put", resources: 2, input: { id: roomId, principalId: "bob", role: "moderator" } },
    { operation: "member.remove", resources: 2, input: { id: roomId, principalId: "bob" } },
    { operation: "room.create", resources: 2 * 30, input: { name: "Other", memberIds: names, metadata } },
    {
      operation: "event.create",
      resources: 2 * 30,
      input: { title: "Big", description: large("x"), attendees, ...when },
    },
    { operation: "event.update", resources: 32, input: { id: event.id, title: "Moved" } },
    { operation: "document.create", resources: 1, input: { title: "D", roomId, text: large("text") } },
    { operation: "document.update", resources: 11, input: { id: document.id, title: "Renamed" } },
    { operation: "document.share", resources: 12, input: { id: document.id, principalId: "member11", role: "reader" } },
    { operation: "comment.create", resources: 13, input: { id: document.id, text: large("c").slice(0, 4000) } },
    { operation: "comment.update", resources: 13, input: { id: document.id, commentId: comment.id, resolved: true } },
    { operation: "meeting.join", resources: 1, input: { id: meeting.id, deviceId: "one" } },
    { operation: "meeting.update", resources: 1, input: { id: meeting.id, title: "Later" } },
    {
      operation: "memory.create",
      resources: 1,
      input: { scope: { type: "room", id: roomId }, text: large("f").slice(0, 4000) },
    },
    { operation: "memory.update", resources: 1, input: { id: fact.id, pinned: true } },
    { operation: "memory.forget", resources: 1, input: { id: fact.id } },
    { operation: "agent.create", resources: 2, input: { displayName: "A", instructions: large("agent") } },
    { operation: "agent.update", resources: 2, input: { id: agent.id, instructions: large("agent"), paused: true } },
    { operation: "webhook.create", resources: 1, input: { url: LONG_URL, roomIds: [roomId], enabled: false } },
    // Its event has the whole webhook, with 50 rooms and 50 types.
    { operation: "webhook.update", resources: 3, input: { id: long.webhookId, description: "short" } },
    { operation: "webhook.rotate", resources: 3, input: { id: long.webhookId } },
    { operation: "webhook_cursor.put", resources: 1, input: { id: long.webhookId, stream: `room:${roomId}`, seq: 0 } },
    { operation: "parked_event.replay", resources: 1, input: { id: long.webhookId } },
    { operation: "webhook.delete", resources: 1, input: { id: long.webhookId } },
    { operation: "hook.create", resources: 3, input: { roomId, ...hook } },
    { operation: "hook.update", resources: 3, input: { id: long.hookId, displayName: "Renamed" } },
    { operation: "hook.rotate", resources: 1, input: { id: long.hookId } },
    { operation: "hook.delete", resources: 3, input: { id: long.hookId } },
    { operation: "slash_command.create", resources: 3, input: { roomId, ...command } },
    { operation: "slash_command.update", resources: 3, input: { id: long.commandId, displayName: "Renamed" } },
    { operation: "slash_command.rotate", resources: 1, input: { id: long.commandId } },
    { operation: "slash_command.delete", resources: 3, input: { id: long.commandId } },
    { operation: "room.delete", resources: 32, input: { id: roomId } },
    { operation: "room.restore", resources: 32, input: { id: roomId } },
  ];
  const found: string[] = [];
  let before = await settledBytes(gateway, alice);
  for (const { operation, resources, input } of steps) {
    // The second time some have nothing left to do, which is to cost as little.
    for (const key of [undefined, crypto.randomUUID()]) {
      const known = gateway.app.operations.get(operation);
      assert.ok(known, operation);
      const { path, body } = requestFor(known, input);
      const headers = key === undefined ? {} : { "idempotency-key": key };
      const answer = await alice.call(known.http.method, path, body, headers);
      const after = await settledBytes(gateway, alice);
      const written = after - before;
      before = after;
      if (key === undefined) ok(answer);
      const request = path.length + JSON.stringify(body ?? {}).length;
      const most = PER_BYTE * request + PER_RESOURCE * resources + (key === undefined ? 0 : STORED_RESPONSE_BYTES);
      if (written > most) found.push(`${operation}: ${request} bytes had ${written} written, at most ${most}`);
    }
  }
  assert.deepEqual(found, []);

  const covered = new Set([...steps.map(({ operation }) => operation), ...SMALL]);
  const writing = [...gateway.app.operations.values()].filter((one) => !isReadOnly(one)).map(({ name }) => name);
  assert.deepEqual(
    writing.filter((name) => !covered.has(name)),
    [],
    "each operation that writes has a step here, or its name in SMALL",
  );
});
