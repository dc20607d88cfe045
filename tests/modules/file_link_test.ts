// Links to contents that a browser follows by itself: they are as good as their makers, and no longer.
import assert from "node:assert/strict";
import { onEngines } from "../engines.ts";
import { type Answer, type Caller, type Harness, openGateway, SECRET } from "../harness.ts";
import { logged } from "../logged.ts";
import { until } from "../wait.ts";
import { GIF } from "./file_pictures.ts";
import { FILES, openFileGateway, sha256, upload } from "./file_rig.ts";
import { ok, people, refused, roomOf, say } from "./team.ts";
import { Family, TOKENS } from "./token_family_world.ts";

const MINUTE_MS = 60_000;
const TEXT = "plan for tomorrow";

type Link = { id: string; url: string; expiresAt: string };

async function uploaded(gateway: Harness, who: Caller): Promise<string> {
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
function follow(gateway: Harness, { url }: { url: string }, headers: Record<string, string> = {}): Promise<Answer> {
  return gateway.withToken(undefined).get(url, headers);
}

async function assertFollows(gateway: Harness, link: Link, status: number, code?: string): Promise<void> {
  const answer = await follow(gateway, link);
  assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body));
  if (status === 200) assert.equal(answer.body, TEXT);
}

onEngines("a link serves what file.content does, without a token", async (environment) => {
  await using rig = await openFileGateway(environment);
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const id = await uploaded(gateway, alice);
  await say(alice, roomId, "see", { fileIds: [id] });
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
  refused(await nobody.get(`${link.url}?thumbnail=64`), 400, "unknown_parameter");
  refused(await nobody.post(link.url), 405, "method_not_allowed");
});

Deno.test("a link to a small picture shows that and no more", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const { id } = ok(await upload(gateway, alice, { name: "dot.gif" }, GIF));
  const [whole, small] = [await linkOf(alice, id), await linkOf(alice, id, { thumbnail: 64 })];
  assert.equal((await follow(gateway, whole)).headers.get("content-type"), "image/gif");
  assert.match((await follow(gateway, small)).headers.get("content-type") ?? "", /^image\/(png|jpeg)$/);
  const none = await linkOf(alice, await uploaded(gateway, alice), { thumbnail: 64 });
  refused(await follow(gateway, none), 422, "validation_failed");
});

onEngines("files that the caller may not read have no link, as those that are not there", async (environment) => {
  await using rig = await openFileGateway(environment);
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const roomId = await roomOf(alice, ["bob"]);
  const [shown, hidden, gone, avatar] = [
    await uploaded(gateway, alice),
    await uploaded(gateway, alice),
    await uploaded(gateway, alice),
    await uploaded(gateway, alice),
  ];
  await say(alice, roomId, "see", { fileIds: [shown, gone] });
  ok(await alice.delete(`${FILES}/${gone}`));
  ok(await alice.patch("/v1/collaboration/me", { avatarFileId: avatar }));
  const links = await linksOf(bob, [avatar, hidden, "file_none", gone, shown]);
  assert.deepEqual(links.map((link) => link.id), [avatar, shown]);
  for (const link of links) await assertFollows(gateway, link, 200);
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
  ) refused(await bob.post(`${FILES}/links`, input), 422, "validation_failed");
  refused(await (await gateway.as("bob", { scope: "file.write" })).post(`${FILES}/links`), 403, "scope_missing");
});

onEngines("a link ends with the right of who made it", async (environment) => {
  await using rig = await openFileGateway(environment);
  const { gateway } = rig;
  const { alice, bob, carol } = await people(gateway, "alice", "bob", "carol");
  const boss = await gateway.as("boss", { role: "owner" });
  const roomId = await roomOf(alice, ["bob", "carol"]);
  const agent = await gateway.as("bot", { kind: "agent", owner: "carol" });
  ok(await agent.get("/v1/collaboration/me"));
  ok(await alice.put(`/v1/rooms/${roomId}/members/bot`));
  const id = await uploaded(gateway, alice);
  await say(alice, roomId, "see", { fileIds: [id] });
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

onEngines("a link ends with the token that made it, and lives on where that is refreshed", async (environment) => {
  await using rig = await openFileGateway(environment);
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const id = await uploaded(gateway, alice);
  const api = ok(await alice.post(TOKENS, { name: "script", scopes: ["file.read"] }));
  const apiLink = await linkOf(gateway.withToken(api.token), id);
  const jwt = await gateway.as("alice", { jti: "session-1" });
  const jwtLink = await linkOf(jwt, id);
  const family = await Family.of(gateway, "alice", { expiresInSeconds: 300 });
  const familyLink = await linkOf(gateway.withToken(family.first.accessToken), id, { expiresInSeconds: 3600 });
  for (const link of [apiLink, jwtLink, familyLink]) await assertFollows(gateway, link, 200);
  ok(await alice.delete(`${TOKENS}/${api.id}`));
  await assertFollows(gateway, apiLink, 404, "not_found");
  ok(await jwt.post("/v1/collaboration/auth/logout"));
  await assertFollows(gateway, jwtLink, 404, "not_found");
  // A token that goes on for ten minutes makes no link that goes on for longer.
  const iat = gateway.clock.now() / 1000;
  const brief = await linkOf(await gateway.as("alice", { exp: iat + 600 }), id, { expiresInSeconds: 3600 });
  assert.equal(Date.parse(brief.expiresAt), (iat + 600) * 1000);
  gateway.clock.advance(20 * MINUTE_MS);
  await assertFollows(gateway, brief, 410, "gone");
  await assertFollows(gateway, familyLink, 200);
  await family.end();
  await assertFollows(gateway, familyLink, 404, "not_found");
});

Deno.test("a link is the same when it is made again soon, and over when it says so", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const id = await uploaded(gateway, alice);
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

Deno.test("a link that the gateway did not make is not known", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const { alice, bob } = await people(gateway, "alice", "bob");
  const [mine, theirs] = [await uploaded(gateway, alice), await uploaded(gateway, bob)];
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
  ) refused(await follow(gateway, { url: path + forged }), 404, "not_found");
});

Deno.test("links made before the gateway's secret changed are good while it knows the one before", async () => {
  const folder = await Deno.makeTempDir();
  const environment = { SVC_DATABASE_URL: `sqlite:${folder}/gateway.db`, SVC_DATA_DIR: folder };
  const secrets = ["one", "two", "three"].map((name) => `${name} secret, 32 bytes or more of it`);
  const [one = "", two = "", three = ""] = secrets;
  let link: Link;
  {
    await using gateway = await openGateway({ ...environment, SVC_JWT_SECRET_PREVIOUS: one });
    const { alice } = await people(gateway, "alice");
    link = await linkOf(alice, await uploaded(gateway, alice));
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
  await Deno.remove(folder, { recursive: true });
});

Deno.test("pages of other origins may show what a link leads to, and read it where the tenant lets them", async () => {
  await using rig = await openFileGateway();
  const { gateway } = rig;
  const origin = "https://app.acme.example";
  const acme = await gateway.as("alice", { tenant: "acme" });
  const boss = await gateway.as("boss", { tenant: "acme", role: "owner" });
  const other = await gateway.as("olga", { tenant: "other" });
  ok(await boss.patch("/v1/collaboration/tenant", { allowedOrigins: [origin] }));
  const link = await linkOf(acme, await uploaded(gateway, acme));
  await until(async () => (await follow(gateway, link, { origin })).headers.has("access-control-allow-origin"));
  await assertFollows(gateway, link, 200);
  const theirs = await linkOf(other, await uploaded(gateway, other));
  await assertFollows(gateway, theirs, 200);
  refused(await follow(gateway, theirs, { origin }), 403, "origin_not_allowed");
});

Deno.test("links are in no log, and one address follows only so many", async () => {
  await using rig = await openFileGateway({ SVC_RATE_LIMIT: "on" });
  const { gateway } = rig;
  const { alice } = await people(gateway, "alice");
  const link = await linkOf(alice, await uploaded(gateway, alice));
  const secret = link.url.slice(link.url.lastIndexOf("/") + 1);
  const records = await logged(["gateway"], async () => {
    await assertFollows(gateway, link, 200);
    refused(await follow(gateway, { url: `${link.url}A` }), 404, "not_found");
  });
  assert.ok(records.some(({ properties }) => properties["path"] === `${FILES}/linked/:link`));
  assert.ok(!JSON.stringify(records).includes(secret));
  const statuses = new Set<number>();
  for (let n = 0; n < 2000; n++) statuses.add((await follow(gateway, { url: `${FILES}/linked/none` })).status);
  assert.deepEqual([...statuses], [404, 429]);
  // What is refused so is no failed authentication, which would count against others behind the address.
  ok(await alice.get("/v1/collaboration/me"));
});
