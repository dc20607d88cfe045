// `deno task bench [fanout|sends|postgres|http|idle|storm|rows|fairness|documents|vectors …]`: the gateway beside its
// peers, measured in the same run.
import { documents } from "./documents.ts";
import { fairness } from "./fairness.ts";
import { fanout } from "./fanout.ts";
import { hostile } from "./hostile.ts";
import { http } from "./http.ts";
import { idle } from "./idle.ts";
import { plugins } from "./plugins.ts";
import { postgres } from "./postgres.ts";
import { chart, type Row, say, table } from "./report.ts";
import { rows } from "./rows.ts";
import { runs } from "./runs.ts";
import { sends } from "./sends.ts";
import { storm } from "./storm.ts";
import { vectors } from "./vectors.ts";

const ROUNDS = 3;
/** Its rounds are short, and differ most. */
const HTTP_ROUNDS = 5;
const CHART = new URL("./chart.svg", import.meta.url);

const BENCHES: Readonly<Record<string, () => Promise<Row[]>>> = {
  fanout: () => fanout(ROUNDS),
  sends: () => sends(ROUNDS),
  postgres: () => postgres(ROUNDS),
  http: () => http(HTTP_ROUNDS),
  idle: () => idle(15_000),
  storm: () => storm(ROUNDS),
  rows: () => rows(),
  fairness: () => fairness(),
  documents: () => documents(ROUNDS),
};

/** Run only when asked for by name: what they measure is no peer. */
const OTHERS: Readonly<Record<string, () => Promise<Row[]>>> = {
  hostile,
  vectors,
  runs: () => runs(ROUNDS),
  plugins: () => plugins(ROUNDS),
};

if (import.meta.main) {
  const named = { ...BENCHES, ...OTHERS };
  const unknown = Deno.args.find((name) => !(name in named));
  if (unknown !== undefined) throw new Error(`no benchmark ${unknown}; there are ${Object.keys(named).join(", ")}`);
  const all: Row[] = [];
  for (const [name, run] of Object.entries(Deno.args.length === 0 ? BENCHES : named)) {
    if (Deno.args.length > 0 && !Deno.args.includes(name)) continue;
    const own = await run();
    // What ends later may fail: what was measured before is shown by then.
    say(table(own));
    all.push(...own);
  }
  if (Deno.args.length === 0) await Deno.writeTextFile(CHART, chart(all));
}
