// Contents whose clients take nothing: they have places, which are given to others.
import assert from "node:assert/strict";
import { DOWNLOAD_STALLED_MS, DOWNLOADS, Downloads } from "@/modules/file/downloads.ts";
import { type Caller, type Harness, openGateway, TestClock } from "../../harness.ts";
import { download, FILES, upload } from "./file_harness.ts";
import { assertProblem, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const SIZE = 200_000;

type Content = ReadableStream<Uint8Array<ArrayBuffer>>;
type Started = { content: Content; isCancelled: () => boolean };

/** A content of one byte, that begins to be sent to somebody. */
async function start(downloads: Downloads, owner: string): Promise<Started> {
  let isCancelled = false;
  const source = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      controller.enqueue(new Uint8Array(1));
      controller.close();
    },
    cancel: () => void (isCancelled = true),
  }, { highWaterMark: 0 });
  const content = await downloads.start(owner, () => Promise.resolve(source)) ?? assert.fail("no content");
  return { content, isCancelled: () => isCancelled };
}

async function startMany(downloads: Downloads, count: number, ownerOf: (n: number) => string): Promise<Started[]> {
  return await Promise.all(Array.from({ length: count }, (_, n) => start(downloads, ownerOf(n))));
}

function assertRefused(downloads: Downloads, owner: string, message: RegExp): Promise<void> {
  return assert.rejects(start(downloads, owner), { code: "rate_limited", message });
}

Deno.test("a place is free once its content is read, left, absent or cannot be opened", async () => {
  const downloads = new Downloads(new TestClock());
  const all = await startMany(downloads, DOWNLOADS.perOwner, () => "team/alice");
  await assertRefused(downloads, "team/alice", /^At most 128 downloads/);
  await start(downloads, "team/bob");
  const [read, left] = all;
  assert.equal((await new Response(read?.content).bytes()).length, 1);
  await left?.content.cancel();
  assert.equal(left?.isCancelled(), true);
  assert.equal(await downloads.start("team/alice", () => Promise.resolve(undefined)), undefined);
  await assert.rejects(downloads.start("team/alice", () => Promise.reject(new TypeError("no file"))), TypeError);
  await startMany(downloads, 2, () => "team/alice");
  await assertRefused(downloads, "team/alice", /^At most 128 downloads/);
});

Deno.test("who takes nothing for long gives its place to others, the one first that waited longest", async () => {
  const clock = new TestClock();
  const downloads = new Downloads(clock);
  const [first, ...others] = await startMany(downloads, DOWNLOADS.perOwner, () => "team/alice");
  const reader = first?.content.getReader();
  clock.advance(DOWNLOAD_STALLED_MS - 1);
  await reader?.read();
  await assertRefused(downloads, "team/alice", /^At most/);
  clock.advance(1);
  const { content } = await start(downloads, "team/alice");
  assert.deepEqual([others[0]?.isCancelled(), others[1]?.isCancelled()], [true, false]);
  await assert.rejects(new Response(others[0]?.content).bytes(), { code: "rate_limited" });
  assert.equal((await reader?.read())?.done, true);
  assert.equal((await new Response(content).bytes()).length, 1);
});

Deno.test("a tenant has a share of the downloads of a node; what its members do not read is ended before that of others", async () => {
  const clock = new TestClock();
  const downloads = new Downloads(clock);
  const { perTenant, perNode } = DOWNLOADS;
  const other = await start(downloads, "other/carol");
  const greedy = await startMany(downloads, perTenant, (n) => `greedy/${n % 100}`);
  await assertRefused(downloads, "greedy/who reads", /^Too many downloads/);
  await startMany(downloads, perNode - perTenant - 1, (n) => `other/${n % 100}`);
  await assertRefused(downloads, "third/dave", /^Too many downloads/);
  clock.advance(DOWNLOAD_STALLED_MS);
  await start(downloads, "greedy/who reads");
  assert.deepEqual([other.isCancelled(), greedy[0]?.isCancelled()], [false, true]);
  await start(downloads, "third/dave");
  assert.equal(other.isCancelled(), true);
});

/** The content as a response whose body nobody reads yet. `url` has a token in it, or `who` has one. */
async function open(gateway: Harness, url: string, who?: Caller): Promise<Response> {
  const headers: HeadersInit = who === undefined ? {} : { Authorization: `Bearer ${who.token}` };
  return await gateway.app.fetch(new Request(`http://gateway.test${url}`, { headers }), "192.0.2.1");
}

Deno.test("contents that a member and strangers with its links do not read keep no place from others", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const { id } = ok(await upload(gateway, alice, { name: "film" }, new Uint8Array(SIZE)));
  await sendMessage(alice, roomId, "see", { fileIds: [id] });
  const [link] = ok(await alice.post(`${FILES}/links`, { ids: [id] })).items;
  const responses: Response[] = [];
  for (let n = 0; n < DOWNLOADS.perOwner; n++) {
    responses.push(await (n % 2 === 0 ? open(gateway, link.url) : open(gateway, `${FILES}/${id}/content`, alice)));
  }
  assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
  const refused = await alice.get(`${FILES}/${id}/content`);
  assertProblem(refused, 429, "rate_limited");
  assert.equal(refused.headers.get("retry-after"), "1");
  assertProblem(await gateway.withToken(undefined).get(link.url), 429, "rate_limited");
  assert.equal((await download(gateway, bob, id)).bytes.length, SIZE);
  gateway.clock.advance(DOWNLOAD_STALLED_MS);
  assert.equal((await download(gateway, alice, id)).bytes.length, SIZE);
  await assert.rejects(responses[0]?.bytes() ?? assert.fail("no response"), { code: "rate_limited" });
  for (const { body } of responses.slice(1)) await body?.cancel();
});
