// What a search over many messages costs, printed, and bounded by what it costs to read a page of them.
// SEARCH_LATENCY=100000 measures a larger index.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { engines, fillRoom, printLine, waitForIndex } from "./search_engines.ts";
import { cpuSeconds, cpuTimeMs, measureCpuMs, startStopwatch } from "../cpu_time.ts";
import type { Harness } from "../harness.ts";
import { slowTest } from "../tier.ts";
import { until } from "../wait.ts";

const SIZES = [10_000, ...Deno.env.get("SEARCH_LATENCY") === "100000" ? [100_000] : []];
const SAMPLES = 3;
/** Far above what is measured, so that only a broken index fails. */
const PAGES_MAX = 100;

/** Words made of syllables, the first ones much more frequent than the last. */
function textsOf(count: number): string[] {
  const syllables = ["ka", "ro", "mi", "ten", "sul", "ver", "ang", "po", "li", "dra", "shu", "nek", "ost", "fi", "gam"];
  let state = 42;
  const random = (): number => (state = Math.imul(state, 1_103_515_245) + 12_345 >>> 0) / 2 ** 32;
  const wordOf = (rank: number): string => {
    const [a, b, c] = [rank % 15, Math.floor(rank / 15) % 15, Math.floor(rank / 225) % 15];
    return `${syllables[a]}${syllables[b]}${syllables[c]}`;
  };
  return Array.from(
    { length: count },
    (_, at) =>
      Array.from({ length: 12 }, () => wordOf(Math.floor(3000 * random() ** 3))).join(" ") +
      (at % 997 === 0 ? " needle" : ""),
  );
}

for (const { name, open } of engines) {
  for (const size of SIZES) {
    slowTest(`search stays fast over ${size} messages (${name})`, async () => {
      await using opened = await open();
      const { gateway } = opened;
      const alice = await gateway.as("alice");
      await alice.get("/v1/rooms");
      const rooms = 10;
      const texts = textsOf(size);
      let sending = 0;
      for (let at = 0; at < rooms; at++) {
        const startedAt = performance.now();
        await fillRoom(gateway, alice, texts.slice(at * size / rooms, (at + 1) * size / rooms));
        sending += performance.now() - startedAt;
      }
      const { body: { items: [room] } } = await alice.get("/v1/rooms?limit=1");
      const page = `/v1/messages?roomId=${room.id}&limit=100`;
      const took = startStopwatch();
      await waitForIndex(alice);
      printLine(
        `  ${name} ${size}: sent at ${Math.round(size / sending * 1000)}/s, the rest indexed in ` +
          took(),
      );
      for (
        const [what, body] of [
          ["rare word", { query: "needle" }],
          ["frequent word", { query: "kakaka" }],
          ["frequent word, recent", { query: "kakaka", sort: "recent" }],
          ["part of many words", { query: "kak" }],
          ["two words", { query: "kakaka rokaka" }],
          ["nothing", { query: "zzyzx" }],
        ] as const
      ) {
        // On a busy machine one may take too long: it is then asked again, which counts as well.
        const search = () => until(async () => (await alice.post("/v1/search", body)).status === 200, what);
        const read = async () => assert.equal((await alice.get(page)).status, 200);
        const readMs = name === "sqlite" ? cpuTimeMs : await workOfServer(gateway);
        // The first ones find colder caches.
        const samples: number[] = [];
        while (samples.length < SAMPLES) samples.push(await measureCpuMs(search, undefined, readMs));
        const searchMs = Math.min(...samples);
        const pageMs = await measureCpuMs(read, undefined, readMs);
        printLine(`  ${name} ${size} ${what}: ${searchMs.toFixed(1)} ms, a page ${pageMs.toFixed(1)} ms`);
        assert.ok(searchMs < PAGES_MAX * pageMs, `${what}: ${searchMs} ms, a page ${pageMs} ms`);
      }
    });
  }
}

/** Reads what this thread and the processes of PostgreSQL have worked for a gateway; the time, if the server runs elsewhere. */
async function workOfServer({ app }: Harness): Promise<() => number> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`
    .execute(app.store.db);
  if (!rows.every(({ pid }) => isPostgres(pid))) return () => performance.now();
  // A connection may be closed while it is watched: what its process had worked by then still counts.
  const secondsOf = new Map(rows.map(({ pid }) => [pid, 0]));
  return () => {
    for (const [pid, seconds] of secondsOf) secondsOf.set(pid, ifRunning(() => cpuSeconds(pid)) ?? seconds);
    return cpuTimeMs() + secondsOf.values().reduce((sum, seconds) => sum + seconds * 1000, 0);
  };
}

function isPostgres(pid: number): boolean {
  return ifRunning(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`))?.startsWith("postgres") ?? false;
}

/** What `read` reads of a process, or undefined if that has ended. */
function ifRunning<Read>(read: () => Read): Read | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
