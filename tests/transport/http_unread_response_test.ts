// Long responses that nobody reads: what waits is counted for its owner, who has to read it before asking for more.
import assert from "node:assert/strict";
import { UnreadResponses } from "@/transport/http/unread_responses.ts";
import { LONG_BYTES, pieceStream } from "@/transport/shared/piece_stream.ts";
import { openGateway } from "../harness.ts";
import { createCallers, createRoom, ok } from "../modules/fixtures.ts";
import { until } from "../wait.ts";

const MIB = 1024 * 1024;
const READ = { isReading: true };

Deno.test("a long body is sent in pieces, whole, and is counted until it is sent", async () => {
  const unread = new UnreadResponses();
  assert.deepEqual(unread.bodyOf("a", "short", READ), { body: "short" });
  const text = "é".repeat(20 * MIB);
  const { body, length } = unread.bodyOf("a", text, READ);
  assert.equal(length, 40 * MIB);
  assert.throws(() => unread.assertRead("a"), { code: "rate_limited" });
  assert.throws(() => unread.bodyOf("a", text, READ), { code: "rate_limited" });
  // What was written has its response.
  const { body: written } = unread.bodyOf("a", text, { isReading: false });
  unread.assertRead("b");
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  const first = await reader.read();
  assert.equal(first.value?.length, 64 * 1024);
  assert.equal(await new Response(written).text(), text);
  assert.throws(() => unread.assertRead("a"), { code: "rate_limited" }, "nearly all of the first one waits");
  let rest = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) rest += next.value.length;
  assert.equal(rest, 40 * MIB - 64 * 1024);
  unread.assertRead("a");
});

Deno.test("what many members of a tenant do not read is bounded, and refuses no response to who reads", async () => {
  const unread = new UnreadResponses();
  const text = "x".repeat(31 * MIB);
  const bodies: BodyInit[] = [];
  const respondTo = (owner: string): void => void bodies.push(unread.bodyOf(owner, text, READ).body);
  for (let n = 0; n < 5; n++) respondTo(`large/${n}`);
  assert.throws(() => unread.bodyOf("large/0", text, READ), { code: "rate_limited", message: /this tenant/ });
  unread.assertRead("large/who reads");
  unread.assertRead("other/0");
  for (let n = 5; n < 9; n++) respondTo(`large/${n}`);
  assert.throws(() => unread.assertRead("large/who reads"), { code: "rate_limited", message: /this tenant/ });
  for (let tenant = 0; tenant < 8; tenant++) respondTo(`tenant${tenant}/0`);
  assert.throws(() => unread.assertRead("new/0"), { code: "rate_limited", message: /other callers/ });
  for (const body of bodies) await (body as ReadableStream).cancel();
  unread.assertRead("new/0");
});

Deno.test("a body that is cancelled or not read for long no longer counts", async () => {
  const unread = new UnreadResponses();
  const { body } = unread.bodyOf("a", "x".repeat(40 * MIB), READ);
  await (body as ReadableStream).cancel();
  unread.assertRead("a");
  let waiting = LONG_BYTES * 2;
  const stalled = pieceStream(new Uint8Array(waiting), (taken) => waiting -= taken, 10).getReader();
  await stalled.read();
  const closed = assert.rejects(stalled.closed, { message: "The response is not read" });
  await until(() => waiting === 0);
  await closed;
});

Deno.test("a principal that does not read long responses gets no further ones, nor do its agents; others do", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const robo = await gateway.as("robo", { kind: "agent", owner: "alice" });
  const roomId = await createRoom(alice, ["bob"]);
  for (let n = 0; n < 20; n++) ok(await alice.post("/v1/messages", { roomId, text: "x".repeat(15_000) }));
  const path = `http://gateway.test/v1/messages?roomId=${roomId}&limit=200`;
  const fetchAs = async ({ token }: { token: string }): Promise<Response> =>
    await gateway.app.fetch(new Request(path, { headers: { Authorization: `Bearer ${token}` } }), "192.0.2.1");
  const responses: Response[] = [];
  for (let n = 0; n < 150; n++) responses.push(await fetchAs(alice));
  const length = Number(responses[0]?.headers.get("Content-Length"));
  const statuses = responses.map(({ status }) => status);
  const accepted = statuses.filter((status) => status === 200).length;
  // Of each, some may have been read ahead.
  const most = Math.ceil(32 * 2 ** 20 / length);
  assert.ok(length > 250_000 && accepted >= most && accepted <= most * 1.1, `${accepted} of ${length} bytes`);
  assert.deepEqual(statuses.slice(accepted), statuses.slice(accepted).map(() => 429));
  assert.equal((await robo.get("/v1/collaboration/me")).status, 429);
  const { status, headers, body } = await fetchAs(bob);
  assert.equal(status, 200);
  assert.equal((await new Response(body).bytes()).length, Number(headers.get("Content-Length")));
  for (const response of responses) await response.body?.cancel();
  assert.equal((await alice.get("/v1/collaboration/me")).status, 200);
});
