// Notifications of comments: whom they mention, and who takes part in their thread.
import assert from "node:assert/strict";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { ok } from "../room/room_fixture.ts";

const NOTIFICATIONS = "/v1/collaboration/notifications";

/** Kind, title and sender of each, oldest first. */
async function readNotifications(caller: Caller): Promise<[string, string | null, string][]> {
  const { items } = ok(await caller.get(`${NOTIFICATIONS}?kind=comment,comment_mention`));
  return items.toReversed().map((
    { kind, title, actor }: { kind: string; title: string | null; actor: { id: string } },
  ) => [kind, title, actor.id] as const);
}

testOnEngines(
  "a comment notifies those it mentions, its thread, and for a new thread the creator of the document",
  async (environment) => {
    await using fixture = await DocumentFixture.open({ environment, names: ["dora"] });
    const [member, moderator, owner] = [fixture.as("member"), fixture.as("moderator"), fixture.as("owner")];
    ok(await fixture.as("dora").patch("/v1/collaboration/me", { handle: "dora.d" }));
    const { id } = await fixture.create("text");
    const path = `${PATH}/${id}/comments`;
    const root = ok(await moderator.post(path, { text: "@Dora.D, and @outsider: why? Not `@owner`." }), 201);
    assert.deepEqual(await readNotifications(member), [["comment", "Notes", "moderator"]]);
    assert.deepEqual(await readNotifications(fixture.as("dora")), [["comment_mention", "Notes", "moderator"]]);
    for (const name of ["moderator", "owner", "outsider"]) {
      assert.deepEqual(await readNotifications(fixture.as(name)), []);
    }
    const { items: [listed] } = ok(await member.get(`${NOTIFICATIONS}?kind=comment`));
    assert.deepEqual([listed.roomId, listed.resource, listed.data], [
      fixture.roomId,
      { type: "document", id },
      { commentId: root.id },
    ]);

    ok(await owner.post(path, { text: "Because", parentId: root.id }), 201);
    ok(await member.post(path, { text: "I see, @moderator", parentId: root.id }), 201);
    assert.deepEqual(await readNotifications(moderator), [
      ["comment", "Notes", "owner"],
      ["comment_mention", "Notes", "member"],
    ]);
    assert.deepEqual(await readNotifications(owner), [["comment", "Notes", "member"]]);
    assert.equal((await readNotifications(member)).length, 1);
  },
);

Deno.test("a changed comment notifies only those its text did not mention before", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const member = fixture.as("member");
  const path = `${PATH}/${id}/comments`;
  const comment = ok(await member.post(path, { text: "@moderator?" }), 201);
  ok(await member.patch(`${path}/${comment.id}`, { text: "@moderator, @owner?" }));
  ok(await member.patch(`${path}/${comment.id}`, { text: "@owner?" }));
  ok(await member.patch(`${path}/${comment.id}`, { resolved: true }));
  ok(await member.patch(`${path}/${comment.id}`, { text: "@moderator?" }));
  const mention = ["comment_mention", "Notes", "member"];
  assert.deepEqual(await readNotifications(fixture.as("moderator")), [mention]);
  assert.deepEqual(await readNotifications(fixture.as("owner")), [mention]);
});

Deno.test("comments of a muted room notify none of its members, and titles are hidden from those who lost the document", async () => {
  await using fixture = await DocumentFixture.open();
  const { id } = await fixture.create("text");
  const [member, moderator, owner] = [fixture.as("member"), fixture.as("moderator"), fixture.as("owner")];
  ok(await owner.patch(`/v1/rooms/${fixture.roomId}/settings`, { level: "none" }));
  ok(await member.patch(`/v1/rooms/${fixture.roomId}/settings`, { level: "mentions" }));
  ok(await moderator.post(`${PATH}/${id}/comments`, { text: "@owner @observer" }), 201);
  assert.deepEqual(await readNotifications(owner), []);
  assert.deepEqual(await readNotifications(member), []);
  assert.deepEqual(await readNotifications(fixture.as("observer")), [["comment_mention", "Notes", "moderator"]]);
  ok(await owner.delete(`/v1/rooms/${fixture.roomId}/members/observer`), 204);
  assert.deepEqual(await readNotifications(fixture.as("observer")), [["comment_mention", null, "moderator"]]);
});

testOnEngines(
  "of a private document only its readers are notified, and a token needs document.read for the title",
  async (environment) => {
    await using fixture = await DocumentFixture.open({ environment });
    const member = fixture.as("member");
    const { id } = ok(await member.post(PATH, { title: "Plan", text: "text" }), 201);
    ok(await member.put(`${PATH}/${id}/access/observer`, { role: "editor" }));
    const path = `${PATH}/${id}/comments`;
    ok(await member.post(path, { text: "@observer @owner" }), 201);
    ok(await fixture.as("observer").post(path, { text: "Fine" }), 201);
    assert.deepEqual(await readNotifications(fixture.as("observer")), [["comment_mention", "Plan", "member"]]);
    assert.deepEqual(await readNotifications(member), [["comment", "Plan", "observer"]]);
    assert.deepEqual(await readNotifications(fixture.as("owner")), []);
    const narrow = await fixture.gateway.as("observer", { scope: "notification.read" });
    assert.deepEqual(await readNotifications(narrow), [["comment_mention", null, "member"]]);
    ok(await member.delete(`${PATH}/${id}/access/observer`), 204);
    assert.deepEqual(await readNotifications(fixture.as("observer")), [["comment_mention", null, "member"]]);
  },
);
