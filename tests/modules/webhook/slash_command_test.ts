// Commands of rooms that an endpoint serves.
import assert from "node:assert/strict";
import { Webhook } from "npm:standardwebhooks@1.1.1";
import { HOUR_MS, MINUTE_MS } from "@/core/time/clock.ts";
import { testOnEngines } from "../../engines.ts";
import type { Harness } from "../../harness.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCallers, createRoom, ok, readTexts } from "../fixtures.ts";
import { ALLOW, installPlugin, manifestOf, PluginServer, refuseOrMask } from "../plugin/plugin_fixture.ts";
import { openWithEndpoints } from "./webhook_fixture.ts";

const PATH = "/v1/collaboration/slash-commands";

Deno.test("a command calls its endpoint, and responds to its caller or the room", async () => {
  await using gateway = await openWithEndpoints();
  const calls: { form: URLSearchParams; headers: Headers; text: string }[] = [];
  let answer = (): Response => new Response("only you");
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const text = await request.text();
    calls.push({ form: new URLSearchParams(text), headers: request.headers, text });
    return answer();
  });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const input = {
    roomId,
    name: "deploy",
    description: "Deploy",
    displayName: "CI",
    url: `http://127.0.0.1:${server.addr.port}/`,
  };
  assertProblem(await bob.post(PATH, input), 403, "forbidden");
  const command = ok(await alice.post(PATH, input));
  assertProblem(await alice.post(PATH, input), 409, "conflict");
  assert.deepEqual(ok(await alice.get(`${PATH}?roomId=${roomId}`)).items.map(({ id }: { id: string }) => id), [
    command.id,
  ]);
  const listed = ok(await bob.get(`/v1/collaboration/commands?roomId=${roomId}`)).items;
  assert.deepEqual(listed.map(({ name, source }: { name: string; source: string }) => [name, source]), [
    ["deploy", `webhook:${command.id}`],
  ]);
  const run = (text: string) => bob.post("/v1/collaboration/commands/run", { roomId, text });
  const first = ok(await run("/deploy api v2")).response;
  assert.deepEqual([first.kind, first.text], ["ephemeral", "only you"]);
  const { form, headers, text } = calls[0] ?? assert.fail("no call");
  assert.deepEqual([form.get("command"), form.get("text"), form.get("user_id")], ["/deploy", "api v2", "bob"]);
  const at = new Date(Number(headers.get("webhook-timestamp")) * 1000);
  const signature = new Webhook(command.secret).sign(headers.get("webhook-id") ?? "", at, text);
  assert.equal(headers.get("webhook-signature"), signature);
  answer = () => Response.json({ response_type: "in_channel", text: "*api* is out" });
  const second = ok(await run("/deploy")).response;
  assert.equal(second.kind, "message");
  const message = ok(await bob.get(`/v1/messages/${second.messageId}`));
  assert.deepEqual([message.text, message.senderId], ["**api** is out", command.principalId]);
  for (
    const failing of [
      () => new Response("x", { status: 500 }),
      () => new Response("{", { headers: { "content-type": "application/json" } }),
      // Longer than a message.
      () => new Response("x".repeat(16_001)),
      () => Response.json({ response_type: "in_channel", text: "x".repeat(16_001) }),
    ]
  ) {
    answer = failing;
    assertProblem(await run("/deploy"), 502, "command_failed");
  }
  assert.equal((await alice.delete(`${PATH}/${command.id}`)).status, 204);
  assertProblem(await run("/deploy"), 404, "not_found");
});

type Call = { form: URLSearchParams; headers: Headers; text: string };

/** A room of alice and bob with the command `/deploy`, and its endpoint. */
async function openFixture(environment: Record<string, string>) {
  const gateway = await openWithEndpoints({ SVC_PUBLIC_URL: "http://gateway.test", ...environment });
  const calls: Call[] = [];
  const endpoint = { answer: (_call: Call): Response | Promise<Response> => new Response(null, { status: 202 }) };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const text = await request.text();
    const call = { form: new URLSearchParams(text), headers: request.headers, text };
    calls.push(call);
    return await endpoint.answer(call);
  });
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const url = `http://127.0.0.1:${server.addr.port}/`;
  const input = { roomId, name: "deploy", description: "Deploy", displayName: "CI", url };
  const command = ok(await alice.post(PATH, input));
  return {
    gateway,
    endpoint,
    calls,
    alice,
    bob,
    roomId,
    command,
    run: (text = "/deploy") => bob.post("/v1/collaboration/commands/run", { roomId, text }),
    /** Posts to the `response_url` of a call, as the endpoint does. */
    async respond(call: Call | undefined, body: unknown, type = "application/json"): Promise<Response> {
      const address = call?.form.get("response_url") ?? assert.fail("no response_url");
      const text = typeof body === "string" ? body : JSON.stringify(body);
      return await gateway.app.fetch(
        new Request(address, { method: "POST", body: text, headers: { "content-type": type } }),
        "127.0.0.1",
      );
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await server.shutdown();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

/** What followed for a caller. */
// deno-lint-ignore no-explicit-any -- tests read bodies of every shape
async function responsesOf({ app }: Harness, principalId: string): Promise<any[]> {
  const events = await app.store.log.readBackward("default", `principal:${principalId}`, 1e9, 50);
  return events.filter(({ type }) => type === "interaction.responded").map(({ json }) => JSON.parse(json).data)
    .reverse();
}

testOnEngines("an endpoint responds later at its response_url: five times within 15 minutes", async (environment) => {
  await using fixture = await openFixture(environment);
  const { gateway, bob, roomId, command, calls, run, respond } = fixture;
  const accepted = await run();
  assert.equal(accepted.status, 202);
  assert.equal(accepted.body.response.kind, "accepted");
  const [call] = calls;
  assert.equal((await respond(call, { text: "*Building*" })).status, 200);
  const answer = await respond(call, { text: "api is out", response_type: "in_channel" });
  assert.equal(await answer.text(), "ok");
  assert.equal((await respond(call, "a text", "text/plain")).status, 200);
  const [first, second, third] = await responsesOf(gateway, "bob");
  assert.deepEqual(first, {
    id: accepted.body.id,
    kind: "command",
    roomId,
    name: "deploy",
    messageId: null,
    response: { kind: "ephemeral", text: "**Building**", format: "markdown" },
  });
  const message = ok(await bob.get(`/v1/messages/${second.response.messageId}`));
  assert.deepEqual([message.text, message.senderId], ["api is out", command.principalId]);
  assert.equal(third.response.text, "a text");
  // What is refused counts as well, unless nobody could read it.
  for (const [body, status] of [["{", 400], [{}, 422], [{ text: " " }, 422]] as const) {
    assert.equal((await respond(call, body)).status, status, JSON.stringify(body));
  }
  for (const status of [200, 200, 410]) assert.equal((await respond(call, { text: "more" })).status, status);
  assert.equal((await responsesOf(gateway, "bob")).length, 5);

  ok(await run());
  gateway.clock.advance(15 * MINUTE_MS);
  assert.equal((await respond(calls[1], { text: "too late" })).status, 410);
  assert.deepEqual(await readTexts(bob, roomId), ["api is out"]);
});

Deno.test("a response_url is of one call, and ends with the command and the rights of its responsible", async () => {
  await using fixture = await openFixture({});
  const { gateway, alice, bob, roomId, command, calls, run, respond } = fixture;
  ok(await run());
  const [call] = calls;
  const address = call?.form.get("response_url") ?? "";
  assert.ok(address.startsWith("http://gateway.test/v1/collaboration/slash-commands/responses/"));
  for (const forged of [`${address}x`, address.slice(0, -4), address.replace(/[^/]+$/, "x".repeat(3000))]) {
    const form = new URLSearchParams({ response_url: forged });
    assert.equal((await respond(call && { ...call, form }, { text: "forged" })).status, 404);
  }
  const huge = await respond(call, { text: "x".repeat(70_000) });
  assert.equal(huge.status, 413);
  ok(await alice.put(`/v1/rooms/${roomId}/members/bob`, { role: "owner" }));
  ok(await bob.put(`/v1/rooms/${roomId}/members/alice`, { role: "observer" }));
  assert.equal((await respond(call, { text: "no right" })).status, 404);
  ok(await bob.put(`/v1/rooms/${roomId}/members/alice`, { role: "owner" }));
  assert.equal((await respond(call, { text: "again" })).status, 200);
  assert.equal((await alice.delete(`${PATH}/${command.id}`)).status, 204);
  assert.equal((await respond(call, { text: "deleted" })).status, 404);
  assert.deepEqual((await responsesOf(gateway, "bob")).map(({ response }) => response.text), ["again"]);
});

testOnEngines("a caller who left the room gets no further responses of its commands", async (environment) => {
  await using fixture = await openFixture(environment);
  const { gateway, alice, bob, roomId, endpoint, calls, run, respond } = fixture;
  ok(await run());
  ok(await run());
  endpoint.answer = async () => {
    ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
    return new Response("secret");
  };
  const { status, body } = await run();
  assert.equal(status, 502, JSON.stringify(body));
  assert.equal((await respond(calls[0], { text: "secret" })).status, 410);
  assert.equal((await respond(calls[1], { text: "for all", response_type: "in_channel" })).status, 200);
  assert.deepEqual(await readTexts(alice, roomId), ["for all"]);
  assert.doesNotMatch(JSON.stringify(await responsesOf(gateway, "bob")), /secret/);
  assert.equal((await bob.get(`/v1/messages?roomId=${roomId}`)).status, 404);
});

testOnEngines("a filter of the room decides on what an endpoint responds, at once and later", async (environment) => {
  await using server = new PluginServer();
  server.respond = refuseOrMask;
  await using fixture = await openFixture({ ...environment, ...ALLOW });
  const { gateway, alice, roomId, calls, endpoint, run, respond } = fixture;
  const hooks = [{ on: "message.before_send" }];
  const scopes = ["message.read"];
  const manifest = manifestOf({ transport: "http", endpoint: server.url, scopes, commands: [], actions: [], hooks });
  const { id } = await installPlugin(await gateway.as("admin", { role: "admin" }), manifest);
  ok(await alice.put(`/v1/rooms/${roomId}/filters/${id}`));
  const inChannel = (text: string) => ({ text, response_type: "in_channel" });
  ok(await run());
  assert.equal((await respond(calls[0], inChannel("forbidden"))).status, 422);
  assert.equal((await respond(calls[0], inChannel("later 4111"))).status, 200);
  assert.equal((await respond(calls[0], { text: "only you: 4111" })).status, 200);
  endpoint.answer = () => Response.json(inChannel("at once 4111"));
  ok(await run());
  endpoint.answer = () => Response.json(inChannel("forbidden"));
  assertProblem(await run(), 502, "command_failed");
  assert.deepEqual(await readTexts(alice, roomId), ["later ****", "at once ****"]);
});

Deno.test("an endpoint may respond at its response_url before it returns from the call", async () => {
  await using fixture = await openFixture({});
  const { gateway, endpoint, bob, roomId, run, respond } = fixture;
  endpoint.answer = async (call) => {
    assert.equal((await respond(call, { text: "in the room", response_type: "in_channel" })).status, 200);
    return new Response("for you");
  };
  const { response } = ok(await run());
  assert.deepEqual([response.kind, response.text], ["ephemeral", "for you"]);
  assert.deepEqual(await readTexts(bob, roomId), ["in the room"]);
  assert.equal((await responsesOf(gateway, "bob")).length, 1);
});

testOnEngines("a command is changed, and its secret replaced: both secrets sign for a day", async (environment) => {
  await using fixture = await openFixture(environment);
  const { gateway, endpoint, alice, bob, roomId, command, calls, run } = fixture;
  endpoint.answer = () => new Response("done");
  const path = `${PATH}/${command.id}`;
  assertProblem(await bob.patch(path, { description: "Mine" }), 403, "forbidden");
  assertProblem(await alice.patch(path, { url: "https://10.0.0.1/" }), 422, "address_not_allowed");
  const { url } = command;
  ok(await alice.post(PATH, { roomId, name: "status", description: "Status", displayName: "CI", url }));
  assertProblem(await alice.patch(path, { name: "status" }), 409, "conflict");
  const changed = ok(await alice.patch(path, { name: "ship", displayName: "Shipping", version: 1 }));
  assert.deepEqual([changed.name, changed.displayName, changed.description, changed.version], [
    "ship",
    "Shipping",
    "Deploy",
    2,
  ]);
  assertProblem(await alice.patch(path, { description: "Late", version: 1 }), 412, "version_mismatch");
  assert.equal(ok(await alice.get(`/v1/collaboration/principals/${command.principalId}`)).displayName, "Shipping");
  assertProblem(await run("/deploy"), 404, "not_found");

  const rotated = ok(await alice.post(`${path}/rotate`));
  assert.notEqual(rotated.secret, command.secret);
  const signers = async (): Promise<boolean[]> => {
    ok(await run("/ship"));
    const { headers, text } = calls.at(-1) ?? assert.fail("no call");
    const at = new Date(Number(headers.get("webhook-timestamp")) * 1000);
    const given = (headers.get("webhook-signature") ?? "").split(" ");
    const id = headers.get("webhook-id") ?? "";
    return [rotated.secret, command.secret].map((secret) => given.includes(new Webhook(secret).sign(id, at, text)));
  };
  assert.deepEqual(await signers(), [true, true]);
  gateway.clock.advance(24 * HOUR_MS);
  const later = await gateway.as("bob");
  ok(await later.post("/v1/collaboration/commands/run", { roomId, text: "/ship" }));
  const { headers, text } = calls.at(-1) ?? assert.fail("no call");
  const at = new Date(Number(headers.get("webhook-timestamp")) * 1000);
  assert.equal(
    headers.get("webhook-signature"),
    new Webhook(rotated.secret).sign(headers.get("webhook-id") ?? "", at, text),
  );
});

Deno.test("README's slash command runs when pasted: it verifies the caller, and responds later", async () => {
  const readme = await Deno.readTextFile(new URL("../../../README.md", import.meta.url));
  const pasted = /```js\n(\/\/ [^\n]*deploy\.mjs[^]*?)```/.exec(readme)?.[1];
  assert.ok(pasted !== undefined, "README has a deploy.mjs");
  await using folder = await createTemporaryFolder();
  await Deno.writeTextFile(`${folder.path}/deploy.mjs`, pasted);
  const served: { gateway?: Harness } = {};
  await using front = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => served.gateway?.app.fetch(request, "127.0.0.1") ?? new Response(null, { status: 503 }),
  );
  await using opened = await openWithEndpoints({ SVC_PUBLIC_URL: `http://127.0.0.1:${front.addr.port}` });
  served.gateway = opened;
  // The program compares times with the clock of the machine.
  opened.clock.advance(Date.now() - opened.clock.now());
  const { alice, bob } = await createCallers(opened, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const input = { roomId, name: "deploy", description: "Deploy", displayName: "CI", url: "http://127.0.0.1/" };
  const { id, secret } = ok(await alice.post(PATH, input));
  const program = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-lock", "--allow-all", `${folder.path}/deploy.mjs`],
    env: { SECRET: secret, PORT: "0" },
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  try {
    const output = program.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const [port] = /\d+/.exec((await output.read()).value ?? "") ?? assert.fail("not ready");
    const url = `http://127.0.0.1:${port}/`;
    ok(await alice.patch(`${PATH}/${id}`, { url }));
    const forged = await fetch(url, { method: "POST", body: "text=x", headers: { "webhook-signature": "v1,x" } });
    assert.equal(forged.status, 401);
    await forged.body?.cancel();
    ok(await bob.post("/v1/collaboration/commands/run", { roomId, text: "/deploy api v2" }));
    await until(async () => (await readTexts(bob, roomId)).length === 1);
    assert.deepEqual(await readTexts(bob, roomId), ["bob deployed **api v2**"]);
    // Both secrets sign: a program with the previous one still works.
    ok(await alice.post(`${PATH}/${id}/rotate`));
    ok(await bob.post("/v1/collaboration/commands/run", { roomId, text: "/deploy web" }));
    await until(async () => (await readTexts(bob, roomId)).length === 2);
    await output.cancel();
  } finally {
    program.kill("SIGKILL");
    await program.status;
  }
});
