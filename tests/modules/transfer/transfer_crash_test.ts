// Imports and exports that are cut short: by a crash, a stop, a cancel, a concurrent repeat, or time. What was imported is counted
// and published once, and nothing of them is left behind.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { JobRunner } from "@/adapters/job/runner.ts";
import { HOUR_MS } from "@/core/time/clock.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { createTemporaryFolder } from "../../temporary_folder.ts";
import { listFiles } from "../file/file_harness.ts";
import { recordQueries } from "../query_log.ts";
import { slowTest } from "../../tier.ts";
import { pause } from "../../wait.ts";
import {
  crashAfterWrites,
  downloadExport,
  endRenewals,
  EXPORTS,
  exportTenant,
  failWritesAfter,
  importArchive,
  IMPORTS,
  LEASE_MS,
  normalizedRecords,
  putArchive,
  runWritesTwice,
  summarizeImport,
  uploadArchive,
} from "./transfer_fixture.ts";
import { createZip } from "./transfer_zip.ts";

const MESSAGES = 1500;

/** Conversations in which something is wrong every now and then. */
function slackArchive(): Uint8Array<ArrayBuffer> {
  const users = Array.from({ length: 5 }, (_, n) => ({ id: `U${n}`, name: n === 4 ? "Bad Handle!" : `user${n}` }));
  const channels = ["one", "two", "three"].map((name, n) => ({
    id: `C${n}`,
    name,
    creator: "U0",
    members: ["U0", "U1"],
    topic: { value: n === 0 ? "t".repeat(600) : "fine" },
  }));
  const days: Record<string, unknown[]> = {};
  for (let n = 0; n < MESSAGES; n++) {
    const name = ["one", "two", "three"][Math.floor(n / (MESSAGES / 3))];
    (days[`${name}/2024-01-0${1 + n % 7}.json`] ??= []).push({
      type: "message",
      user: n % 100 === 7 ? `UGONE${n}` : `U${n % 5}`,
      ts: `${1_700_000_000 + (n % 7) * 86_400 + n}.000000`,
      text: n % 90 === 5 ? "" : `message ${n}`,
      ...(n % 80 === 3 ? { thread_ts: "1.000000" } : {}),
      ...(n % 70 === 4 ? { reactions: [{ name: "x".repeat(300), users: ["U1"] }, { name: "+1", users: ["U1"] }] } : {}),
      ...(n % 60 === 9 ? { files: [{ name: "a.png", permalink: "https://files.example/a.png" }] } : {}),
    });
  }
  return createZip({
    "users.json": JSON.stringify(users),
    "channels.json": JSON.stringify(channels),
    ...Object.fromEntries(Object.entries(days).map(([name, posts]) => [name, JSON.stringify(posts)])),
  });
}

/** The same as a Mattermost export, its lines in no order of time. */
function mattermostArchive(): string {
  const lines: unknown[] = [
    { type: "version", version: 1 },
    ...["one", "two"].map((name) => ({ type: "channel", channel: { team: "t", name, display_name: name, type: "O" } })),
    ...["ann", "bob"].map((username) => ({
      type: "user",
      user: { username, teams: [{ name: "t", channels: [{ name: "one" }] }] },
    })),
  ];
  for (let n = 0; n < MESSAGES; n++) {
    lines.push({
      type: "post",
      post: {
        team: "t",
        channel: n % 2 === 0 ? "one" : "two",
        user: n % 100 === 7 ? `gone${n}` : "ann",
        message: n % 90 === 5 ? "" : `message ${n}`,
        create_at: 1_700_000_000_000 + ((n * 7919) % MESSAGES) * 1000,
        ...(n % 50 === 1 ? { replies: [{ user: "bob", message: "reply", create_at: 1_800_000_000_000 + n }] } : {}),
        ...(n % 70 === 4 ? { reactions: [{ user: "bob", emoji_name: "no good" }] } : {}),
      },
    });
  }
  return lines.map((line) => JSON.stringify(line)).join("\n");
}

/** Without the moments of the import itself. */
function withoutTimes(lines: string[]): string[] {
  return lines.map((line) => line.replaceAll(/2026-03-01T[\d:.]+Z/g, "now"));
}

for (const [kind, archive] of [["slack", slackArchive()], ["mattermost", mattermostArchive()]] as const) {
  Deno.test(`an import from ${kind} that crashes ends as one that does not`, async () => {
    let whole: unknown;
    let lines: string[] = [];
    {
      await using gateway = await openGateway();
      const boss = await gateway.as("boss", { role: "owner" });
      whole = summarizeImport(await importArchive(gateway, boss, kind, archive));
      lines = withoutTimes(normalizedRecords(await exportTenant(gateway, boss)));
    }
    await using gateway = await openGateway();
    const boss = await gateway.as("boss", { role: "owner" });
    const id = await uploadArchive(boss, kind, archive);
    await crashAfterWrites(gateway, 18);
    const { body: broken } = await boss.get(`${IMPORTS}/${id}`);
    assert.equal(broken.state, "running");
    assert.ok(broken.progress.added.messages > 0 && broken.progress.added.messages < MESSAGES, "cut in the middle");
    await gateway.app.jobs.stop();
    const statements = await recordQueries(() => gateway.runJobs());
    if (kind === "mattermost") {
      const parts = statements.filter(({ sql }) => sql.startsWith('delete from "transfer_line"')).length;
      assert.ok(parts >= 4, `the lines of two runs are deleted in ${parts} parts`);
    }
    assert.deepEqual(summarizeImport((await boss.get(`${IMPORTS}/${id}`)).body), whole);
    assert.deepEqual(await listFiles(gateway.folder), []);
    assert.deepEqual(await countOf(gateway, "transfer_line"), 0);
    assert.deepEqual(withoutTimes(normalizedRecords(await exportTenant(gateway, boss))), lines);
  });
}

/** As if the process of jobs that run had ended three more times meanwhile, over an hour. */
async function countMoreDeaths({ app: { store } }: Harness): Promise<void> {
  await store.write((tx) => sql`update job set deaths = deaths + 3 where state = 'running'`.execute(tx.db));
}

Deno.test("an import whose process always ends with it fails, and another may be created", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const id = await uploadArchive(boss, "mattermost", mattermostArchive());
  for (let n = 0; n < 2; n++) await crashAfterWrites(gateway, 4);
  assert.equal((await boss.post(IMPORTS, { kind: "slack" })).body.code, "already_running");
  await countMoreDeaths(gateway);
  await gateway.runJobs();
  const { body } = await boss.get(`${IMPORTS}/${id}`);
  assert.deepEqual([body.state, body.failure.code], ["failed", "internal"]);
  assert.deepEqual([await listFiles(gateway.folder), await countOf(gateway, "transfer_line")], [[], 0]);
  assert.equal((await boss.post(IMPORTS, { kind: "slack" })).status, 201);
});

Deno.test("an export whose process always ends with it fails, and another may be created", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  await boss.get("/v1/collaboration/me");
  await crashAfterWrites(gateway, 3, () => boss.post(EXPORTS, { kind: "tenant" }));
  await crashAfterWrites(gateway, 2);
  const { body: { items: [made] } } = await boss.get(EXPORTS);
  assert.equal((await boss.post(EXPORTS, { kind: "tenant" })).body.code, "already_running");
  await countMoreDeaths(gateway);
  await gateway.runJobs();
  const { body } = await boss.get(`${EXPORTS}/${made.id}`);
  assert.deepEqual([body.state, body.failure?.code], ["failed", "internal"]);
  assert.deepEqual(await listFiles(gateway.folder), [], "files nobody will ever ask for are gone");
  assert.match(await exportTenant(gateway, boss), /^{"type":"export"/);
});

Deno.test("an export that crashes before its end starts over, and leaves one file", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  await boss.post("/v1/rooms", { name: "Room" });
  await crashAfterWrites(gateway, 4, () => boss.post(EXPORTS, { kind: "tenant" }));
  const { body: { items: [made] } } = await boss.get(EXPORTS);
  const conflict = await downloadExport(boss, made.id);
  assert.equal(conflict.status, 409, "it is running, whatever there is on disk");
  await conflict.body?.cancel();
  await gateway.runJobs();
  assert.equal((await boss.get(`${EXPORTS}/${made.id}`)).body.state, "done");
  assert.equal((await listFiles(gateway.folder)).length, 1);
});

Deno.test("a finished export exists for 72 hours, and then its file is deleted", async () => {
  await using gateway = await openGateway();
  const early = await gateway.as("boss", { role: "owner" });
  const { body: made } = await early.post(EXPORTS, { kind: "tenant" });
  await gateway.runJobs();
  gateway.clock.advance(72 * HOUR_MS - 1000);
  await gateway.runJobs();
  const boss = await gateway.as("boss", { role: "owner" });
  const kept = await downloadExport(boss, made.id);
  assert.deepEqual([kept.status, (await kept.text()).split("\n")[0]?.includes('"export"')], [200, true]);
  gateway.clock.advance(1000);
  const late = await downloadExport(boss, made.id);
  assert.deepEqual([late.status, (await late.json()).code], [410, "gone"], "also before the job has come by");
  await gateway.runJobs();
  assert.deepEqual([(await boss.get(`${EXPORTS}/${made.id}`)).body.state, await listFiles(gateway.folder)], [
    "expired",
    [],
  ]);
});

Deno.test("the last three finished exports of a principal are retained", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const admin = await gateway.as("admin", { role: "admin" });
  await exportTenant(gateway, admin);
  for (let n = 0; n < 5; n++) await exportTenant(gateway, boss);
  const { body } = await boss.get(EXPORTS);
  const states = body.items.map(({ requestedBy, state }: Record<string, string>) => `${requestedBy} ${state}`);
  assert.deepEqual(states, [
    ...Array(3).fill("boss done"),
    ...Array(2).fill("boss expired"),
    "admin done",
  ]);
  assert.equal((await listFiles(gateway.folder)).length, 4);
  const gone = await downloadExport(boss, body.items[4].id);
  assert.deepEqual([gone.status, (await gone.json()).code], [410, "gone"]);
});

Deno.test("an import that waits for its archive for a day is cancelled, and no longer accepts one", async () => {
  await using gateway = await openGateway();
  const early = await gateway.as("boss", { role: "owner" });
  const { body: made } = await early.post(IMPORTS, { kind: "slack" });
  // An upload that was cut off with the machine: its content is on disk, its import does not know.
  const back = failWritesAfter(gateway, 1);
  assert.equal((await putArchive(early, made.id, "cut off")).status, 500);
  back();
  gateway.clock.advance(24 * HOUR_MS);
  await gateway.runJobs();
  const boss = await gateway.as("boss", { role: "owner" });
  assert.equal((await boss.get(`${IMPORTS}/${made.id}`)).body.state, "cancelled");
  assert.deepEqual(await listFiles(gateway.folder), []);
  assert.equal((await putArchive(boss, made.id, "late")).status, 409);
  assert.equal((await boss.post(IMPORTS, { kind: "slack" })).status, 201);
});

Deno.test("of two uploads for one import the one that began last counts, and the other leaves nothing", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const { body: made } = await boss.post(IMPORTS, { kind: "mattermost" });
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
  const slow = putArchive(boss, made.id, readable);
  const writer = writable.getWriter();
  await writer.write(new TextEncoder().encode("half of "));
  assert.equal((await putArchive(boss, made.id, mattermostArchive())).status, 202);
  await writer.close();
  assert.equal((await slow).status, 409);
  await gateway.runJobs();
  assert.equal((await boss.get(`${IMPORTS}/${made.id}`)).body.state, "done");
  assert.deepEqual(await listFiles(gateway.folder), []);
});

Deno.test("a cancelled import stops where it is and leaves what was imported; importing again adds the rest", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  for (const [kind, archive] of [["slack", slackArchive()], ["mattermost", mattermostArchive()]] as const) {
    const id = await uploadArchive(boss, kind, archive);
    let cancelled: number | undefined;
    const back = afterFirstMessages(gateway, async () => {
      cancelled = (await boss.post(`${IMPORTS}/${id}/cancel`)).status;
    });
    await gateway.runJobs();
    back();
    assert.equal(cancelled, 200);
    const { body: cut } = await boss.get(`${IMPORTS}/${id}`);
    assert.deepEqual([cut.state, cut.failure], ["cancelled", null]);
    assert.ok(cut.progress.added.messages > 0 && cut.progress.added.messages < 1400, JSON.stringify(cut.progress));
    assert.deepEqual([await listFiles(gateway.folder), await countOf(gateway, "transfer_line")], [[], 0]);
    assert.equal((await boss.post(`${IMPORTS}/${id}/cancel`)).status, 409);
    const rest = await importArchive(gateway, boss, kind, archive);
    assert.deepEqual([rest.state, rest.progress.present], ["done", cut.progress.added.messages], kind);
  }
});

for (const [kind, archive] of [["slack", slackArchive()], ["mattermost", mattermostArchive()]] as const) {
  Deno.test(`an import from ${kind} whose process was only asleep gives way to the run that took its place`, async () => {
    let whole: unknown;
    {
      await using gateway = await openGateway();
      whole = summarizeImport(
        await importArchive(gateway, await gateway.as("boss", { role: "owner" }), kind, archive),
      );
    }
    await using gateway = await openGateway();
    const boss = await gateway.as("boss", { role: "owner" });
    const id = await uploadArchive(boss, kind, archive);
    const { store } = gateway.app;
    const { promise: awake, resolve: wake } = Promise.withResolvers<void>();
    let isAsleep = false;
    const back = afterFirstMessages(gateway, () => {
      isAsleep = true;
      return awake;
    });
    const running = gateway.runJobs();
    while (!isAsleep) await pause(1);
    using _asleep = endRenewals();
    gateway.clock.advance(LEASE_MS);
    const kinds = gateway.app.modules.flatMap((module) => module.jobs ?? []);
    const other = new JobRunner({ store, kinds, clock: gateway.clock });
    other.start();
    for (;;) {
      const { body } = await (await gateway.as("boss", { role: "owner" })).get(`${IMPORTS}/${id}`);
      if (body.progress.added.messages > 600) break;
      await pause(1);
    }
    wake();
    await running;
    await other.whenIdle();
    await other.stop();
    await gateway.runJobs();
    back();
    assert.deepEqual(summarizeImport((await boss.get(`${IMPORTS}/${id}`)).body), whole);
  });
}

Deno.test("an import whose transactions are run twice, as the store may, counts and publishes everything once", async () => {
  for (const [kind, archive] of [["slack", slackArchive()], ["mattermost", mattermostArchive()]] as const) {
    const results: unknown[] = [];
    for (const isTwice of [false, true]) {
      await using gateway = await openGateway();
      const boss = await gateway.as("boss", { role: "owner" });
      const back = isTwice ? runWritesTwice(gateway) : undefined;
      const done = await importArchive(gateway, boss, kind, archive);
      back?.();
      results.push([summarizeImport(done), withoutTimes(normalizedRecords(await exportTenant(gateway, boss)))]);
    }
    assert.deepEqual(results[1], results[0]);
  }
});

slowTest("a gateway that stops leaves a running import to the next, however often", async () => {
  await using folder = await createTemporaryFolder();
  const environment = { SVC_DATA_DIR: folder.path, SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db` };
  let id = "";
  let stops = 0;
  let last = { state: "", messages: 0 };
  for (; last.state !== "done"; stops++) {
    await using gateway = await openGateway(environment);
    const boss = await gateway.as("boss", { role: "owner" });
    if (id === "") id = await uploadArchive(boss, "slack", slackArchive());
    const before = last.messages;
    // Each start gets through a batch or two.
    while (last.state !== "done" && last.messages <= before) {
      await pause(1);
      const { body } = await boss.get(`${IMPORTS}/${id}`);
      assert.ok(["queued", "running", "done"].includes(body.state), JSON.stringify(body));
      last = { state: body.state, messages: body.progress.added.messages };
    }
  }
  assert.ok(stops > 1, "it was stopped");
  await using gateway = await openGateway(environment);
  const { body } = await (await gateway.as("boss", { role: "owner" })).get(`${IMPORTS}/${id}`);
  assert.deepEqual([body.progress.added.rooms, body.progress.present], [3, 0]);
});

Deno.test("names, topics and descriptions that are too long are cut, and the report says which", async () => {
  await using gateway = await openGateway();
  const boss = await gateway.as("boss", { role: "owner" });
  const archive = createZip({
    "users.json": JSON.stringify([{ id: "U1", name: "ann", real_name: "n".repeat(150) }, { id: "U2", name: "B@d" }]),
    "channels.json": JSON.stringify([{
      id: "C1",
      name: "c".repeat(200),
      members: ["U1"],
      topic: { value: "😀".repeat(501) },
      purpose: { value: "p".repeat(4001) },
    }, { id: "C2", name: "😀".repeat(120), members: ["U1"] }]),
  });
  const done = await importArchive(gateway, boss, "slack", archive);
  const told = Object.fromEntries(
    done.report.map(({ code, count, examples }: { code: string; count: number; examples: string[] }) => [
      code,
      [count, examples.map((one) => one.slice(0, 15))],
    ]),
  );
  assert.deepEqual(told, {
    truncated: [4, ["name: slack:U1", "name: ccccccccc", "topic: cccccccc", "description: cc"]],
    handle_invalid: [1, ["slack:U2: b@d"]],
  });
  const ann = await gateway.as("slack:U1");
  const { body } = await ann.get("/v1/rooms?sort=name");
  assert.deepEqual(
    body.items.map((room: { name: string; topic: string | null; description: string | null }) => [
      [...room.name].length,
      [...room.topic ?? ""].length,
      room.description?.length ?? 0,
    ]),
    [[120, 500, 4000], [120, 0, 0]],
  );
});

/** Has the first write after messages were imported wait for `step`; returns what puts an end to it. */
function afterFirstMessages(gateway: Harness, step: () => void | Promise<void>): () => void {
  const { store } = gateway.app;
  const write = store.write;
  const before = countOf(gateway, "message");
  let hasCome = false;
  store.write = async (work) => {
    const mayHaveCome = !hasCome && !store.isInTransaction;
    if (mayHaveCome && await countOf(gateway, "message") > await before && !hasCome) {
      hasCome = true;
      await step();
    }
    return await write.call(store, work) as never;
  };
  return () => store.write = write;
}

/** How many rows a table has. */
async function countOf(gateway: Harness, table: string): Promise<number> {
  const rows = await gateway.app.store.db.selectFrom(table as never).selectAll().execute();
  return rows.length;
}
