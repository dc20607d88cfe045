// Large request bodies: one of a caller at a time, a few of all, so that they do not fill the memory.
// Runs alone: it measures the memory of a process.
import assert from "node:assert/strict";
import { nextTick } from "@/core/time/clock.ts";
import { LargeBodies, type LargeBody } from "@/transport/http/large_bodies.ts";
import { GatewayProcess } from "../e2e/target.ts";
import { freePort } from "../free_port.ts";
import { type Caller, openGateway, SECRET, signToken } from "../harness.ts";
import { createCallers, ok } from "../modules/fixtures.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { slowTest } from "../tier.ts";

const actorOf = (principalId: string, ownerId: string | null = null, tenantId = "t") => ({
  tenantId,
  principalId,
  ownerId,
});

async function enter(bodies: LargeBodies, actor: ReturnType<typeof actorOf>): Promise<LargeBody> {
  const body = bodies.bodyOf(actor);
  await body.enter();
  return body;
}

/** Whether a promise is settled by now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol();
  await nextTick();
  return await Promise.race([promise, Promise.resolve(pending)]) !== pending;
}

Deno.test("a principal and its agents send one large body at a time, and few of them wait", async () => {
  const bodies = new LargeBodies();
  const first = await enter(bodies, actorOf("alice"));
  const waiting = Array.from({ length: 8 }, () => enter(bodies, actorOf("robo", "alice")));
  await assert.rejects(enter(bodies, actorOf("alice")), { code: "rate_limited" });
  using other = await enter(bodies, actorOf("bob"));
  await other.beginHandling();
  assert.equal(await isSettled(Promise.race(waiting)), false);
  first[Symbol.dispose]();
  for (const one of waiting) (await one)[Symbol.dispose]();
  using again = await enter(bodies, actorOf("alice"));
  await again.beginHandling();
});

Deno.test("of all that were read, four are handled at a time; slow senders delay no others", async () => {
  const bodies = new LargeBodies();
  const enterAs = (name: string): Promise<LargeBody> => enter(bodies, actorOf(name));
  const slow = await Promise.all(Array.from({ length: 10 }, (_, n) => enterAs(`slow${n}`)));
  const handled = await Promise.all(Array.from({ length: 4 }, (_, n) => enterAs(`p${n}`)));
  for (const body of handled) await body.beginHandling();
  const [fifth, ended] = [await enterAs("p5"), await enterAs("p6")];
  const begins = fifth.beginHandling();
  const neverBegins = ended.beginHandling();
  assert.equal(await isSettled(begins), false);
  ended[Symbol.dispose]();
  handled[0]?.[Symbol.dispose]();
  await begins;
  for (const body of [...handled, fifth]) body[Symbol.dispose]();
  await assert.rejects(neverBegins, { code: "unavailable" });
  // All places are free again.
  for (const body of slow.slice(0, 4)) await body.beginHandling();
  for (const body of slow) body[Symbol.dispose]();
});

Deno.test("large bodies of many members of a tenant delay those of another tenant by one", async () => {
  const bodies = new LargeBodies();
  const crowd = await Promise.all(Array.from({ length: 12 }, (_, n) => enter(bodies, actorOf(`p${n}`))));
  const begins = crowd.map((body) => body.beginHandling());
  const other = await enter(bodies, actorOf("bob", null, "small"));
  const otherBegins = other.beginHandling();
  assert.equal(await isSettled(otherBegins), false);
  crowd[0]?.[Symbol.dispose]();
  await otherBegins;
  other[Symbol.dispose]();
  for (const [n, body] of crowd.entries()) {
    await begins[n];
    body[Symbol.dispose]();
  }
});

Deno.test("many large requests of a caller are handled one after the other, and too many are refused", async () => {
  await using gateway = await openGateway();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const files = [{ path: "SKILL.md", content: "x".repeat(300_000) }];
  const validate = (who: Caller) => who.post("/v1/collaboration/skills/validate", { files });
  const answers = await Promise.all(Array.from({ length: 12 }, () => validate(alice)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(9).fill(200), ...Array(3).fill(429)]);
  ok(await validate(bob));
});

Deno.test("small bodies of unknown length are not large", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const create = () => alice.post("/v1/rooms", { name: "One" });
  for (const response of await Promise.all(Array.from({ length: 30 }, create))) ok(response);
});

slowTest("many large requests of many callers at once do not fill the memory", async () => {
  const growths: number[] = [];
  // When garbage is collected depends on what else the machine does.
  while (growths.length < 3) {
    growths.push(await growByLargeBodies());
    // 50 bodies of 4.8 MB. Without limits it was three times as much.
    if (Math.min(...growths) < 500 * 1024 ** 2) return;
  }
  assert.fail(`grows by ${growths} bytes`);
});

/** By how many bytes a new process grows while many send large bodies at once. */
async function growByLargeBodies(): Promise<number> {
  await using folder = await createTemporaryFolder();
  const gateway = new GatewayProcess(freePort(), SECRET, {
    SVC_DATA_DIR: folder.path,
    SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`,
    SVC_RATE_LIMIT: "off",
  });
  const body = JSON.stringify({
    files: Array.from({ length: 99 }, (_, n) => ({ path: `${n}.md`, content: "€".repeat(16_000) })),
  });
  const validate = async (sub: string): Promise<number> => {
    const token = await signToken({ now: () => Date.now() }, sub);
    const response = await fetch(`${gateway.url}/v1/collaboration/skills/validate`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body,
    });
    await response.body?.cancel();
    return response.status;
  };
  const memoryBytes = async (): Promise<number> => {
    const status = await Deno.readTextFile(`/proc/${gateway.pid}/status`);
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
  };
  try {
    await gateway.start();
    assert.equal(await validate("alice"), 200);
    const before = await memoryBytes();
    const senders = Array.from({ length: 50 }, (_, n) => `p${n % 10}`);
    // On a slow machine, some of them time out.
    assert.ok((await Promise.all(senders.map(validate))).includes(200));
    return await memoryBytes() - before;
  } finally {
    await gateway.stop("SIGKILL");
  }
}
