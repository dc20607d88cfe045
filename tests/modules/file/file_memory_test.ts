// Contents are streamed and not buffered: measured on a real process.
// Runs alone: it measures the memory of a process.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { SECRET, signToken } from "../../harness.ts";
import { GatewayProcess } from "../../e2e/target.ts";
import { freePort } from "../../free_port.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { slowTest } from "../../tier.ts";
import { eventually } from "../../wait.ts";
import { FILES, listFiles } from "./file_harness.ts";

const MIB = 1024 * 1024;
const SIZE = 10 * MIB;
const AT_ONCE = 8;
/** After four rounds the engine has seen every buffer it will need; what grows from then on is a leak. */
const WARM_ROUNDS = 4;
/** 1.28 GB pass after the warm rounds. */
const ROUNDS = 8;
const GROWTH_MAX = 64 * MIB;
/** All in all, of which most is what the engine has not swept up yet; these rounds alone move 640 MB. */
const WARM_GROWTH_MAX = 160 * MIB;

slowTest("10 MB files go up and down by the dozen without staying in memory", async (t) => {
  await using folder = await createTemporaryFolder();
  const gateway = new GatewayProcess(freePort(), SECRET, {
    SVC_DATA_DIR: folder.path,
    SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`,
    SVC_RATE_LIMIT: "off",
  });
  const token = await signToken({ now: () => Date.now() }, "alice");
  const headers = { authorization: `Bearer ${token}` };
  const block = randomBytes(MIB);
  const hash = createHash("sha256");
  for (let at = 0; at < SIZE; at += MIB) hash.update(block);
  const digest = hash.digest("base64");
  const content = new Blob(Array.from({ length: SIZE / MIB }, () => block));

  async function up(): Promise<string> {
    const response = await fetch(`${gateway.url}${FILES}?name=noise.bin`, {
      method: "POST",
      headers: { ...headers, "Content-Digest": `sha-256=:${digest}:` },
      body: content,
    });
    const body = await response.json();
    assert.equal(response.status, 201, JSON.stringify(body));
    assert.equal(body.size, SIZE);
    return body.id;
  }

  async function down(id: string): Promise<void> {
    const response = await fetch(`${gateway.url}${FILES}/${id}/content`, { headers });
    assert.equal(response.headers.get("content-length"), String(SIZE));
    const read = createHash("sha256");
    for await (const chunk of response.body ?? []) read.update(chunk);
    assert.equal(read.digest("base64"), digest);
  }

  try {
    await gateway.start();
    const { pid } = gateway;
    // Once to load and compile what uploads need.
    await down(await up());
    const cold = await residentBytes(pid);
    let highest = 0;
    const watch = setInterval(() => {
      residentBytes(pid).then((now) => highest = Math.max(highest, now), () => {});
    }, 20);
    const rounds = async (count: number): Promise<number> => {
      for (let round = 0; round < count; round++) {
        const ids = await Promise.all(Array.from({ length: AT_ONCE }, up));
        await Promise.all(ids.map(down));
      }
      return highest;
    };
    const warm = await rounds(WARM_ROUNDS);
    const end = await rounds(ROUNDS);
    clearInterval(watch);
    await t.step(`resident at most: ${mib(cold)} cold, ${mib(warm)} warm, ${mib(end)} at the end`, () => {
      assert.ok(warm - cold < WARM_GROWTH_MAX && end - warm < GROWTH_MAX);
    });

    await t.step("a sender cut off in the middle leaves nothing behind", async () => {
      const stored = (await listFiles(`${folder.path}/files`)).length;
      for (let round = 0; round < 5; round++) await cutOff(gateway.port, token, 5 * MIB);
      await eventually(async () => assert.equal((await listFiles(`${folder.path}/files`)).length, stored));
      const response = await fetch(`${gateway.url}${FILES}?limit=200`, { headers });
      assert.equal((await response.json()).items.length, stored);
    });

    await t.step("HEAD returns the length and no body", async () => {
      const id = await up();
      const response = await fetch(`${gateway.url}${FILES}/${id}/content`, { headers, method: "HEAD" });
      assert.equal(response.headers.get("content-length"), String(SIZE));
      assert.equal((await response.bytes()).length, 0);
    });
  } finally {
    await gateway.stop();
  }
});

/** Starts an upload on a bare socket, and hangs up after `bytes` of its body. */
async function cutOff(port: number, token: string, bytes: number): Promise<void> {
  using socket = await Deno.connect({ hostname: "127.0.0.1", port });
  const head = `POST ${FILES}?name=cut HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
    `Content-Type: application/octet-stream\r\nContent-Length: ${2 * bytes}\r\n\r\n`;
  const writer = socket.writable.getWriter();
  await writer.write(new TextEncoder().encode(head));
  for (let sent = 0; sent < bytes; sent += MIB) await writer.write(new Uint8Array(MIB));
  writer.releaseLock();
}

async function residentBytes(pid: number): Promise<number> {
  const kib = /VmRSS:\s+(\d+)/.exec(await Deno.readTextFile(`/proc/${pid}/status`))?.[1];
  return Number(kib) * 1024;
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
