// Links to file contents: they have the access of their creators.
import assert from "node:assert/strict";
import { MINUTE_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import { type ApiResponse, type Caller, type Harness, openGateway, SECRET } from "../../harness.ts";
import { captureLog } from "../../log_capture.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { allEnded, until } from "../../wait.ts";
import { GIF } from "./file_images.ts";
import { FILES, sha256, untilCreated, upload, uploadPicture } from "./file_harness.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";
import { TokenFamily, TOKENS } from "../identity/refresh_token_fixture.ts";

const TEXT = "plan for tomorrow";

type Link = { id: string; url: string; expiresAt: string };

async function uploadFile(gateway: Harness, who: Caller): Promise<string> {
  return ok(await upload(gateway, who, { name: "plan.txt" }, TEXT)).id;
}

/** Links to the files as this caller gets them. */
async function linksOf(who: Caller, ids: string[], more: Record<string, unknown> = {}): Promise<Link[]> {
  return ok(await who.post(`${FILES}/links`, { ids, ...more })).items;
}

async function linkOf(who: Caller, id: string, more: Record<string, unknown> = {}): Promise<Link> {
  const [link] = await linksOf(who, [id], more);
  return link ?? assert.fail("no link");
}

/** What somebody without a token gets. */
function follow(
  gateway: Harness,
  { url }: { url: string },
  headers: Record<string, string> = {},
): Promise<ApiResponse> {
  return gateway.withToken(undefined).get(url, headers);
}

async function assertFollows(gateway: Harness, link: Link, status: number, code?: string): Promise<void> {
  const answer = await follow(gateway, link);
  assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));
  if (status === 200) assert.equal(answer.body, TEXT);
}

testOnEngines("a link serves the same as file.content, without a token", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const id = await uploadFile(gateway, alice);
  await sendMessage(alice, roomId, "see", { fileIds: [id] });
  const link = await linkOf(bob, id);
  const nobody = gateway.withToken(undefined);
  for (
    const headers of [{}, { range: "bytes=5-7" }, { "if-none-match": `"${sha256(TEXT)}"` }, { range: "bytes=99-" }]
  ) {
    for (const method of ["GET", "HEAD"]) {
      // The harness reads a problem where HEAD has none.
      if (method === "HEAD" && "range" in headers && headers.range === "bytes=99-") continue;
      const linked = await nobody.call(method, link.url, undefined, headers);
      const direct = await bob.call(method, `${FILES}/${id}/content`, undefined, headers);
      assert.equal(linked.status, direct.status);
      if (linked.status < 400) assert.equal(linked.body, direct.body);
      for (const [name, value] of direct.headers) {
        if (name !== "x-request-id" && linked.status < 400) assert.equal(linked.headers.get(name), value, name);
      }
    }
  }
  const { headers } = await follow(gateway, link);
  assert.equal(headers.get("cache-control"), "private, no-cache");
  assert.equal(headers.get("referrer-policy"), "no-referrer");
  assert.equal(headers.get("cross-origin-resource-policy"), "cross-origin");
  assert.match(headers.get("content-disposition") ?? "", /^inline; filename="plan\.txt"/);
  const saved = await follow(gateway, await linkOf(bob, id, { download: true }));
  assert.match(saved.headers.get("content-disposition") ?? "", /^attachment; filename="plan\.txt"/);
  assertProblem(await nobody.get(`${link.url}?thumbnail=64`), 400, "unknown_parameter");
  assertProblem(await nobody.post(link.url), 405, "method_not_allowed");
});

Deno.test("a link to a thumbnail serves only the thumbnail", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const { id } = ok(await upload(gateway, alice, { name: "dot.gif" }, GIF));
  const [whole, small] = [await linkOf(alice, id), await linkOf(alice, id, { thumbnail: 64 })];
  assert.equal((await follow(gateway, whole)).headers.get("content-type"), "image/gif");
  const { headers } = await untilCreated(() => follow(gateway, small));
  assert.match(headers.get("content-type") ?? "", /^image\/(png|jpeg)$/);
  const none = await linkOf(alice, await uploadFile(gateway, alice), { thumbnail: 64 });
  assertProblem(await follow(gateway, none), 422, "validation_failed");
});

testOnEngines("file.link returns no links to unreadable and unknown files", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const [shown, hidden, gone, avatar] = [
    await uploadFile(gateway, alice),
    await uploadFile(gateway, alice),
    await uploadFile(gateway, alice),
    await uploadPicture(gateway, alice),
  ];
  await sendMessage(alice, roomId, "see", { fileIds: [shown, gone] });
  ok(await alice.delete(`${FILES}/${gone}`));
  ok(await alice.patch("/v1/collaboration/me", { avatarFileId: avatar }));
  const links = await linksOf(bob, [avatar, hidden, "file_none", gone, shown]);
  assert.deepEqual(links.map((link) => link.id), [avatar, shown]);
  const [picture, plan] = links;
  assert.ok(picture !== undefined && plan !== undefined);
  await assertFollows(gateway, plan, 200);
  assert.equal((await follow(gateway, picture)).status, 200);
  const stranger = await gateway.as("alice", { tenant: "elsewhere" });
  assert.deepEqual(await linksOf(stranger, [shown, avatar]), []);
  for (
    const input of [
      { ids: [] },
      { ids: [shown, shown] },
      { ids: Array.from({ length: 101 }, (_, n) => `file_${n}`) },
      { ids: [shown], thumbnail: 65 },
      { ids: [shown], expiresInSeconds: 59 },
      { ids: [shown], expiresInSeconds: 21_601 },
    ]
  ) assertProblem(await bob.post(`${FILES}/links`, input), 422, "validation_failed");
  assertProblem(await (await gateway.as("bob", { scope: "file.write" })).post(`${FILES}/links`), 403, "scope_missing");
});

testOnEngines("a link ends with the access of its creator", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const boss = await gateway.as("boss", { role: "owner" });
  const roomId = await createRoom(alice, ["bob", "carol"]);
  const agent = await createCaller(gateway, "bot", { kind: "agent", owner: "carol" });
  ok(await alice.put(`/v1/rooms/${roomId}/members/bot`));
  const id = await uploadFile(gateway, alice);
  await sendMessage(alice, roomId, "see", { fileIds: [id] });
  const [alices, bobs, carols, agents] = [
    await linkOf(alice, id),
    await linkOf(bob, id),
    await linkOf(carol, id),
    await linkOf(agent, id),
  ];
  for (const link of [alices, bobs, carols, agents]) await assertFollows(gateway, link, 200);
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  await assertFollows(gateway, bobs, 404, "not_found");
  ok(await boss.delete("/v1/collaboration/principals/carol"));
  await assertFollows(gateway, carols, 404, "not_found");
  await assertFollows(gateway, agents, 404, "not_found");
  await assertFollows(gateway, alices, 200);
  ok(await alice.delete(`${FILES}/${id}`));
  await assertFollows(gateway, alices, 410, "gone");
});

testOnEngines("a link ends with the token that created it, unless the token is refreshed", async (environment) => {
  await using gateway = await openGateway(environment);
  const { alice } = await createCallers(gateway, "alice");
  const id = await uploadFile(gateway, alice);
  const api = ok(await alice.post(TOKENS, { name: "script", scopes: ["file.read"] }));
  const apiLink = await linkOf(gateway.withToken(api.token), id);
  const jwt = await gateway.as("alice", { jti: "session-1" });
  const jwtLink = await linkOf(jwt, id);
  const family = await TokenFamily.logIn(gateway, "alice", { expiresInSeconds: 300 });
  const familyLink = await linkOf(gateway.withToken(family.initial.accessToken), id, { expiresInSeconds: 3600 });
  for (const link of [apiLink, jwtLink, familyLink]) await assertFollows(gateway, link, 200);
  ok(await alice.delete(`${TOKENS}/${api.id}`));
  await assertFollows(gateway, apiLink, 404, "not_found");
  ok(await jwt.post("/v1/collaboration/auth/logout"));
  await assertFollows(gateway, jwtLink, 404, "not_found");
  // A token that is valid for ten minutes creates no link that is valid for longer.
  const iat = gateway.clock.now() / 1000;
  const brief = await linkOf(await gateway.as("alice", { exp: iat + 600 }), id, { expiresInSeconds: 3600 });
  assert.equal(Date.parse(brief.expiresAt), (iat + 600) * 1000);
  gateway.clock.advance(20 * MINUTE_MS);
  await assertFollows(gateway, brief, 410, "gone");
  await assertFollows(gateway, familyLink, 200);
  await family.logOut();
  await assertFollows(gateway, familyLink, 404, "not_found");
});

Deno.test("file.link returns equal links within half a lifetime, and they expire in time", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const id = await uploadFile(gateway, alice);
  const link = await linkOf(alice, id, { expiresInSeconds: 600 });
  gateway.clock.advance(2 * MINUTE_MS);
  assert.deepEqual(await linkOf(await gateway.as("alice"), id, { expiresInSeconds: 600 }), link);
  gateway.clock.advance(4 * MINUTE_MS);
  assert.notEqual((await linkOf(alice, id, { expiresInSeconds: 600 })).url, link.url);
  for (let seconds = 0; seconds < 700; seconds += 37) {
    gateway.clock.advance(37_000);
    const life = Date.parse((await linkOf(alice, id, { expiresInSeconds: 61 })).expiresAt) - gateway.clock.now();
    assert.ok(life >= 30_000 && life <= 61_000, `${life}`);
  }
  const next = await linkOf(alice, id);
  gateway.clock.advance(Date.parse(next.expiresAt) - gateway.clock.now() - 1000);
  await assertFollows(gateway, next, 200);
  gateway.clock.advance(1000);
  await assertFollows(gateway, next, 410, "gone");
});

Deno.test("a forged link is refused with 404", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const [mine, theirs] = [await uploadFile(gateway, alice), await uploadFile(gateway, bob)];
  const [own, other] = [await linkOf(alice, mine), await linkOf(bob, theirs)];
  const path = own.url.slice(0, own.url.lastIndexOf("/") + 1);
  const [body = "", stamp = ""] = own.url.slice(path.length).split(".");
  const [otherBody = "", otherStamp = ""] = other.url.slice(path.length).split(".");
  const changed = Buffer.from(Buffer.from(body, "base64url").toString().replace(mine, theirs)).toString("base64url");
  assert.notEqual(changed, body);
  for (
    const forged of [
      `${changed}.${stamp}`,
      `${body}.${otherStamp}`,
      `${otherBody}.${stamp}`,
      `${body}.${stamp.slice(0, -1)}${stamp.endsWith("A") ? "B" : "A"}`,
      `${body}.${stamp}=`,
      `${body}=.${stamp}`,
      `${body}.`,
      `.${stamp}`,
      body,
      "none",
      `${"A".repeat(4001)}.${stamp}`,
      "%00",
    ]
  ) assertProblem(await follow(gateway, { url: path + forged }), 404, "not_found");
});

Deno.test("links signed with the previous secret are valid while it is configured", async () => {
  await using folder = await createTemporaryFolder();
  const environment = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, SVC_DATA_DIR: folder.path };
  const secrets = ["one", "two", "three"].map((name) => `${name} secret, 32 bytes or more of it`);
  const [one = "", two = "", three = ""] = secrets;
  let link: Link;
  {
    await using gateway = await openGateway({ ...environment, SVC_JWT_SECRET_PREVIOUS: one });
    const { alice } = await createCallers(gateway, "alice");
    link = await linkOf(alice, await uploadFile(gateway, alice));
  }
  {
    const keys = { SVC_JWT_SECRET: two, SVC_JWT_SECRET_PREVIOUS: SECRET };
    await using gateway = await openGateway({ ...environment, ...keys });
    await assertFollows(gateway, link, 200);
  }
  {
    const keys = { SVC_JWT_SECRET: three, SVC_JWT_SECRET_PREVIOUS: two };
    await using gateway = await openGateway({ ...environment, ...keys });
    await assertFollows(gateway, link, 404, "not_found");
  }
});

Deno.test("other origins may embed linked content, and read it if the tenant allows them", async () => {
  await using gateway = await openGateway();
  const origin = "https://app.acme.example";
  const acme = await gateway.as("alice", { tenant: "acme" });
  const boss = await gateway.as("boss", { tenant: "acme", role: "owner" });
  const other = await gateway.as("olga", { tenant: "other" });
  ok(await boss.patch("/v1/collaboration/tenant", { allowedOrigins: [origin] }));
  const link = await linkOf(acme, await uploadFile(gateway, acme));
  await until(async () => (await follow(gateway, link, { origin })).headers.has("access-control-allow-origin"));
  await assertFollows(gateway, link, 200);
  const theirs = await linkOf(other, await uploadFile(gateway, other));
  await assertFollows(gateway, theirs, 200);
  assertProblem(await follow(gateway, theirs, { origin }), 403, "origin_not_allowed");
});

Deno.test("links are not logged, and their use is rate limited by address", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const { alice } = await createCallers(gateway, "alice");
  const link = await linkOf(alice, await uploadFile(gateway, alice));
  const secret = link.url.slice(link.url.lastIndexOf("/") + 1);
  const records = await captureLog(["gateway"], async () => {
    await assertFollows(gateway, link, 200);
    assertProblem(await follow(gateway, { url: `${link.url}A` }), 404, "not_found");
  });
  assert.ok(records.some(({ properties }) => properties["path"] === `${FILES}/linked/:link`));
  assert.ok(!JSON.stringify(records).includes(secret));
  // At once, and more than the limit: it is refilled as time passes, also by what was asked before.
  const answers = await allEnded(Array.from({ length: 2001 }, () => follow(gateway, { url: `${FILES}/linked/none` })));
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([404, 429]));
  // What is refused so is no failed authentication, which would count against others behind the address.
  ok(await alice.get("/v1/collaboration/me"));
});
