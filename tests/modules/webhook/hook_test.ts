// Incoming hooks: what other programs send becomes readable messages, and nothing else gets in.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { Webhook } from "npm:standardwebhooks@1.1.1";
import { HOOK_PREFIX } from "@/modules/identity/mod.ts";
import { type ApiResponse, type Harness, openGateway } from "../../harness.ts";
import { testOnEngines } from "../../engines.ts";
import { allEnded } from "../../wait.ts";
import { assertProblem, createCallers, createRoom, ok, readRoomEvents } from "../fixtures.ts";
import { HOOK_SAMPLES } from "./hook_samples.ts";

const INCOMING = "/v1/collaboration/incoming";
const COMMANDS = "/v1/collaboration/slash-commands";

/** Sends as another program does: without a token. */
function post(
  gateway: Harness,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<ApiResponse> {
  return gateway.send(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    }),
  );
}

async function lastMessage(who: Awaited<ReturnType<Harness["as"]>>, roomId: string) {
  return ok(await who.get(`/v1/messages?roomId=${roomId}&limit=1&include=senders`)).items[0];
}

testOnEngines(
  "hook.create adds a principal that posts what the hook receives, and responds ok",
  async (settings) => {
    await using gateway = await openGateway(settings);
    const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
    const roomId = await createRoom(alice, ["bob"]);
    assertProblem(await bob.post(INCOMING, { roomId, displayName: "CI" }), 403, "forbidden");
    const { path, signingSecret, ...hook } = ok(await alice.post(INCOMING, { roomId, displayName: "CI" }));
    assert.equal(signingSecret, null);
    assert.deepEqual(ok(await alice.get(`${INCOMING}?roomId=${roomId}`)).items, [hook]);
    assert.deepEqual(ok(await alice.get(`${INCOMING}/${hook.id}`)), hook);
    const answer = await post(gateway, path, { text: "Build done" });
    assert.deepEqual([answer.status, answer.body], [200, "ok"]);
    assert.match(answer.headers.get("content-type") ?? "", /^text\/plain/);
    const message = await lastMessage(bob, roomId);
    assert.deepEqual([message.text, message.senderId, message.senderKind], ["Build done", hook.principalId, "service"]);
    const json = await post(gateway, path, { text: "Again" }, { accept: "application/json" });
    assert.deepEqual(json.body, { messageId: (await lastMessage(bob, roomId)).id });
    assert.equal(ok(await bob.get(`/v1/collaboration/principals/${hook.principalId}`)).displayName, "CI");
    // Others of the tenant learn nothing of it.
    assertProblem(await carol.get(`/v1/collaboration/principals/${hook.principalId}`), 404, "not_found");
    assert.ok(!JSON.stringify(ok(await carol.get("/v1/collaboration/principals"))).includes(hook.id));
    const types = (await readRoomEvents(bob, roomId)).map(({ type }) => type);
    assert.ok(types.includes("hook.created"));
  },
);

Deno.test("events of other programs are shown readably", async (t) => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { path } = ok(await alice.post(INCOMING, { roomId, displayName: "All" }));
  for (const { name, headers, body, shown } of HOOK_SAMPLES) {
    await t.step(name, async () => {
      const before = (await lastMessage(alice, roomId))?.id;
      const answer = await post(gateway, path, body, headers);
      assert.deepEqual([answer.status, answer.body], [200, "ok"]);
      const message = await lastMessage(alice, roomId);
      if (shown === null) return assert.equal(message?.id, before);
      for (const part of shown) assert.ok(message.text.includes(part), `${part}\n in\n${message.text}`);
    });
  }
  await t.step("form and plain text", async () => {
    const form = new URLSearchParams({ payload: JSON.stringify({ text: "From a form" }) }).toString();
    await post(gateway, path, form, { "content-type": "application/x-www-form-urlencoded" });
    assert.equal((await lastMessage(alice, roomId)).text, "From a form");
    await post(gateway, path, "Backup *done*", { "content-type": "text/plain" });
    assert.equal((await lastMessage(alice, roomId)).text, "Backup *done*");
  });
  await t.step("a repeated delivery is posted once", async () => {
    const headers = { "x-github-event": "ping", "x-github-delivery": "d-1" };
    const body = { zen: "Once.", repository: { full_name: "a/b" } };
    for (let n = 0; n < 2; n++) assert.equal((await post(gateway, path, body, headers)).body, "ok");
    const { items } = ok(await alice.get(`/v1/messages?roomId=${roomId}`));
    assert.equal(items.filter(({ text }: { text: string }) => text.includes("Once.")).length, 1);
  });
});

Deno.test("a signed hook accepts only what its sender signed", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { path, id, signingSecret: secret } = ok(
    await alice.post(INCOMING, { roomId, displayName: "Signed", signed: true }),
  );
  const text = JSON.stringify({ text: "signed" });
  const hex = (key: string) => createHmac("sha256", key).update(text).digest("hex");
  const genuine: Record<string, string>[] = [
    { "x-hub-signature-256": `sha256=${hex(secret)}` },
    { "x-gitea-signature": hex(secret) },
    { "x-forgejo-signature": hex(secret) },
    { "sentry-hook-signature": hex(secret) },
    { "x-gitlab-token": secret },
  ];
  for (const headers of genuine) {
    assert.equal((await post(gateway, path, text, headers)).body, "ok", JSON.stringify(headers));
  }
  const forged: Record<string, string>[] = [
    {},
    { "x-hub-signature-256": `sha256=${hex("other")}` },
    { "x-hub-signature-256": hex(secret) + "0" },
    { "x-gitlab-token": "other" },
    { "x-gitlab-token": "" },
    { "webhook-signature": "v1,x", "webhook-id": "1", "webhook-timestamp": "NaN" },
  ];
  for (const headers of forged) {
    const answer = await post(gateway, path, text, headers);
    assert.equal(answer.status, 401, JSON.stringify(headers));
  }
  // GitLab's signing token, as Standard Webhooks.
  const token = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
  ok(await alice.patch(`${INCOMING}/${id}`, { signingSecret: token }));
  const standard = (at: number) => ({
    "webhook-id": "msg_1",
    "webhook-timestamp": String(Math.floor(at / 1000)),
    "webhook-signature": new Webhook(token).sign("msg_1", new Date(at), text),
  });
  assert.equal((await post(gateway, path, text, standard(gateway.clock.now()))).body, "ok");
  assert.equal((await post(gateway, path, text, standard(gateway.clock.now() - 600_000))).status, 401);
  ok(await alice.patch(`${INCOMING}/${id}`, { signingSecret: null }));
  assert.equal((await post(gateway, path, text)).body, "ok");
});

Deno.test("a hook mentions everybody only where it may", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { path, id } = ok(await alice.post(INCOMING, { roomId, displayName: "Pager" }));
  for (const text of ["<!channel> one", "@all two", "<!everyone|everyone> three"]) await post(gateway, path, { text });
  const { items } = ok(await bob.get(`/v1/messages?roomId=${roomId}`));
  assert.deepEqual(items.slice(-3).map(({ mentions }: { mentions: { room: boolean } }) => mentions.room), [
    false,
    false,
    false,
  ]);
  ok(await alice.patch(`${INCOMING}/${id}`, { mayMentionAll: true }));
  await post(gateway, path, { text: "<!channel> four" });
  const message = await lastMessage(bob, roomId);
  assert.deepEqual([message.text, message.mentions.room], ["@channel four", true]);
});

Deno.test("an address ends when it is rotated, disabled or deleted, or its creator may no longer post", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "moderator" }));
  const hook = ok(await bob.post(INCOMING, { roomId, displayName: "Bot", signed: true }));
  const status = async (path: string, headers = {}) => (await post(gateway, path, { text: "x" }, headers)).status;
  const token = (secret: string) => ({ "x-gitlab-token": secret });
  assert.equal(await status(hook.path, token(hook.signingSecret)), 200);
  const rotated = ok(await bob.post(`${INCOMING}/${hook.id}/rotate`));
  assert.equal(await status(hook.path, token(hook.signingSecret)), 404);
  assert.equal(await status(rotated.path, token(hook.signingSecret)), 401);
  assert.equal(await status(rotated.path, token(rotated.signingSecret)), 200);
  ok(await alice.patch(`${INCOMING}/${hook.id}`, { enabled: false }));
  assert.equal(await status(rotated.path, token(rotated.signingSecret)), 404);
  ok(await alice.patch(`${INCOMING}/${hook.id}`, { enabled: true, displayName: "Robot" }));
  assert.equal(ok(await alice.get(`/v1/collaboration/principals/${hook.principalId}`)).displayName, "Robot");
  ok(await bob.delete(`/v1/rooms/${roomId}/members/bob`));
  assert.equal(await status(rotated.path, token(rotated.signingSecret)), 404);
  // Another moderator takes it over.
  const adopted = ok(await alice.post(`${INCOMING}/${hook.id}/rotate`));
  assert.equal(adopted.responsibleId, "alice");
  assert.equal(await status(adopted.path, token(adopted.signingSecret)), 200);
  assert.equal((await alice.delete(`${INCOMING}/${hook.id}`)).status, 204);
  assert.equal(await status(adopted.path, token(adopted.signingSecret)), 404);
  const members = ok(await alice.get(`/v1/rooms/${roomId}/members`)).items;
  assert.deepEqual(members.map(({ principalId }: { principalId: string }) => principalId), ["alice"]);
});

testOnEngines("hooks and commands of a purged room end as if they were deleted", async (settings) => {
  await using gateway = await openGateway(settings);
  const boss = await gateway.as("boss", { role: "owner" });
  const command = { name: "deploy", description: "Deploy", displayName: "CI", url: "https://example.com/" };
  const create = async (roomId: string) => ({
    hook: ok(await boss.post(INCOMING, { roomId, displayName: "Bot" })),
    command: ok(await boss.post(COMMANDS, { ...command, roomId })),
  });
  const roomId = await createRoom(boss, []);
  const ended = await create(roomId);
  const other = await create(await createRoom(boss, []));
  assert.equal((await boss.delete(`/v1/rooms/${roomId}?purge=true`)).status, 204);
  await gateway.runJobs();
  // Who shares no room with them does not see them.
  const services = await gateway.app.store.db.selectFrom("principal").select(["id", "is_disabled"])
    .where("kind", "=", "service").execute();
  const states = (of: typeof ended) =>
    [of.hook, of.command].map(({ principalId }) => services.find(({ id }) => id === principalId)?.is_disabled);
  assert.deepEqual([states(ended), states(other)], [[1, 1], [0, 0]]);
  assert.equal((await post(gateway, ended.hook.path, { text: "x" })).status, 404);
  assert.equal((await post(gateway, other.hook.path, { text: "x" })).status, 200);
});

testOnEngines(
  "an owner of the tenant neither changes nor disables the hook of a room that it cannot see",
  async (settings) => {
    await using gateway = await openGateway(settings);
    const { alice } = await createCallers(gateway, "alice");
    const boss = await gateway.as("boss", { role: "owner" });
    const roomId = await createRoom(alice, []);
    const hook = ok(await alice.post(INCOMING, { roomId, displayName: "Payroll" }));
    const path = (id: string) => `/v1/collaboration/principals/${encodeURIComponent(id)}`;
    const absent = `${HOOK_PREFIX}hook_${"0".repeat(32)}`;
    const answers = async (id: string) =>
      await Promise.all([
        boss.get(path(id)),
        boss.patch(path(id), { displayName: "x" }),
        boss.patch(path(id), { disabled: false }),
        boss.patch(path(id), { disabled: true }, { "if-match": '"99"' }),
        boss.delete(path(id)),
      ].map(async (answer) => {
        const { status, body } = await answer;
        return [status, body.code, body.detail?.replaceAll(id, "")];
      }));
    assert.deepEqual(await answers(hook.principalId), await answers(absent));
    assert.deepEqual(new Set((await answers(absent)).map(([status]) => status)), new Set([404]));
    assert.equal((await post(gateway, hook.path, { text: "x" })).status, 200);
    // In the room it may.
    ok(await alice.put(`/v1/rooms/${roomId}/members/boss`, {}));
    assert.equal(ok(await boss.patch(path(hook.principalId), { displayName: "Pay" })).displayName, "Pay");
    ok(await boss.delete(path(hook.principalId)));
  },
);

testOnEngines("of a text that is too long for a message, a hook posts the beginning and a file", async (settings) => {
  await using gateway = await openGateway(settings);
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { path } = ok(await alice.post(INCOMING, { roomId, displayName: "CI" }));
  const log = "a line of the log\n".repeat(5000).trim();
  const plain = { "content-type": "text/plain" };
  assert.equal((await post(gateway, path, log, plain)).body, "ok");
  const first = await lastMessage(alice, roomId);
  assert.match(first.text, /^a line of the log\n.*the whole text is in the file\)$/s);
  const contentOf = async (id: string) => ok(await alice.get(`/v1/collaboration/files/${id}/content`));
  assert.equal(await contentOf(first.files[0].id), log);
  // Repeated by its sender, it is posted once.
  const id = { "webhook-id": "delivery" };
  for (let n = 0; n < 2; n++) assert.equal((await post(gateway, path, { text: log }, id)).body, "ok");
  const second = await lastMessage(alice, roomId);
  assert.deepEqual([second.seq, await contentOf(second.files[0].id)], [first.seq + 1, log]);
  // What fits stays as it is.
  const short = "x".repeat(16_000);
  assert.equal((await post(gateway, path, { text: short })).body, "ok");
  const third = await lastMessage(alice, roomId);
  assert.deepEqual([third.text, third.files], [short, []]);
});

Deno.test("what is hostile is bounded before it is parsed", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const { alice } = await createCallers(gateway, "alice");
  const roomId = await createRoom(alice, []);
  const { path } = ok(await alice.post(INCOMING, { roomId, displayName: "Open" }));
  assert.equal((await post(gateway, "/v1/collaboration/hooks/unknown", { text: "x" })).status, 404);
  assertProblem(await post(gateway, path, { text: "x".repeat(600_000) }), 413, "payload_too_large");
  assertProblem(await post(gateway, path, "[".repeat(100_000)), 400, "invalid_json");
  const invalid = await post(gateway, path, "{");
  assertProblem(invalid, 400, "invalid_json");
  assert.equal(invalid.body.detail, "The body is not valid JSON, a form with payload, or text/plain");
  // As curl -d sends it.
  const form = await post(gateway, path, '{"text":"x"}', { "content-type": "application/x-www-form-urlencoded" });
  assertProblem(form, 400, "invalid_json");
  assert.match(form.body.detail, /; send JSON with Content-Type: application\/json$/);
  assertProblem(await post(gateway, path, {}), 422, "validation_failed");
  assertProblem(await post(gateway, path, "null"), 422, "validation_failed");
  const hostile = [
    { text: "*".repeat(100_000) },
    { text: "<".repeat(100_000) },
    { text: "`".repeat(100_000) },
    { text: "\0\ud800 text" },
    { attachments: Array.from({ length: 5000 }, () => ({ text: "a" })) },
    { blocks: [{ type: "rich_text", elements: "no list" }, null, 5], text: "x" },
    { text: "[x](javascript:alert(1)) <javascript:alert(1)|y>" },
    { text: "x", "__proto__": { polluted: true } },
  ];
  for (const body of hostile) {
    assert.equal((await post(gateway, path, body)).body, "ok", JSON.stringify(body).slice(0, 80));
  }
  const events = [
    "push",
    "pull_request",
    "issues",
    "release",
    "workflow_run",
    "commit_comment",
    "deployment_status",
    "create",
  ];
  for (const event of events) {
    for (const body of [{}, [], "text", { commits: [null, 1, { id: {} }], ref: 5, sender: "x", repository: [] }]) {
      const answer = await post(gateway, path, JSON.stringify(body), { "x-github-event": event });
      assert.ok(answer.status === 200 || answer.status === 429, `${event} ${answer.status}`);
    }
  }
  // At once: the limit is refilled as time passes.
  const answers = await allEnded(Array.from({ length: 80 }, () => post(gateway, path, { text: "x" })));
  const limited = answers.find(({ status }) => status !== 200) ?? assert.fail("none is limited");
  assertProblem(limited, 429, "rate_limited");
  assert.ok(Number(limited.headers.get("retry-after")) > 0);
});
