// A room in which somebody can do everything, so that each operation that writes there has an input that works.
import type { ApiResponse, Caller, Harness } from "../harness.ts";
import { upload } from "./file/file_harness.ts";
import { createCallers, ok, sendMessage } from "./fixtures.ts";
import { installPlugin, manifestOf, PLUGINS } from "./plugin/plugin_fixture.ts";
import { inRoom, remember } from "./memory/memory_fixture.ts";

const API = "/v1/collaboration";
export const TOKEN_ID = "bobs-token";

type Inputs = Readonly<Record<string, Record<string, unknown>>>;
export type WriteRaceFixture = { bob: Caller; roomId: string; inputs: Inputs; upload: () => Promise<ApiResponse> };

/** Makes the room of alice and bob, both owners of it, with one of everything in it. */
export async function openWriteRaceFixture(gateway: Harness): Promise<WriteRaceFixture> {
  const { alice, carol } = await createCallers(gateway, "alice", "carol", "dora", "eve");
  const bob = await gateway.as("bob", { jti: TOKEN_ID });
  ok(await bob.get(`${API}/me`));
  const { id: roomId } = ok(await alice.post("/v1/rooms", { name: "Team", memberIds: ["bob", "carol"] }));
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  const make = async (path: string, body: Record<string, unknown>): Promise<string> =>
    ok(await bob.post(`${API}/${path}`, { roomId, ...body })).id;
  const task = (title: string) => make("tasks", { title });
  const page = (title: string) => make("documents", { title, text: "One two" });
  const event = (title: string) =>
    make("calendar/events", { title, start: { date: "2026-04-01" }, attendees: [{ principalId: "bob" }] });

  const { id: message } = await sendMessage(bob, roomId, "Hello");
  const elements = [{ kind: "button", id: "go", label: "Go" }];
  const robot = await gateway.as("robot", { kind: "service" });
  ok(await robot.get(`${API}/me`));
  ok(await alice.put(`/v1/rooms/${roomId}/members/robot`, { role: "member" }));
  const { id: pressable } = await sendMessage(robot, roomId, "Go?", { elements });
  const admin = await gateway.as("admin", { role: "admin" });
  const { id: groupId } = ok(await admin.post(`${API}/groups`, { name: "New here" }));
  ok(await admin.post(`${API}/groups/${groupId}/members`, { principalIds: ["eve"] }));
  const skill = async (name: string): Promise<Record<string, unknown>> => {
    const files = [{ path: "SKILL.md", content: `---\nname: ${name}\ndescription: Does it.\n---\n` }];
    const { digest } = ok(await admin.post(`${API}/skills`, { files })).version;
    ok(await admin.post(`${API}/skills/${name}/approve`, { digest }));
    return { name, kind: "room", subjectId: roomId, digest };
  };
  const [attached, unattached] = [await skill("one"), await skill("two")];
  ok(await alice.post(`${API}/skills/one/attach`, { ...attached, name: undefined }));
  const hooks = [{ on: "message.before_send" }];
  const filter = manifestOf({ scopes: ["message.read"], commands: [], actions: [], hooks });
  const [filtering, free] = ["org.example.one", "org.example.two"];
  for (const id of [filtering, free]) await installPlugin(admin, { ...filter, id });
  ok(await alice.put(`/v1/rooms/${roomId}/filters/${filtering}`));
  // Nothing responds for it: enabled, it would delay every message.
  ok(await admin.post(`${PLUGINS}/${filtering}/disable`));
  const { id: reacted } = await sendMessage(bob, roomId, "With a thumb");
  ok(await bob.put(`/v1/messages/${reacted}/reactions/👍`));
  ok(await bob.put(`/v1/messages/${reacted}/pin`));
  const file = ok(await upload(gateway, bob, { name: "a.txt" }, "text")).id;
  await sendMessage(bob, roomId, "With a file", { fileIds: [file] });
  const [one, other, deleted, related, claimed] = await Promise.all(["a", "b", "c", "d", "e"].map(task));
  ok(await bob.delete(`${API}/tasks/${deleted}`));
  ok(await bob.put(`${API}/tasks/${related}/relations/blocks/${other}`));
  ok(await bob.post(`${API}/tasks/${claimed}/claim`, { leaseSeconds: 300 }));
  const [doc, gone] = [await page("Notes"), await page("Gone")];
  ok(await bob.delete(`${API}/documents/${gone}`));
  const comment = ok(await bob.post(`${API}/documents/${doc}/comments`, { text: "Why?" })).id;
  const fact = (await remember(bob, inRoom(roomId), "Noted")).id;
  const { revision } = ok(
    await bob.patch(`${API}/documents/${doc}/content`, {
      baseRevision: 1,
      edits: [{ op: "replace", find: "two", with: "three" }],
    }),
  );
  const date = await event("Review");
  const meeting = await make("meetings", {});
  const own = ok(await bob.post(`${API}/meetings/${meeting}/join`, {})).participant.id;
  const theirs = ok(await carol.post(`${API}/meetings/${meeting}/join`, {})).participant.id;
  ok(await alice.delete(`/v1/rooms/${roomId}/members/dora?ban=true`));
  const { id: agentId } = ok(await bob.post(`${API}/agents`, { displayName: "Helper" }));
  const outside = await gateway.as("robo", { kind: "agent", owner: "bob" });
  ok(await outside.get(`${API}/me`));
  for (const agent of [agentId, "robo"]) ok(await bob.put(`/v1/rooms/${roomId}/members/${agent}`));
  const run = ok(await outside.post(`${API}/ai/runs`, { roomId })).id;
  const scheduled = { scheduledFor: "2026-03-05T09:00:00Z" };
  const ics = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//EN\r\nEND:VCALENDAR\r\n";

  const slash = { description: "Late", url: "https://hooks.example.com/", displayName: "Late" };
  const [hook, deletedHook] = await Promise.all(["CI", "Old"].map((displayName) => make("incoming", { displayName })));

  const inputs: Inputs = {
    "room.update": { id: roomId, topic: "New" },
    "room.delete": { id: roomId },
    "member.add_group": { id: roomId, groupId },
    "member.put": { id: roomId, principalId: "carol", role: "observer" },
    "member.remove": { id: roomId, principalId: "carol" },
    "ban.remove": { id: roomId, principalId: "dora" },
    "file.delete": { id: file },
    "reaction.add": { id: message, key: "👍" },
    "reaction.remove": { id: reacted, key: "👍" },
    "pin.add": { id: message },
    "pin.remove": { id: reacted },
    "message.send": { roomId, text: "Late" },
    "message.update": { id: message, text: "Late" },
    "message.delete": { id: message },
    "plugin_filter.enable": { id: roomId, pluginId: free },
    "plugin_filter.disable": { id: roomId, pluginId: filtering },
    "skill.attach": unattached,
    "skill.detach": { name: "one", kind: "room", subjectId: roomId },
    "action.invoke": { id: pressable, elementId: "go" },
    "command.run": { roomId, text: "/toy" },
    "slash_command.create": { ...slash, roomId, name: "late" },
    "slash_command.update": { id: await make("slash-commands", { ...slash, name: "changed" }), description: "Late" },
    "slash_command.rotate": { id: await make("slash-commands", { ...slash, name: "rotated" }) },
    "slash_command.delete": { id: await make("slash-commands", { ...slash, name: "old" }) },
    "hook.create": { roomId, displayName: "Late" },
    "hook.update": { id: hook, displayName: "Late" },
    "hook.rotate": { id: hook },
    "hook.delete": { id: deletedHook },
    "webhook.create": { url: "https://hooks.example.com/", roomIds: [roomId] },
    "task.create": { roomId, title: "Late" },
    "task.bulk": { ids: [one], patch: { status: "done" } },
    "task.update": { id: one, title: "Late" },
    "task.delete": { id: one },
    "task.restore": { id: deleted },
    "task.relate": { id: one, kind: "blocks", otherId: other },
    "task.unrelate": { id: related, kind: "blocks", otherId: other },
    "task.claim": { id: one, leaseSeconds: 300 },
    "task.release": { id: claimed },
    "event.create": { roomId, title: "Late", start: { date: "2026-04-02" } },
    "event.update": { id: date, title: "Late" },
    "event.delete": { id: date },
    "event.rsvp": { id: date, status: "accepted" },
    "calendar_import.create": { roomId, text: ics },
    "feed.create": { roomId },
    "run.create": { agentId, roomId, input: "Late" },
    "run.cancel": { id: run },
    "meeting.start": { roomId, ...scheduled },
    "meeting.update": { id: meeting, locked: true },
    "meeting.end": { id: meeting },
    "meeting.join": { id: meeting, deviceId: "laptop" },
    "meeting.heartbeat": { id: meeting, participantId: own },
    "meeting.leave": { id: meeting, participantId: own },
    "meeting.update_participant": { id: meeting, participantId: theirs, muted: true },
    "meeting.remove_participant": { id: meeting, participantId: theirs },
    "document.create": { roomId, title: "Late", text: "x" },
    "document.import": { roomId, markdown: "# Late" },
    "document.update": { id: doc, title: "Late" },
    "document.delete": { id: doc },
    "document.restore": { id: gone },
    "document.write": { id: doc, text: "Late", revision },
    "document.edit": { id: doc, baseRevision: revision, edits: [{ op: "append", text: "late" }] },
    "document.revert": { id: doc, revision: 1 },
    "memory.create": { scope: { type: "room", id: roomId }, text: "Late" },
    "memory.update": { id: fact, text: "Late" },
    "memory.forget": { id: fact },
    "comment.create": { id: doc, text: "Late" },
    "comment.update": { id: doc, commentId: comment, text: "Late" },
    "comment.delete": { id: doc, commentId: comment },
  };
  await gateway.runJobs();
  return { bob, roomId, inputs, upload: () => upload(gateway, bob, { name: "b.txt", roomId }, "late") };
}
