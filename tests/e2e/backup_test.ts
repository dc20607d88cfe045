// Backup and restore as an operator does them: while people write, and so that nobody takes new events for those they know.
import assert from "node:assert/strict";
import type { StreamPosition, SubscribedContext } from "npm:centrifuge@5.8.0";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { until } from "../wait.ts";
import { openTarget, type Target } from "./target.ts";
import { slowTest } from "../tier.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

slowTest(
  "a backup has what was acknowledged before it, and what comes after a restore is not taken for what was lost",
  async () => {
    await using folder = await createTemporaryFolder();
    await using target = await openTarget({
      isOwn: true,
      environment: { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, SVC_DATA_DIR: folder.path },
    });
    const gateway = target.process;
    assert.ok(gateway);
    const run = (...args: string[]) => runCommand(`sqlite:${folder.path}/gateway.db`, args);
    const token = await target.token({ sub: "alice" });
    const room = await target.call(token, "POST", "/v1/rooms", { name: "Kept" });
    const say = (text: string) => target.call(token, "POST", "/v1/messages", { roomId: room.id, text });

    const before = ["a", "b", "c"];
    for (const text of before) await say(text);
    let isBusy = true;
    const busy = (async () => {
      while (isBusy) await say("meanwhile");
    })();
    const copy = `${folder.path}/copy.db`;
    const made = await run("backup", copy);
    isBusy = false;
    await busy;
    assert.equal(made.code, 0, made.text);
    assert.equal((await Deno.stat(copy)).mode, 0o100600);
    const size = (await Deno.stat(copy)).size;
    assert.match((await run("backup", copy)).text, /copy\S* already exists; .*another/);
    assert.equal((await Deno.stat(copy)).size, size);
    assert.match(
      (await run("backup", `${folder.path}/none/copy.db`)).text,
      /directory \S*\/none does not exist; create it/,
    );

    // More than the backup lacks, so that its line is as long again when this client comes back.
    for (let lost = 0; lost < 5; lost++) await say("lost");
    const known = await subscribe(target, token, room.id);
    assert.ok(known.streamPosition);
    assert.match((await run("restore", copy)).text, /another gateway is using .*; stop it first/);
    await gateway.stop();
    await Deno.writeTextFile(`${folder.path}/text`, "no database");
    assert.match((await run("restore", `${folder.path}/text`)).text, /is not a backup of the gateway's database/);
    const restored = await run("restore", copy);
    assert.equal(restored.code, 0, restored.text);
    assert.match(restored.text, /Restored; the previous database was moved to .*gateway\.db\.replaced-/);
    await gateway.start();

    const { items } = await target.call(token, "GET", `/v1/messages?roomId=${room.id}&after=0`);
    const texts: string[] = items.filter((message: { type: string }) => message.type === "text")
      .map(({ text }: { text: string }) => text);
    assert.deepEqual(texts.slice(0, 3), before);
    assert.ok(!texts.includes("lost"));
    for (let next = 0; next < 500 && next < known.streamPosition.offset; next++) await say("new");
    const again = await subscribe(target, token, room.id, known.streamPosition);
    assert.deepEqual([again.wasRecovering, again.recovered], [true, false]);
  },
);

/** What a client receives when it subscribes, from a known position or without one. */
async function subscribe(
  target: Target,
  token: string,
  roomId: string,
  since?: StreamPosition,
): Promise<SubscribedContext> {
  const client = await target.connect(token);
  const subscription = client.newSubscription(`room:${roomId}`, since === undefined ? {} : { since });
  let heard: SubscribedContext | undefined;
  subscription.on("subscribed", (context) => heard = context);
  subscription.subscribe();
  await until(() => heard !== undefined, "subscribed");
  client.disconnect();
  assert.ok(heard);
  return heard;
}

/** A task, with no more permissions than it has, and what it printed. */
async function runCommand(databaseUrl: string, args: string[]): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", ...args],
    cwd: ROOT,
    env: { SVC_DATABASE_URL: databaseUrl, SVC_JWT_SECRET: crypto.randomUUID() },
  }).output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}
