// Commands of rooms that an endpoint answers.
import assert from "node:assert/strict";
import { Webhook } from "npm:standardwebhooks@1.1.1";
import { assertProblem, createCallers, createRoom, ok } from "./fixtures.ts";
import { openWithEndpoints } from "./webhook_fixture.ts";

const PATH = "/v1/collaboration/slash-commands";

Deno.test("a command calls its endpoint, and answers its caller or the room", async () => {
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
    ]
  ) {
    answer = failing;
    assertProblem(await run("/deploy"), 502, "command_failed");
  }
  assert.equal((await alice.delete(`${PATH}/${command.id}`)).status, 204);
  assertProblem(await run("/deploy"), 404, "not_found");
});
