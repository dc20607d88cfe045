// What operators start from, held against what the gateway is: containers, Prometheus, Grafana and the example environment.
import assert from "node:assert/strict";
import { parse } from "npm:yaml@2.9.1";
import { z } from "@zod/zod";
import { readConfig } from "@/config.ts";
import { Metrics } from "@/core/metrics.ts";

const Compose = z.object({
  services: z.record(
    z.string(),
    z.object({
      image: z.string().optional(),
      environment: z.record(z.string(), z.string()).optional(),
      ports: z.array(z.string()),
      healthcheck: z.object().optional(),
    }),
  ),
  configs: z.record(z.string(), z.object({ content: z.string() })),
});
const Rules = z.object({
  groups: z.array(z.object({ rules: z.array(z.object({ alert: z.string(), expr: z.string() })) })),
});
const Dashboard = z.object({
  panels: z.array(z.object({
    id: z.number(),
    title: z.string(),
    gridPos: z.object({ x: z.number(), y: z.number(), w: z.number(), h: z.number() }),
    targets: z.array(z.object({ expr: z.string() })).min(1),
  })),
});

const compose = Compose.parse(parse(file("docker-compose.yml"), { merge: true }));
const families = new Map((await new Metrics().registry.getMetricsAsJSON()).map(({ name, type }) => [name, `${type}`]));

Deno.test("docker-compose.yml publishes the documented ports, only the gateway's to the network", () => {
  const ports = Object.fromEntries(Object.entries(compose.services).map(([name, { ports }]) => [name, ports]));
  assert.deepEqual(ports, {
    gateway: ["8080:8080"],
    postgres: ["127.0.0.1:5432:5432"],
    redis: ["127.0.0.1:6379:6379"],
    prometheus: ["127.0.0.1:9090:9090"],
    grafana: ["127.0.0.1:3000:3000"],
  });
});

Deno.test("docker-compose.yml pins every image and checks its health", () => {
  for (const [name, { image, healthcheck }] of Object.entries(compose.services)) {
    if (name === "gateway") continue;
    assert.match(image ?? "", /^[\w/-]+:v?\d+[\w.-]*$/, name);
    assert.ok(healthcheck, name);
  }
  assert.match(file("Dockerfile"), /^HEALTHCHECK /m);
});

Deno.test("docker-compose.yml holds no secret: each is asked for by name", () => {
  const secrets = [...file("docker-compose.yml").matchAll(/^ +\w*(?:PASSWORD|SECRET)\w*: (.+)$/gm)];
  assert.ok(secrets.length >= 3);
  for (const [line, value] of secrets) assert.match(value ?? "", /^(\$\{\w+:\?.+\}|"")$/, line);
});

Deno.test("docker-compose.yml runs the gateway in production unless told otherwise, so it takes no example for a secret", () => {
  const given = compose.services["gateway"]?.environment ?? {};
  const [, name, usual = ""] = /^\$\{(\w+):-(\w+)\}$/.exec(given["SVC_ENV"] ?? "") ?? [];
  assert.deepEqual([name, usual], ["SVC_ENV", "production"]);
  const example = /^# SVC_JWT_SECRET=(.+)$/m.exec(file(".env.example"))?.[1] ?? "";
  const values: Record<string, string> = { SVC_ENV: usual, SVC_JWT_SECRET: example };
  const read = () => readConfig({ get: (name) => values[name], readFile: () => "" });
  assert.throws(read, /SVC_JWT_SECRET is not valid/);
});

Deno.test("what docker-compose.yml tells Prometheus of the gateway, it tells the gateway as well", () => {
  const given = compose.services["gateway"]?.environment ?? {};
  const names = [...content("prometheus").matchAll(/\$\{(SVC_\w+)/g)].map(([, name = ""]) => name);
  assert.deepEqual(names, ["SVC_METRICS_TOKEN"]);
  for (const name of names) assert.match(given[name] ?? "", new RegExp(`^\\$\\{${name}\\b`));
});

Deno.test("every alert is an expression over metrics that exist", () => {
  const alerts = Rules.parse(parse(content("prometheus-rules"))).groups.flatMap(({ rules }) => rules);
  assert.ok(alerts.length > 0);
  for (const { alert, expr } of alerts) for (const name of metricsIn(expr)) assertMetric(name, alert);
});

Deno.test("the dashboard shows every metric family, and none that does not exist", () => {
  const { panels } = Dashboard.parse(JSON.parse(content("grafana-dashboard")));
  const shown = new Set<string>();
  for (const { title, targets } of panels) {
    for (const name of targets.flatMap(({ expr }) => metricsIn(expr))) shown.add(assertMetric(name, title));
  }
  assert.deepEqual([...families.keys()].filter((name) => !shown.has(name)), []);
});

Deno.test("no panel of the dashboard covers another", () => {
  const { panels } = Dashboard.parse(JSON.parse(content("grafana-dashboard")));
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
    assert.ok(x + w <= 24);
    return Array.from({ length: w * h }, (_, cell) => `${x + cell % w},${y + Math.floor(cell / w)}`);
  });
  assert.equal(new Set(cells).size, cells.length);
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
});

Deno.test({
  name: "Prometheus accepts its configuration and the alert rules",
  ignore: !await new Deno.Command("promtool", { args: ["--version"] }).output().then(
    (tool) => tool.success,
    () => false,
  ),
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      const config = content("prometheus").replaceAll(/\$\{\w+:-(.*?)\}/g, "$1");
      await Deno.writeTextFile(`${folder}/prometheus.yml`, config);
      await Deno.writeTextFile(`${folder}/rules.yml`, content("prometheus-rules"));
      const tool = new Deno.Command("promtool", { args: ["check", "config", `${folder}/prometheus.yml`] });
      const { success, stdout, stderr } = await tool.output();
      const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
      assert.ok(success, said);
      assert.match(said, /SUCCESS: \d+ rules found/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("the image and the check run the same Deno", () => {
  const image = /^ARG DENO_VERSION=(.+)$/m.exec(file("Dockerfile"))?.[1];
  assert.ok(image !== undefined);
  assert.equal(/^DENO_VERSION=(.+)$/m.exec(file(".ci/run"))?.[1], image);
});

Deno.test(".env.example names every setting, shows its default, and sets nothing", () => {
  const example = new Map(
    [...file(".env.example").matchAll(/^# ([A-Z0-9_]+)=(.*)$/gm)].map(([, name = "", value = ""]) => [
      name,
      value,
    ]),
  );
  assert.deepEqual([...file(".env.example").matchAll(/^[^#\n].*$/gm)], []);
  const known = new Set(file("src/config.ts").match(/\b(SVC_[A-Z0-9_]*[A-Z]|JWT_SECRET|RUST_LOG)\b/g));
  const forCompose = ["POSTGRES_PASSWORD", "GRAFANA_ADMIN_PASSWORD"];
  assert.deepEqual([...example.keys()].filter((name) => !forCompose.includes(name)).toSorted(), [...known].toSorted());

  const secret = { SVC_JWT_SECRET: "0123456789abcdef0123456789abcdef" };
  const read = (values: Record<string, string>) =>
    new Map(Object.entries(readConfig({ get: (name) => values[name], readFile: () => "" }).settings));
  const [defaults, shown] = [read(secret), read(Object.fromEntries(example))];
  for (const [name, value] of defaults) {
    const isUnset = value === undefined || Array.isArray(value) && value.length === 0;
    if (!isUnset) assert.deepEqual(shown.get(name), value, name);
  }
});

function file(path: string): string {
  return Deno.readTextFileSync(new URL(`../${path}`, import.meta.url));
}

/** A configuration as its service gets it: Compose turns `$$` into a dollar sign. */
function content(name: string): string {
  const text = compose.configs[name]?.content;
  assert.ok(text !== undefined, name);
  return text.replaceAll("$$", () => "$");
}

function metricsIn(expression: string): string[] {
  const names = expression.match(/\bsvc_\w+/g) ?? [];
  assert.ok(names.length > 0 || expression.includes("up{"), expression);
  return names;
}

/** The family of a series; histograms are read through their buckets, sum and count. */
function assertMetric(series: string, where: string): string {
  const histogram = series.replace(/_(bucket|sum|count)$/, "");
  const family = families.get(histogram) === "histogram" && histogram !== series ? histogram : series;
  const type = families.get(family);
  assert.ok(type !== undefined && (type !== "histogram" || family !== series), `${where}: ${series}`);
  return family;
}

Deno.test("deno.lock holds what running needs and no packages of tests, so that a first start fetches little", () => {
  const { specifiers } = z.object({ specifiers: z.record(z.string(), z.string()) }).parse(
    JSON.parse(file("deno.lock")),
  );
  const { imports } = z.object({ imports: z.record(z.string(), z.string()) }).parse(JSON.parse(file("deno.json")));
  const named = Object.values(imports);
  for (const specifier of Object.keys(specifiers)) {
    assert.ok(named.some((name) => name === specifier || name.startsWith(`${specifier}/`)), specifier);
  }
});
