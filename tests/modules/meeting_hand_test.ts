// Raised hands: in the order they went up, known to everybody in the meeting, and down when their owner goes.
import assert from "node:assert/strict";
import { onEngines, onPostgres } from "../engines.ts";
import { type Caller, openGateway } from "../harness.ts";
import { type MeetingWorld, openWorld, PATH } from "./meeting_world.ts";
import { ok } from "./room_world.ts";
import { refused } from "./team.ts";

type Seat = { participantId: string };
type Seen = { principalId: string; handRaisedAt: string | null };

/** Whose hands are up, in their order. */
function order(people: readonly Seen[]): string[] {
  return people.filter(({ handRaisedAt }) => handRaisedAt !== null)
    .sort((a, b) => (a.handRaisedAt ?? "") < (b.handRaisedAt ?? "") ? -1 : 1).map(({ principalId }) => principalId);
}

async function hands(caller: Caller, meeting: { id: string }): Promise<string[]> {
  return order(ok(await caller.get(`${PATH}/${meeting.id}/participants`)).items);
}

function hand(caller: Caller, meeting: { id: string }, { participantId }: Seat, handRaised: unknown) {
  return caller.patch(`${PATH}/${meeting.id}/participants/${participantId}`, { handRaised });
}

async function told(world: MeetingWorld): Promise<[string, string, boolean][]> {
  return (await world.events()).filter(({ data }) => data.participant !== undefined).map(({ type, data }) => [
    type,
    data.participant.principalId,
    data.participant.handRaisedAt !== null,
  ]);
}

onEngines("hands stay in the order they went up, are told to all, and go down with who leaves", async (environment) => {
  await using world = await openWorld(environment);
  const { gateway, roomId } = world;
  const guest = await gateway.as("guest", { role: "guest" });
  ok(await guest.get("/v1/collaboration/me"));
  ok(await world.as("owner").put(`/v1/rooms/${roomId}/members/guest`), 201);
  const [member, other, owner] = [world.as("member"), world.as("other"), world.as("owner")];
  const meeting = await world.start();
  const seats = { member: await world.join(meeting, "member"), other: await world.join(meeting, "other") };
  const visitor = ok(await guest.post(`${PATH}/${meeting.id}/join`));
  assert.equal(visitor.participant.handRaisedAt, null);

  // The clock stands still, and yet no two are alike.
  assert.equal(ok(await hand(guest, meeting, visitor, true)).handRaisedAt, "2026-03-01T12:00:00.000Z");
  assert.equal(ok(await hand(other, meeting, seats.other, true)).handRaisedAt, "2026-03-01T12:00:00.001Z");
  ok(await hand(member, meeting, seats.member, true));
  const before = await world.events();
  // Once more keeps the place, and is told to nobody.
  assert.equal(ok(await hand(guest, meeting, visitor, true)).handRaisedAt, "2026-03-01T12:00:00.000Z");
  assert.deepEqual(await world.events(), before);
  for (const caller of [member, other, guest, owner]) {
    assert.deepEqual(await hands(caller, meeting), ["guest", "other", "member"]);
  }
  // Who comes later sees them, as does who comes again, whose own stays up.
  assert.deepEqual(order((await world.join(meeting, "owner")).participants), ["guest", "other", "member"]);
  assert.deepEqual(order((await world.join(meeting, "other")).participants), ["guest", "other", "member"]);
  ok(await world.call(meeting, "other", "heartbeat", seats.other.participantId));

  // The host lowers it; raised again it is the last.
  ok(await hand(member, meeting, visitor, false));
  assert.deepEqual(await hands(guest, meeting), ["other", "member"]);
  ok(await hand(guest, meeting, visitor, true));
  assert.deepEqual(await hands(guest, meeting), ["other", "member", "guest"]);
  ok(await hand(other, meeting, seats.other, false));
  assert.deepEqual(await hands(guest, meeting), ["member", "guest"]);
  assert.deepEqual((await told(world)).filter(([type]) => type === "meeting.updated"), [
    ["meeting.updated", "guest", true],
    ["meeting.updated", "other", true],
    ["meeting.updated", "member", true],
    ["meeting.updated", "guest", false],
    ["meeting.updated", "guest", true],
    ["meeting.updated", "other", false],
  ]);

  ok(await guest.post(`${PATH}/${meeting.id}/leave`, { participantId: visitor.participantId }), 204);
  assert.deepEqual((await told(world)).at(-1), ["meeting.participant_left", "guest", false]);
  assert.equal(ok(await guest.post(`${PATH}/${meeting.id}/join`)).participant.handRaisedAt, null);
  // By time alone as well.
  await world.pass(60);
  const late = await world.gateway.as("owner");
  assert.deepEqual(await hands(late, meeting), []);
  assert.ok((await told(world)).filter(([type]) => type === "meeting.participant_left").every(([, , isUp]) => !isUp));
});

onEngines("everybody raises their own hand, and moderators lower those of others", async (environment) => {
  await using world = await openWorld(environment);
  const meeting = await world.start({ lobby: true });
  const [member, other, moderator] = [world.as("member"), world.as("other"), world.as("moderator")];
  const host = await world.join(meeting, "member");
  const seat = await world.join(meeting, "other");
  assert.equal(seat.participant.state, "waiting");
  refused(await hand(other, meeting, seat, true), 409, "conflict");
  // Let in and raised for somebody else at once is refused whole.
  const path = `${PATH}/${meeting.id}/participants/${seat.participantId}`;
  refused(await member.patch(path, { admitted: true, handRaised: true }), 403, "forbidden");
  refused(await hand(other, meeting, seat, true), 409, "conflict");
  ok(await member.patch(path, { admitted: true }));

  ok(await hand(other, meeting, seat, true));
  for (const caller of [member, moderator, world.as("owner")]) {
    refused(await hand(caller, meeting, seat, true), 403, "forbidden");
  }
  refused(await hand(world.as("observer"), meeting, seat, false), 403, "forbidden");
  refused(await hand(world.as("outsider"), meeting, seat, false), 404, "not_found");
  ok(await hand(member, meeting, host, true));
  refused(await hand(other, meeting, host, false), 403, "forbidden");
  refused(await hand(moderator, meeting, host, false), 403, "forbidden");
  ok(await hand(moderator, meeting, seat, false));
  assert.deepEqual(await hands(other, meeting), ["member"]);
  for (const wrong of ["yes", 1, null]) refused(await hand(other, meeting, seat, wrong), 422, "validation_failed");
  refused(await hand(other, meeting, { participantId: "part_x" }, true), 404, "not_found");

  ok(await hand(other, meeting, seat, true));
  ok(await member.delete(path), 204);
  assert.deepEqual(await hands(member, meeting), ["member"]);
  ok(await world.call(meeting, "member", "end"));
  refused(await hand(member, meeting, host, false), 410, "gone");
  assert.deepEqual(await hands(member, meeting), []);
});

onPostgres("hands raised at nodes whose clocks differ are in the order they went up", async (environment) => {
  await using world = await openWorld(environment);
  await using node = await openGateway(environment);
  const meeting = await world.start();
  const [member, other] = [world.as("member"), await node.as("other")];
  const seats = [await world.join(meeting, "member"), await world.join(meeting, "other")] as const;
  world.gateway.clock.advance(3000);
  ok(await hand(member, meeting, seats[0], true));
  ok(await hand(other, meeting, seats[1], true));
  assert.deepEqual(await hands(other, meeting), ["member", "other"]);
  assert.deepEqual(await hands(member, meeting), ["member", "other"]);
});
