// What operators start from, compared with the gateway: containers, Prometheus, Grafana and the example environment.
import assert from "node:assert/strict";
import { parse } from "npm:yaml@2.9.1";
import { z } from "@zod/zod";
import { readConfig } from "@/config/config.ts";
import { Metrics } from "@/core/metrics.ts";
import { createTemporaryFolder } from "./temporary_folder.ts";
import { slowTest } from "./tier.ts";

const Compose = z.object({
  services: z.record(
    z.string(),
    z.object({
      image: z.string().optional(),
      environment: z.record(z.string(), z.string()).optional(),
      ports: z.array(z.string()).default([]),
      healthcheck: z.object().optional(),
    }),
  ),
  configs: z.record(z.string(), z.union([z.object({ content: z.string() }), z.object({ file: z.string() })])),
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

const ROOT = new URL("../", import.meta.url).pathname;
const compose = Compose.parse(parse(file("docker-compose.yml"), { merge: true }));
const families = new Map((await new Metrics().registry.getMetricsAsJSON()).map(({ name, type }) => [name, `${type}`]));

Deno.test("docker-compose.yml publishes the documented ports, only the proxies' to the network", () => {
  const ports = Object.fromEntries(Object.entries(compose.services).map(([name, { ports }]) => [name, ports]));
  assert.deepEqual(ports, {
    proxy: ["8080:8080"],
    "proxy-tls": ["80:80", "443:443"],
    // None of a port of this machine, which only one of several could have.
    gateway: [],
    postgres: ["127.0.0.1:5432:5432"],
    redis: ["127.0.0.1:6379:6379"],
    prometheus: ["127.0.0.1:9090:9090"],
    alertmanager: ["127.0.0.1:9093:9093"],
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

Deno.test("docker-compose.yml runs the gateway in production by default, so it accepts no example as a secret", () => {
  const given = compose.services["gateway"]?.environment ?? {};
  const [, name, usual = ""] = /^\$\{(\w+):-(\w+)\}$/.exec(given["SVC_ENV"] ?? "") ?? [];
  assert.deepEqual([name, usual], ["SVC_ENV", "production"]);
  const example = /^# SVC_JWT_SECRET=(.+)$/m.exec(file(".env.example"))?.[1] ?? "";
  const values: Record<string, string> = { SVC_ENV: usual, SVC_JWT_SECRET: example };
  const read = () => readConfig({ get: (name) => values[name], readFile: () => "" });
  assert.throws(read, /SVC_JWT_SECRET is not valid/);
});

Deno.test("what docker-compose.yml configures for Prometheus, it configures for the gateway as well", () => {
  const given = compose.services["gateway"]?.environment ?? {};
  const names = [...content("prometheus").matchAll(/\$\{(SVC_\w+)/g)].map(([, name = ""]) => name);
  assert.deepEqual(names, ["SVC_METRICS_TOKEN"]);
  for (const name of names) assert.match(given[name] ?? "", new RegExp(`^\\$\\{${name}\\b`));
  assert.deepEqual([given["SVC_METRICS_HOST"], content("prometheus").match(/port: (\d+)/)?.[1]], [
    "0.0.0.0",
    given["SVC_METRICS_PORT"],
  ]);
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

Deno.test("the dashboard takes any Prometheus that Grafana knows, so that it can be imported anywhere", () => {
  const text = content("grafana-dashboard");
  const sources = new Set([...text.matchAll(/"uid": "([^"]+)"/g)].map(([, uid = ""]) => uid));
  assert.deepEqual([...sources].sort(), ["${datasource}", "gateway"]);
  const { templating } = JSON.parse(text);
  assert.deepEqual(templating.list.map(({ name, type }: Record<string, string>) => [name, type]), [[
    "datasource",
    "datasource",
  ]]);
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

Deno.test("the gateway behind the proxies trusts what they forward of clients, and Prometheus notifies Alertmanager", () => {
  const given = compose.services["gateway"]?.environment ?? {};
  const [, name, networks = ""] = /^\$\{(\w+):-(.+)\}$/.exec(given["SVC_TRUSTED_PROXIES"] ?? "") ?? [];
  assert.equal(name, "SVC_TRUSTED_PROXIES");
  assert.equal(interpret({ SVC_TRUSTED_PROXIES: networks }).settings.SVC_TRUSTED_PROXIES.length, 2);
  assert.match(content("caddy"), new RegExp(`dynamic a gateway ${given["SVC_PORT"]} `));
  const { alerting } = z.object({
    alerting: z.object({ alertmanagers: z.array(z.object({ static_configs: z.array(z.unknown()) })) }),
  }).parse(parse(content("prometheus")));
  const port = compose.services["alertmanager"]?.ports[0]?.split(":").at(-1);
  assert.deepEqual(alerting.alertmanagers[0]?.static_configs, [{ targets: [`alertmanager:${port}`] }]);
});

/** Has a tool of the service look at its configuration. */
function assertToolAccepts(
  service: string,
  tool: string,
  args: readonly string[],
  files: Record<string, () => string>,
): void {
  const isThere = new Deno.Command("sh", { args: ["-c", `command -v ${tool}`] }).outputSync().success;
  Deno.test({
    name: `${service} accepts its configuration`,
    ignore: !isThere,
    fn: async () => {
      await using folder = await createTemporaryFolder();
      for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${folder.path}/${name}`, text());
      const command = new Deno.Command(tool, { args: [...args], cwd: folder.path, env: { PROXY_SITE: ":8080" } });
      const { success, stdout, stderr } = await command.output();
      assert.ok(success, new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr));
    },
  });
}

/** A configuration with the defaults of what Compose would put in. */
const withDefaults = (name: string) => (): string => content(name).replaceAll(/\$\{\w+:-(.*?)\}/g, "$1");

assertToolAccepts("Prometheus", "promtool", ["check", "config", "prometheus.yml"], {
  "prometheus.yml": withDefaults("prometheus"),
  "rules.yml": () => content("prometheus-rules"),
});
assertToolAccepts("Alertmanager", "amtool", ["check-config", "alertmanager.yml"], {
  "alertmanager.yml": withDefaults("alertmanager"),
});
assertToolAccepts("Alertmanager with webhooks", "amtool", ["check-config", "alertmanager.yml"], {
  "alertmanager.yml": () => {
    const example = /^# ALERTMANAGER_WEBHOOKS=(.+)$/m.exec(file(".env.example"))?.[1] ?? "";
    return content("alertmanager").replace(/\$\{\w+:-\[\]\}/, example);
  },
});
assertToolAccepts("Caddy", "caddy", ["adapt", "--config", "Caddyfile"], { Caddyfile: () => content("caddy") });

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
  const known = new Set(file("src/config/config.ts").match(/\b(SVC_[A-Z0-9_]*[A-Z]|JWT_SECRET|RUST_LOG)\b/g));
  const forCompose = ["POSTGRES_PASSWORD", "GRAFANA_ADMIN_PASSWORD", "PROXY_DOMAIN", "ALERTMANAGER_WEBHOOKS"];
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

function interpret(values: Record<string, string>) {
  return readConfig({ get: (name) => values[name], readFile: () => "" });
}

function file(path: string): string {
  return Deno.readTextFileSync(new URL(`../${path}`, import.meta.url));
}

/** A configuration as its service gets it: Compose turns `$$` into a dollar sign. */
function content(name: string): string {
  const config = compose.configs[name];
  assert.ok(config !== undefined, name);
  return "file" in config ? file(config.file) : config.content.replaceAll("$$", () => "$");
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

Deno.test("what README's own commands write is ignored by git", async () => {
  const written = [...file("README.md").matchAll(/deno task (?:backup|compile)(?: (\S+\.db))?/g)]
    .map(([, copy]) => copy ?? "dist/gateway");
  assert.deepEqual(new Set(written), new Set(["copy.db", "dist/gateway"]));
  for (const path of [...written, "data/gateway.db", ".env", "team.ndjson", "dice.js"]) {
    const { code } = await new Deno.Command("git", { args: ["check-ignore", "--quiet", path], cwd: ROOT }).output();
    assert.equal(code, 0, path);
  }
});

const memoryTest = {
  name: "the memory of bodies returns to the system, as the tasks set their allocator",
  ignore: Deno.build.os !== "linux",
};
Deno.test(memoryTest, async () => {
  const program = `
    let pieces = Array.from({ length: 3000 }, () => new Uint8Array(65536).fill(1));
    const fullBytes = Deno.memoryUsage().rss;
    // What was allocated between them remains.
    pieces = pieces.filter((_, n) => n % 20 === 0);
    gc();
    await new Promise((resolve) => setTimeout(resolve, 0));
    gc();
    console.log((fullBytes - Deno.memoryUsage().rss) / fullBytes);`;
  const { tasks } = z.object({ tasks: z.record(z.string(), z.object({ command: z.string() })) })
    .parse(JSON.parse(file("deno.json")));
  const [setting = ""] = /^MALLOC_\w+=\d+/.exec(tasks["start"]?.command ?? "") ?? [];
  assert.ok(tasks["start:plugins"]?.command.startsWith(`${setting} deno run`));
  const args = ["eval", "--quiet", "--no-config", "--v8-flags=--expose-gc", program];
  const [name = "", value = ""] = setting.split("=");
  const child = new Deno.Command(Deno.execPath(), { args, env: name === "" ? {} : { [name]: value } });
  const { stdout, stderr } = await child.output();
  assert.ok(
    Number(new TextDecoder().decode(stdout)) > 0.5,
    new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr),
  );
});

slowTest("`deno task compile` embeds everything in a binary", async () => {
  await using folder = await createTemporaryFolder();
  const { tasks } = z.object({ tasks: z.object({ compile: z.object({ command: z.string() }) }) })
    .parse(JSON.parse(file("deno.json")));
  const command = tasks.compile.command.replace("--output dist/gateway", `--no-check --output ${folder.path}/gateway`);
  // The runtime is that of the tests: what runs a binary would have to be downloaded.
  const compile = new Deno.Command("deno", {
    args: ["task", "--quiet", "--eval", command],
    env: { DENORT_BIN: Deno.execPath() },
    cwd: ROOT,
  });
  const { code, stderr } = await compile.output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  assert.ok((await Deno.stat(`${folder.path}/gateway`)).size > (await Deno.stat(Deno.execPath())).size);
});
