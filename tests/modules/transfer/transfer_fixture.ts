// What the tests of imports and exports start from: a gateway, and how to import and export archives.
import assert from "node:assert/strict";
import { renewLease } from "@/adapters/job/queries.ts";
import { type ApiResponse, type Caller, type Harness, openGateway } from "../../harness.ts";
import { isQuick } from "../../tier.ts";
import { readRoomEvents } from "../fixtures.ts";

export const IMPORTS = "/v1/collaboration/imports";
export const EXPORTS = "/v1/collaboration/exports";
export const LEASE_MS = 61_000;

/** Asks for an import and uploads its archive; it has not run yet. */
export async function uploadArchive(
  boss: Caller,
  kind: string,
  archive: Uint8Array<ArrayBuffer> | string,
): Promise<string> {
  const { status, body } = await boss.post(IMPORTS, { kind });
  assert.equal(status, 201, JSON.stringify(body));
  const sent = await putArchive(boss, body.id, archive);
  assert.equal(sent.status, 202, JSON.stringify(sent.body));
  return body.id;
}

export function putArchive(boss: Caller, id: string, archive: BodyInit): Promise<ApiResponse> {
  return boss.put(`${IMPORTS}/${id}/content`, archive, { "content-type": "application/octet-stream" });
}

/** Imports an archive; returns the finished import. */
export async function importArchive(
  gateway: Harness,
  boss: Caller,
  kind: string,
  archive: Uint8Array<ArrayBuffer> | string,
): Promise<ApiResponse["body"]> {
  const id = await uploadArchive(boss, kind, archive);
  await gateway.runJobs();
  return (await boss.get(`${IMPORTS}/${id}`)).body;
}

/** The same of an archive of which nothing is left out. */
export async function importWhole(...of: Parameters<typeof importArchive>): Promise<ApiResponse["body"]> {
  const done = await importArchive(...of);
  assert.deepEqual([done.state, done.report], ["done", []], JSON.stringify(done));
  return done;
}

/** The same of an archive of the gateway of which so many records are left out, by the code that says why. */
export async function importPartly(
  gateway: Harness,
  boss: Caller,
  archive: string,
  skipped: Record<string, number>,
): Promise<ApiResponse["body"]> {
  const done = await importArchive(gateway, boss, "gateway", archive);
  assert.equal(done.state, "done", JSON.stringify(done));
  assert.deepEqual(skipCounts(done), skipped, JSON.stringify(done.report));
  return done;
}

/** Imports an archive of which all is there already. */
export async function importAgain(...of: Parameters<typeof importArchive>): Promise<void> {
  assertNothingAdded(await importWhole(...of));
}

export function assertNothingAdded({ progress: { added } }: Any): void {
  assert.ok(Object.values(added).every((count) => count === 0), JSON.stringify(added));
}

/** A finished export's answer. */
export function downloadExport(boss: Caller, id: string, query = ""): Promise<Response> {
  return boss.open(`${EXPORTS}/${id}/content${query}`);
}

export function exportTenant(gateway: Harness, boss: Caller): Promise<string> {
  return exportArchive(gateway, boss, { kind: "tenant" });
}

export function exportRoom(gateway: Harness, who: Caller, roomId: string): Promise<string> {
  return exportArchive(gateway, who, { kind: "room", roomId });
}

/** Exports what an input says; returns the archive. */
export async function exportArchive(gateway: Harness, who: Caller, input: Any): Promise<string> {
  const { status, body } = await who.post(EXPORTS, input);
  assert.equal(status, 202, JSON.stringify(body));
  await gateway.runJobs();
  const content = await downloadExport(who, body.id);
  assert.equal(content.status, 200);
  return await content.text();
}

// deno-lint-ignore no-explicit-any -- untyped lines and responses
export type Any = any;

/** The lines of an archive. */
export function parseRecords(archive: string): Any[] {
  return archive.trimEnd().split("\n").map((line) => JSON.parse(line));
}

/** An archive of lines. */
export function toArchive(lines: readonly Any[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** Lines of some types. */
export function recordsOfType(archive: string, ...types: string[]): Any[] {
  return parseRecords(archive).filter(({ type }) => types.includes(type));
}

/** Lines without their importer, and without the last lines. */
export function comparableRecords(archive: string): string[] {
  return parseRecords(archive).filter(({ type, id }) => type !== "export" && type !== "end" && id !== "boss")
    .map((line) => JSON.stringify(line)).sort();
}

/** Lines with ids of rooms and messages replaced by their order, without who ran the import. */
export function normalizedRecords(ndjson: string): string[] {
  const lines = ndjson.trimEnd().split("\n").map((line) => JSON.parse(line));
  const place = (line: { createdAt?: string; text?: string; metadata?: { sourceId?: string } }) =>
    `${line.createdAt} ${line.text ?? ""} ${line.metadata?.sourceId ?? ""}`;
  const names = new Map<string, string>();
  for (const line of lines.filter(({ type }) => type === "room")) names.set(line.id, `${line.kind} ${line.name}`);
  for (const line of lines.filter(({ type }) => type === "message")) {
    names.set(line.id, `${names.get(line.roomId)} ${place(line)}`);
  }
  return lines.filter(({ type, id }) => type !== "export" && type !== "end" && id !== "boss").map((line) =>
    JSON.stringify(line, (_, value) => typeof value === "string" ? names.get(value) ?? value : value)
  ).sort();
}

/** Lets this many more writes reach the disk and no other, as if the machine lost power; the returned function restores it. */
export function failWritesAfter(gateway: Harness, writes: number, onDark?: () => void): () => void {
  const { store } = gateway.app;
  const write = store.write;
  let left = writes;
  store.write = (work) => {
    if (left-- > 0) return write.call(store, work) as never;
    onDark?.();
    return Promise.reject(new Error("no power"));
  };
  return () => store.write = write;
}

/**
 * Runs the jobs with the power going after so many writes, and waits until their leases have run out. The runner ends with its
 * process; `runJobs` starts the next one.
 */
export async function crashAfterWrites(
  gateway: Harness,
  writes: number,
  first?: () => Promise<unknown>,
): Promise<void> {
  const { promise: dark, resolve: darken } = Promise.withResolvers<void>();
  const back = failWritesAfter(gateway, writes, darken);
  await first?.();
  const ended = gateway.runJobs();
  await Promise.race([ended, dark]);
  await gateway.app.jobs.stop(0);
  await ended;
  back();
  gateway.clock.advance(LEASE_MS);
}

/** From now on no runner renews its leases, as if asleep: several share a process, whose timers fire at any time. */
export function endRenewals(): Disposable {
  const { run } = renewLease;
  renewLease.run = () => Promise.resolve(1);
  return { [Symbol.dispose]: () => void (renewLease.run = run) };
}

/** Runs the work of every write twice, the first time in vain, as the store may; the return ends that. */
export function runWritesTwice(gateway: Harness): () => void {
  const { store } = gateway.app;
  const write = store.write;
  const undone = new Error("undone");
  store.write = (work) =>
    write.call(store, async (tx) => {
      await write.call(store, async (inner) => {
        await work(inner);
        throw undone;
      }).catch((error) => {
        if (error !== undone) throw error;
      });
      return await work(tx);
    }) as never;
  return () => store.write = write;
}

/** Calls `before` with what each transaction is about to publish, inside it; the returned function ends that. */
export function beforeEmit(gateway: Harness, before: (drafts: Any[]) => unknown): () => void {
  const { store } = gateway.app;
  const write = store.write;
  store.write = (work) =>
    write.call(store, (tx) =>
      work(
        new Proxy(tx, {
          get(target, name) {
            const value: Any = Reflect.get(target, name, target);
            if (typeof value !== "function") return value;
            if (name !== "emit") return value.bind(target);
            return async (...drafts: Any[]) => {
              await before(drafts);
              return await value.apply(target, drafts);
            };
          },
        }),
      )) as never;
  return () => store.write = write;
}

/** What an import left out: how many items by code. */
export function skipCounts({ report }: Any): Record<string, number> {
  return Object.fromEntries(report.map(({ code, count }: Any) => [code, count]));
}

/** An import as its events describe it, without times. */
export function summarizeImport({ state, progress, report, failure }: Any): Record<string, unknown> {
  return {
    state,
    failure,
    added: progress.added,
    present: progress.present,
    report: report.toSorted((a: Any, b: Any) => a.code < b.code ? -1 : 1),
  };
}

/** Writes from one crash to the next; a run of the quick tier crashes at every third. */
export const CRASH_STEP = isQuick ? 3 : 1;

/** Imports an archive with the power lost after one write, two, three … until it completes: the result is the same as without. */
export async function assertSurvivesCrashes(archive: string, moreThan: number): Promise<void> {
  await using empty = await openGateway();
  const owner = await empty.as("boss", { role: "owner" });
  const whole = summarizeImport(await importArchive(empty, owner, "gateway", archive));
  const end = comparableRecords(await exportTenant(empty, owner));
  let crashes = 0;
  for (let isDone = false; !isDone; crashes++) {
    await using broken = await openGateway();
    const boss = await broken.as("boss", { role: "owner" });
    const importId = await uploadArchive(boss, "gateway", archive);
    await crashAfterWrites(broken, 2 + CRASH_STEP * crashes);
    isDone = (await boss.get(`${IMPORTS}/${importId}`)).body.state === "done";
    await broken.runJobs();
    const after = await broken.as("boss", { role: "owner" });
    assert.deepEqual(summarizeImport((await after.get(`${IMPORTS}/${importId}`)).body), whole);
    assert.deepEqual(comparableRecords(await exportTenant(broken, after)), end);
  }
  assert.ok(crashes * CRASH_STEP > moreThan, `${crashes} places to crash`);
}

/** Imports an archive once as usual and once with every write run twice: nothing is counted, stored or published again. */
export async function assertIdempotent(archive: string, roomId: string): Promise<void> {
  const results: unknown[] = [];
  for (const isTwice of [false, true]) {
    await using empty = await openGateway();
    const boss = await empty.as("boss", { role: "owner" });
    const back = isTwice ? runWritesTwice(empty) : undefined;
    const done = await importArchive(empty, boss, "gateway", archive);
    back?.();
    const told = await readRoomEvents(await empty.as("ann"), roomId);
    results.push([
      summarizeImport(done),
      comparableRecords(await exportTenant(empty, boss)),
      told.map(({ type }) => type),
    ]);
  }
  assert.deepEqual(results[1], results[0]);
}
