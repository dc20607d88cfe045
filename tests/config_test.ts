// The environment: a value that would not work stops the start, and the message names the variable, never its value.
import assert from "node:assert/strict";
import { ConfigError, readConfig } from "@/config/config.ts";
import { newId, newSecret } from "@/core/id.ts";
import { limitsOf } from "@/config/limits.ts";
import { openGateway, SECRET } from "./harness.ts";
import { captureLog } from "./log_capture.ts";
import { createTemporaryFolder } from "./temporary_folder.ts";
import { createHubHarness, offsetsOn, TEST_LIMITS } from "./transport/ws_harness.ts";
import { until } from "./wait.ts";

function read(environment: Record<string, string>): ReturnType<typeof readConfig> {
  const all: Record<string, string> = { SVC_JWT_SECRET: SECRET, ...environment };
  return readConfig({
    get: (name) => all[name],
    names: () => Object.keys(all),
    readFile: Deno.readTextFileSync,
  });
}

/** The message that refuses the environment. */
function refusal(environment: Record<string, string>): string {
  try {
    read(environment);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return "";
}

Deno.test({
  name:
    "a data folder that the process may not access is refused with the permissions that it needs, not those of a file",
  permissions: { read: false },
  fn() {
    const message = refusal({ SVC_JWT_SECRET: "", SVC_DATA_DIR: "/srv/gateway" });
    assert.match(
      message,
      /^SVC_DATA_DIR is outside .* GATEWAY_PERMISSIONS="--allow-read=\/srv\/gateway --allow-write=\/srv/,
    );
  },
});

Deno.test("each bad value is refused by the name of its variable, without the value", () => {
  const bad: Record<string, readonly string[]> = {
    RUST_LOG: ["hunter2", "constructor", "a=b=c", "info,=debug", "info,gateway.=debug"],
    SVC_ENV: ["hunter2"],
    SVC_PORT: ["70000", "80a"],
    SVC_PUBLIC_URL: ["ftp://hunter2"],
    SVC_JWT_SECRET: ["hunter2", "base64:hunter2!"],
    SVC_JWT_SECRET_PREVIOUS: ["hunter2"],
    SVC_CORS_ALLOW_ORIGINS: [
      "hunter2",
      "null",
      "https://hunter2/",
      "https://*.hunter2.example",
      "hunter2://",
      "file://",
    ],
    SVC_HTTPS_REDIRECT_ENABLED: ["hunter2"],
    SVC_TRUSTED_PROXIES: ["hunter2", "10.0.0.0/99", "10/8", "10", "10.0.0.1,hunter2", "::1/129"],
    SVC_DATABASE_URL: [
      "mysql://hunter2",
      "sqlite:",
      "sqlite://hunter2.db",
      "sqlite://./hunter2.db",
      "postgres://user:hunter2@",
      "postgres://user:hunter2/x@localhost/gateway",
      "postgres://user:hunter2%zz@localhost/gateway",
      "postgres://user:p@hunter2/x@localhost/gateway",
      "postgres://user:p@hunter2#x@localhost/gateway",
      "postgres:///hunter2?host=/var/run/postgresql",
    ],
    SVC_REDIS_URL: [
      "http://hunter2",
      "redis://localhost/hunter2",
      "redis://:p@hunter2/x@localhost",
      "redis://:p@h#unter2",
    ],
    SVC_JWKS_URL: [
      "hunter2",
      "ftp://hunter2/keys",
      "https://user:hunter2@id.test/keys",
      "https://:hunter2@id.test/keys",
    ],
    SVC_COMMIT: ["hunter2".repeat(20)],
    SVC_LIMIT_BODY_BYTES: ["0", "-1", "hunter2"],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const message = refusal({ [name]: value });
      assert.match(message, new RegExp(`^${name} is not valid: expected (?!Too|Invalid)`), value);
      assert.ok(!message.includes("hunter2"), message);
    }
  }
});

Deno.test("all invalid values are reported at once, each in its own line", () => {
  const lines = refusal({ SVC_ENV: "prod", SVC_PORT: "80a", SVC_LIMIT_BODY_BYTES: "0" }).split("\n");
  assert.deepEqual(lines.map((line) => line.split(" ")[0]), ["SVC_ENV", "SVC_PORT", "SVC_LIMIT_BODY_BYTES"]);
});

Deno.test("an identity provider to sign in at needs what it has given to the gateway, and the way back", () => {
  const issuer = { SVC_OIDC_ISSUER: "https://id.example.com/realms/team" };
  const client = { SVC_OIDC_CLIENT_ID: "gateway" };
  assert.match(refusal(issuer), /^SVC_OIDC_CLIENT_ID is missing/);
  assert.match(refusal(client), /^SVC_OIDC_ISSUER is missing/);
  assert.match(refusal({ SVC_OIDC_REQUIRE: "hd=example.com" }), /^SVC_OIDC_ISSUER is missing/);
  assert.match(refusal({ ...issuer, ...client, SVC_OIDC_REQUIRE: "staff" }), /^SVC_OIDC_REQUIRE is not valid/);
  assert.match(refusal({ ...issuer, ...client, SVC_OIDC_SUBJECT: "a b" }), /^SVC_OIDC_SUBJECT is not valid/);
  const staging = { SVC_ENV: "staging", SVC_JWT_SECRET: "0f1e2d3c4b5a69788796a5b4c3d2e1f0ffeeddccbbaa9988" };
  assert.match(refusal({ ...issuer, ...client, ...staging }), /^SVC_PUBLIC_URL is missing/);
  assert.deepEqual(read({ ...issuer, ...client, SVC_OIDC_REQUIRE: "a=b=c" }).oidc, {
    issuer: issuer.SVC_OIDC_ISSUER,
    clientId: "gateway",
    clientSecret: undefined,
    subject: "sub",
    name: "id.example.com",
    required: { claim: "a", value: "b=c" },
  });
});

Deno.test("addresses of databases and proxies in their usual forms are taken", () => {
  for (
    const url of [
      "sqlite::memory:",
      "sqlite:/var/lib/gateway.db",
      "sqlite:///var/lib/gateway.db",
      "postgres://localhost/gateway",
      "postgresql://user:p%40ss,word@a.example:5432,b.example:5433/gateway?sslmode=require",
      "postgres://user@[::1]:5432/gateway",
      "postgres://%2Fvar%2Frun%2Fpostgresql/gateway",
      "postgres:///gateway",
      "postgres://user:p@ss%25:w$!(rd[1]@localhost/100%",
    ]
  ) assert.equal(read({ SVC_DATABASE_URL: url }).settings.SVC_DATABASE_URL, url);
  for (
    const url of [
      "redis://localhost",
      "redis://localhost:6379/",
      "rediss://user:p%2F%40ss@[::1]:6380/15?family=6",
      "redis://:p@ss@localhost/0",
    ]
  ) assert.equal(read({ SVC_REDIS_URL: url }).settings.SVC_REDIS_URL, url);
  const proxies = "10.0.0.0/8, 192.0.2.1,::1, fd00::/8";
  assert.equal(read({ SVC_TRUSTED_PROXIES: proxies }).settings.SVC_TRUSTED_PROXIES.length, 4);
});

Deno.test("an app whose pages have a scheme of their own may call", async () => {
  const origins = ["capacitor://localhost", "tauri://localhost", "chrome-extension://abcdefghijklmnop"];
  await using gateway = await openGateway({ SVC_CORS_ALLOW_ORIGINS: origins.join() });
  for (const origin of origins) {
    const { headers } = await gateway.withToken(undefined).get("/health", { origin });
    assert.equal(headers.get("access-control-allow-origin"), origin);
  }
});

Deno.test("pages on localhost may call in development, and only there", async () => {
  for (const SVC_ENV of ["development", "staging"]) {
    await using gateway = await openGateway({ SVC_ENV, SVC_JWT_SECRET: "bX3v0rYqkz8TgWm2nJd5uPcLh7sEaFi1" });
    const allowed = async (origin: string) =>
      (await gateway.withToken(undefined).get("/health", { origin })).headers.get("access-control-allow-origin");
    for (const origin of ["http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:8000", "https://localhost"]) {
      assert.equal(await allowed(origin), SVC_ENV === "development" ? origin : null, origin);
    }
    for (const origin of ["http://localhost.evil.test", "http://evil.test:5173", "http://localhost:5173.evil.test"]) {
      assert.equal(await allowed(origin), null, origin);
    }
  }
});

Deno.test("a refused page is named in the log with the setting that would let it in, and cannot flood it", async () => {
  await using gateway = await openGateway({ SVC_PUBLIC_URL: "https://collab.test" });
  const ask = (origin: string) => gateway.withToken(undefined).get("/health", { origin });
  const warnings = async (origins: readonly string[]) =>
    (await captureLog(["gateway", "http"], async () => {
      for (const origin of origins) await ask(origin);
    })).filter(({ level }) => level === "warning");
  const [first, ...others] = await warnings(["https://app.test", "https://app.test", "https://collab.test"]);
  assert.deepEqual(others, []);
  assert.match(String(first?.rawMessage), /SVC_CORS_ALLOW_ORIGINS/);
  assert.deepEqual(first?.properties, { origin: "https://app.test" });
  const flood = await warnings(Array.from({ length: 200 }, (_, at) => `https://${at}.test/${"x".repeat(500)}\t"`));
  assert.ok(flood.length <= 11, `${flood.length} lines`);
  assert.ok(flood.every(({ properties }) => String(properties["origin"] ?? "").length <= 100));
  gateway.clock.advance(3_600_000);
  assert.equal((await warnings(["https://app.test"])).length, 1);
  const upgrade = { origin: "https://page.test", upgrade: "websocket", connection: "upgrade" };
  const records = await captureLog(["gateway", "http"], async () => {
    assert.equal((await gateway.withToken(undefined).get("/ws", upgrade)).status, 403);
  });
  assert.deepEqual(records.flatMap(({ properties }) => properties["origin"] ?? []), ["https://page.test"]);
});

Deno.test("an unknown setting is reported, and what replaces a setting is not", () => {
  const unknown = { SVC_POTR: "1", SVC_PUBLIC_URL_FILE: "/run/url", SVC_REDIS_URL_FILE: "", RUST_BACKTRACE: "1" };
  assert.deepEqual(read(unknown).warnings, [
    "SVC_POTR is not a known setting; did you mean SVC_PORT?",
    "SVC_PUBLIC_URL_FILE is not a known setting; did you mean SVC_PUBLIC_URL?",
  ]);
});

Deno.test("a file that should hold a secret and is empty stops the start", async () => {
  const file = await Deno.makeTempFile();
  try {
    for (const name of ["SVC_METRICS_TOKEN", "SVC_TURN_SECRET", "SVC_REDIS_URL", "SVC_JWT_SECRET"]) {
      assert.match(refusal({ SVC_JWT_SECRET: "", [`${name}_FILE`]: file }), new RegExp(`^${name}_FILE is not valid`));
    }
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("a setting and a file that should hold it stop the start, since one of them would be ignored", () => {
  for (const [name, value] of [["SVC_JWT_SECRET", SECRET], ["SVC_REDIS_URL", "redis://localhost"]] as const) {
    const message = refusal({ [name]: value, [`${name}_FILE`]: "/run/secret" });
    assert.match(message, new RegExp(`^${name} and ${name}_FILE are both set`));
  }
});

Deno.test("a redirect to plain http, which would never end, is refused", () => {
  const redirect = { SVC_HTTPS_REDIRECT_ENABLED: "true" };
  assert.match(refusal({ ...redirect, SVC_PUBLIC_URL: "http://collab.example" }), /^SVC_PUBLIC_URL .*https:/);
  assert.equal(refusal({ ...redirect, SVC_PUBLIC_URL: "https://collab.example" }), "");
});

Deno.test("a secret that anybody can read in .env.example counts in development only", () => {
  const secret = { SVC_JWT_SECRET: "replace-this-with-the-output-of-openssl-rand-hex-32" };
  assert.equal(refusal(secret), "");
  assert.match(refusal({ ...secret, SVC_ENV: "production" }), /^SVC_JWT_SECRET is not valid/);
  const previous = { SVC_JWT_SECRET_PREVIOUS: "replace-this-with-the-secret-that-was-used-before" };
  assert.match(refusal({ ...previous, SVC_ENV: "staging" }), /^SVC_JWT_SECRET_PREVIOUS is not valid/);
  const metrics = { SVC_METRICS_TOKEN: "replace-this-with-the-output-of-openssl-rand-hex-32" };
  assert.equal(refusal(metrics), "");
  assert.match(refusal({ ...metrics, SVC_ENV: "production" }), /^SVC_METRICS_TOKEN is not valid/);
});

Deno.test("SVC_LIMIT_BODY_BYTES is the length of a body at most", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_BODY_BYTES: "100" });
  const alice = await gateway.as("alice");
  assert.equal((await alice.post("/v1/rooms", { name: "x" })).status, 201);
  const { status, body } = await alice.post("/v1/rooms", { name: "x".repeat(100) });
  assert.deepEqual([status, body.code], [413, "payload_too_large"]);
});

Deno.test("the stored development secret is created once, and a truncated one is not used", async () => {
  await using folder = await createTemporaryFolder();
  const open = () => read({ SVC_JWT_SECRET: "", SVC_DATA_DIR: folder.path }).jwtSecret;
  const secret = open();
  assert.equal(secret.length, 64);
  assert.deepEqual(open(), secret);
  assert.equal((Deno.statSync(`${folder.path}/jwt_secret`).mode ?? 0) & 0o777, 0o600);
  for (const rest of ["", "abc"]) {
    Deno.writeTextFileSync(`${folder.path}/jwt_secret`, rest);
    assert.throws(open, (error) => error instanceof ConfigError && error.message.includes("jwt_secret"));
  }
});

Deno.test("a development secret that cannot be stored is refused by the name of the directory's variable", async () => {
  await using folder = await createTemporaryFolder();
  await Deno.symlink(`${folder.path}/nowhere/deeper`, `${folder.path}/data`);
  assert.match(
    refusal({ SVC_JWT_SECRET: "", SVC_DATA_DIR: `${folder.path}/data` }),
    /^SVC_DATA_DIR: .*SVC_JWT_SECRET$/,
  );
});

Deno.test("a frame that asks for as many channels as a connection may have fits into a frame", () => {
  const frameOf = (subscriptions: number): string =>
    Array.from({ length: subscriptions }, (_, id) => {
      const channel = `document:${newId("document")}`;
      return JSON.stringify({ id, subscribe: { channel, recover: true, epoch: newSecret(9), offset: 1_000_000_000 } });
    }).join("\n");
  const token = "x".repeat(8192);
  for (const subscriptions of [200, 1000, 3000]) {
    const { ws, publicLimits } = limitsOf(read({ SVC_LIMIT_SUBSCRIPTIONS: String(subscriptions) }));
    assert.ok(frameOf(subscriptions).length + token.length < ws.frameMaxBytes, `${ws.frameMaxBytes}`);
    assert.equal(publicLimits["frameBytes"], ws.frameMaxBytes);
  }
  assert.equal(limitsOf(read({ SVC_LIMIT_SUBSCRIPTIONS: "200" })).ws.frameMaxBytes, 65_536);
  const most = limitsOf(read({ SVC_LIMIT_SUBSCRIPTIONS: "1000000" })).ws;
  assert.equal(most.frameMaxBytes, most.inboxMaxBytes);
});

Deno.test("a tenant may have all connections that are set, and all tenants together a quarter more", () => {
  const { ws, publicLimits } = limitsOf(read({ SVC_LIMIT_CONNECTIONS: "10" }));
  assert.deepEqual([ws.connectionsPerTenant, ws.connectionsPerNode, publicLimits["connections"]], [10, 13, 10]);
  const { ws: off } = limitsOf(read({ SVC_LIMIT_CONNECTIONS: "10", SVC_RATE_LIMIT: "off" }));
  assert.deepEqual([off.connectionsPerTenant, off.connectionsPerNode], [undefined, undefined]);
});

Deno.test("limits that are switched off are not shown as those in force", () => {
  const namesOf = (more: Record<string, string>): string[] => Object.keys(limitsOf(read(more)).publicLimits);
  const off = namesOf({ SVC_RATE_LIMIT: "off" });
  const caps = namesOf({}).filter((name) => !off.includes(name));
  assert.ok(
    caps.includes("writesPerMinute") && caps.includes("messagesBurst") && caps.includes("connectionsPerAddress"),
  );
  assert.ok(["bodyBytes", "frameBytes", "roomMembers", "subscriptions"].every((name) => off.includes(name)), `${off}`);
});

Deno.test("RUST_LOG takes a target by its own name and by the one that log lines show", () => {
  const levelsOf = (text: string) => {
    const { level, targets } = read({ RUST_LOG: text }).settings.RUST_LOG;
    return { level, ...Object.fromEntries(targets) };
  };
  for (const name of ["ws", "gateway.ws", "gateway::ws"]) {
    assert.deepEqual(levelsOf(`warn,${name}=trace`), { level: "warning", ws: "trace" }, name);
  }
  assert.deepEqual(levelsOf("gateway=debug,ws=off"), { level: "debug", ws: null });
});

Deno.test("a client that comes back for much in two rooms is not taken for slow", async () => {
  const { outboxMaxBytes, replyMaxBytes, replyMaxEvents } = limitsOf(read({})).ws;
  const { hub, connect, log } = createHubHarness({
    limits: { ...TEST_LIMITS, outboxMaxBytes, replyMaxBytes, replyMaxEvents },
  });
  for (let i = 0; i < 1500; i++) {
    if (i < 420) log.append("room:less", "x".repeat(1000));
    log.append("room:more", "x".repeat(1000));
  }
  const { socket, connection } = await connect();
  const ask = (id: number, channel: string) => JSON.stringify({ id, subscribe: { channel, recover: true } });
  connection.receive([ask(2, "room:less"), ask(3, "room:more")].join("\n"));
  await until(() => !socket.isOpen || offsetsOn(socket, "room:more").at(-1) === 1500);
  assert.equal(socket.closedWith, undefined);
  await hub.drain();
});
