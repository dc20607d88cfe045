// Raised hands: in the order of raising, published to the meeting, and lowered when the participant leaves.
import assert from "node:assert/strict";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Caller, openGateway } from "../../harness.ts";
import { type MeetingFixture, openMeetingFixture, PATH } from "./meeting_fixture.ts";
import { ok } from "../room/room_fixture.ts";
import { assertProblem, createCaller } from "../fixtures.ts";

type Participation = { participantId: string };
type SeenParticipant = { principalId: string; handRaisedAt: string | null };

/** Principals with a raised hand, in order. */
function order(participants: readonly SeenParticipant[]): string[] {
  return participants.filter(({ handRaisedAt }) => handRaisedAt !== null)
    .sort((a, b) => (a.handRaisedAt ?? "") < (b.handRaisedAt ?? "") ? -1 : 1).map(({ principalId }) => principalId);
}

async function hands(caller: Caller, meeting: { id: string }): Promise<string[]> {
  return order(ok(await caller.get(`${PATH}/${meeting.id}/participants`)).items);
}

function raiseHand(caller: Caller, meeting: { id: string }, { participantId }: Participation, handRaised: unknown) {
  return caller.patch(`${PATH}/${meeting.id}/participants/${participantId}`, { handRaised });
}

async function readHandEvents(fixture: MeetingFixture): Promise<[string, string, boolean][]> {
  return (await fixture.readEvents()).filter(({ data }) => data.participant !== undefined).map(({ type, data }) => [
    type,
    data.participant.principalId,
    data.participant.handRaisedAt !== null,
  ]);
}

testOnEngines(
  "hands are in the order of raising, published to all, and lowered when the participant leaves",
  async (environment) => {
    await using fixture = await openMeetingFixture(environment);
    const { gateway, roomId } = fixture;
    const guest = await createCaller(gateway, "guest", { role: "guest" });
    ok(await fixture.as("owner").put(`/v1/rooms/${roomId}/members/guest`), 201);
    const [member, other, owner] = [fixture.as("member"), fixture.as("other"), fixture.as("owner")];
    const meeting = await fixture.start();
    const seats = { member: await fixture.join(meeting, "member"), other: await fixture.join(meeting, "other") };
    const visitor = ok(await guest.post(`${PATH}/${meeting.id}/join`));
    assert.equal(visitor.participant.handRaisedAt, null);

    // The clock does not advance, but no two times are equal.
    assert.equal(ok(await raiseHand(guest, meeting, visitor, true)).handRaisedAt, "2026-03-01T12:00:00.000Z");
    assert.equal(ok(await raiseHand(other, meeting, seats.other, true)).handRaisedAt, "2026-03-01T12:00:00.001Z");
    ok(await raiseHand(member, meeting, seats.member, true));
    const before = await fixture.readEvents();
    // Raising it again retains the position and is not published.
    assert.equal(ok(await raiseHand(guest, meeting, visitor, true)).handRaisedAt, "2026-03-01T12:00:00.000Z");
    assert.deepEqual(await fixture.readEvents(), before);
    for (const caller of [member, other, guest, owner]) {
      assert.deepEqual(await hands(caller, meeting), ["guest", "other", "member"]);
    }
    // Later participants see them, as does one who joins again with a raised hand.
    assert.deepEqual(order((await fixture.join(meeting, "owner")).participants), ["guest", "other", "member"]);
    assert.deepEqual(order((await fixture.join(meeting, "other")).participants), ["guest", "other", "member"]);
    ok(await fixture.call(meeting, "other", "heartbeat", seats.other.participantId));

    // The host lowers it; raised again it is the last.
    ok(await raiseHand(member, meeting, visitor, false));
    assert.deepEqual(await hands(guest, meeting), ["other", "member"]);
    ok(await raiseHand(guest, meeting, visitor, true));
    assert.deepEqual(await hands(guest, meeting), ["other", "member", "guest"]);
    ok(await raiseHand(other, meeting, seats.other, false));
    assert.deepEqual(await hands(guest, meeting), ["member", "guest"]);
    assert.deepEqual((await readHandEvents(fixture)).filter(([type]) => type === "meeting.updated"), [
      ["meeting.updated", "guest", true],
      ["meeting.updated", "other", true],
      ["meeting.updated", "member", true],
      ["meeting.updated", "guest", false],
      ["meeting.updated", "guest", true],
      ["meeting.updated", "other", false],
    ]);

    ok(await guest.post(`${PATH}/${meeting.id}/leave`, { participantId: visitor.participantId }), 204);
    assert.deepEqual((await readHandEvents(fixture)).at(-1), ["meeting.participant_left", "guest", false]);
    assert.equal(ok(await guest.post(`${PATH}/${meeting.id}/join`)).participant.handRaisedAt, null);
    // Also by expiry.
    await fixture.advance(60);
    const late = await fixture.gateway.as("owner");
    assert.deepEqual(await hands(late, meeting), []);
    assert.ok(
      (await readHandEvents(fixture)).filter(([type]) => type === "meeting.participant_left").every(([, , isUp]) =>
        !isUp
      ),
    );
  },
);

testOnEngines("participants raise their own hand only, and moderators lower those of others", async (environment) => {
  await using fixture = await openMeetingFixture(environment);
  const meeting = await fixture.start({ lobby: true });
  const [member, other, moderator] = [fixture.as("member"), fixture.as("other"), fixture.as("moderator")];
  const host = await fixture.join(meeting, "member");
  const seat = await fixture.join(meeting, "other");
  assert.equal(seat.participant.state, "waiting");
  assertProblem(await raiseHand(other, meeting, seat, true), 409, "conflict");
  // Admitting and raising the hand of another in one call is refused entirely.
  const path = `${PATH}/${meeting.id}/participants/${seat.participantId}`;
  assertProblem(await member.patch(path, { admitted: true, handRaised: true }), 403, "forbidden");
  assertProblem(await raiseHand(other, meeting, seat, true), 409, "conflict");
  ok(await member.patch(path, { admitted: true }));

  ok(await raiseHand(other, meeting, seat, true));
  for (const caller of [member, moderator, fixture.as("owner")]) {
    assertProblem(await raiseHand(caller, meeting, seat, true), 403, "forbidden");
  }
  assertProblem(await raiseHand(fixture.as("observer"), meeting, seat, false), 403, "forbidden");
  assertProblem(await raiseHand(fixture.as("outsider"), meeting, seat, false), 404, "not_found");
  ok(await raiseHand(member, meeting, host, true));
  assertProblem(await raiseHand(other, meeting, host, false), 403, "forbidden");
  assertProblem(await raiseHand(moderator, meeting, host, false), 403, "forbidden");
  ok(await raiseHand(moderator, meeting, seat, false));
  assert.deepEqual(await hands(other, meeting), ["member"]);
  for (const wrong of ["yes", 1, null]) {
    assertProblem(await raiseHand(other, meeting, seat, wrong), 422, "validation_failed");
  }
  assertProblem(await raiseHand(other, meeting, { participantId: "part_x" }, true), 404, "not_found");

  ok(await raiseHand(other, meeting, seat, true));
  ok(await member.delete(path), 204);
  assert.deepEqual(await hands(member, meeting), ["member"]);
  ok(await fixture.call(meeting, "member", "end"));
  assertProblem(await raiseHand(member, meeting, host, false), 410, "gone");
  assert.deepEqual(await hands(member, meeting), []);
});

testOnPostgres("hands raised at nodes with different clocks are in the order of raising", async (environment) => {
  await using fixture = await openMeetingFixture(environment);
  await using node = await openGateway(environment);
  const meeting = await fixture.start();
  const [member, other] = [fixture.as("member"), await node.as("other")];
  const seats = [await fixture.join(meeting, "member"), await fixture.join(meeting, "other")] as const;
  fixture.gateway.clock.advance(3000);
  ok(await raiseHand(member, meeting, seats[0], true));
  ok(await raiseHand(other, meeting, seats[1], true));
  assert.deepEqual(await hands(other, meeting), ["member", "other"]);
  assert.deepEqual(await hands(member, meeting), ["member", "other"]);
});
