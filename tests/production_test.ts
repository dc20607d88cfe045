// Production is tight: what development and staging leave open has to be asked for.
import assert from "node:assert/strict";
import { readConfig } from "@/config/config.ts";
import { mintToken } from "@/token.ts";
import { openGateway, signToken } from "./harness.ts";
import { signClaims } from "./tokens.ts";

const SECRET = "bX3v0rYqkz8TgWm2nJd5uPcLh7sEaFi1";
const PRODUCTION = { SVC_ENV: "production", SVC_JWT_SECRET: SECRET };

function read(environment: Record<string, string>) {
  return readConfig({ get: (name) => environment[name], readFile: () => "" });
}

Deno.test("/metrics in production is closed until a token or a port of its own is set, and the start says so", async () => {
  assert.match(read(PRODUCTION).warnings.join("\n"), /\/metrics is closed: set SVC_METRICS_TOKEN or SVC_METRICS_PORT/);
  await using gateway = await openGateway(PRODUCTION);
  const { status, body } = await gateway.withToken(undefined).get("/metrics");
  assert.deepEqual([status, body.code], [403, "forbidden"]);
  assert.match(body.detail, /SVC_METRICS_TOKEN.*SVC_METRICS_PORT/);
  for (const SVC_ENV of ["development", "staging"]) {
    await using open = await openGateway({ ...PRODUCTION, SVC_ENV });
    assert.equal((await open.withToken(undefined).get("/metrics")).status, 200, SVC_ENV);
  }
  const random = "9f2b7c41d8e06a35";
  const more = { ...PRODUCTION, SVC_METRICS_TOKEN: random };
  assert.deepEqual(read(more).warnings.filter((text) => text.includes("metrics")), []);
  await using guarded = await openGateway(more);
  assert.equal((await guarded.withToken(undefined).get("/metrics")).status, 401);
  assert.equal((await guarded.withToken(random).get("/metrics")).status, 200);
});

Deno.test("metrics that have a port of their own are there only, and nothing else is", async () => {
  for (const SVC_ENV of ["production", "development"]) {
    await using gateway = await openGateway({ ...PRODUCTION, SVC_ENV, SVC_METRICS_PORT: "9464" });
    assert.equal((await gateway.withToken(undefined).get("/metrics")).status, 403);
    const ask = (path: string) => gateway.app.fetchMetrics(new Request(`http://127.0.0.1:9464${path}`));
    const metrics = await ask("/metrics");
    assert.equal(metrics.status, 200);
    assert.match(await metrics.text(), /^svc_build_info/m);
    assert.equal((await ask("/health")).status, 404);
  }
  const taken = { ...PRODUCTION, SVC_METRICS_PORT: "8080" };
  assert.throws(() => read(taken), /^ConfigError: SVC_METRICS_PORT is not valid/);
});

Deno.test("metrics name rooms to those with the token only, whatever their number", async () => {
  const token = "9f2b7c41d8e06a35";
  for (const environment of [{}, { SVC_METRICS_TOKEN: token }]) {
    await using gateway = await openGateway(environment);
    const alice = await gateway.as("alice");
    const { body: { id } } = await alice.post("/v1/rooms", { name: "Room" });
    const { body } = await gateway.withToken(token).get("/metrics");
    assert.equal(body.includes(id), "SVC_METRICS_TOKEN" in environment);
    assert.match(body, /^svc_room_members\{room="(#1|room_\w+)"\} 1$/m);
  }
});

Deno.test("a query token counts in production only where it is asked for", () => {
  const accepts = (more: Record<string, string>) => read({ ...PRODUCTION, ...more }).settings.SVC_LEGACY_QUERY_TOKEN;
  assert.equal(accepts({}), false);
  assert.equal(accepts({ SVC_LEGACY_QUERY_TOKEN: "on" }), true);
  assert.equal(accepts({ SVC_ENV: "staging" }), true);
  assert.equal(accepts({ SVC_ENV: "development", SVC_LEGACY_QUERY_TOKEN: "off" }), false);
});

Deno.test("Strict-Transport-Security is on in production behind https, for the host itself", async () => {
  const hsts = async (environment: Record<string, string>, headers: Record<string, string> = {}) => {
    await using gateway = await openGateway({ ...PRODUCTION, ...environment });
    return (await gateway.withToken(undefined).get("/health", headers)).headers.get("Strict-Transport-Security");
  };
  const [own, all] = ["max-age=31536000", "max-age=31536000; includeSubDomains"];
  const https = { "X-Forwarded-Proto": "https" };
  assert.equal(await hsts({ SVC_TRUSTED_PROXIES: "127.0.0.1" }, https), own);
  assert.equal(await hsts({ SVC_PUBLIC_URL: "https://collab.test" }), own);
  assert.equal(await hsts({ SVC_PUBLIC_URL: "https://collab.test", SVC_HSTS_ENABLED: "true" }), all);
  assert.equal(await hsts({ SVC_PUBLIC_URL: "https://collab.test", SVC_HSTS_ENABLED: "false" }), null);
  assert.equal(await hsts({ SVC_PUBLIC_URL: "http://collab.test" }), null);
  assert.equal(await hsts({}, https), null, "the proxy is not trusted");
  assert.equal(await hsts({ SVC_ENV: "staging", SVC_PUBLIC_URL: "https://collab.test" }), null);
});

Deno.test("a token that is valid for more than a day is refused in production, whatever signed it", async () => {
  const day = 86_400;
  await using gateway = await openGateway(PRODUCTION);
  const now = Math.floor(gateway.clock.now() / 1000);
  const me = async (claims: Record<string, unknown>) => {
    const token = await signClaims(SECRET, { sub: "alice", ...claims });
    return await gateway.withToken(token).get("/v1/collaboration/me");
  };
  assert.equal((await me({ iat: now, exp: now + day })).status, 200);
  for (
    const claims of [{ iat: now, exp: now + 2 * day }, { exp: now + 2 * day }, { iat: now - 2 * day, exp: now + 60 }]
  ) {
    const { status, body } = await me(claims);
    assert.deepEqual([status, body.code], [401, "unauthenticated"], JSON.stringify(claims));
    assert.match(body.detail, /more than 24 h.*SVC_LIMIT_TOKEN_HOURS/);
  }
  assert.equal((await me({ exp: now + day })).status, 200);
  await using free = await openGateway({});
  const long = await signToken(free.clock, "alice", { exp: now + 1000 * day });
  assert.equal((await free.withToken(long).get("/v1/collaboration/me")).status, 200);
});

Deno.test("the command token signs none that its gateway would refuse for its length", async () => {
  const config = read({ ...PRODUCTION, SVC_LIMIT_TOKEN_HOURS: "1" });
  const token = await mintToken(config, ["--sub", "alice"]);
  const { iat, exp } = JSON.parse(atob(token.split(".")[1] ?? ""));
  assert.equal(exp - iat, 3600);
  await assert.rejects(mintToken(config, ["--sub", "alice", "--ttl", "3601"]), /--ttl must be at most 3600 seconds/);
});

Deno.test("access tokens of a family go on where the longest life of others is short", async () => {
  await using gateway = await openGateway({ SVC_LIMIT_TOKEN_HOURS: "1" });
  const alice = await gateway.as("alice");
  const input = { name: "phone", scopes: ["*"], refreshable: true, expiresInSeconds: 86_400 };
  const { body } = await alice.post("/v1/collaboration/tokens", input);
  assert.equal((await gateway.withToken(body.token).get("/v1/collaboration/me")).status, 200, JSON.stringify(body));
});

Deno.test("a secret that can be guessed is refused outside development, and random ones never are", () => {
  const guessable = [
    "your-256-bit-secret-for-all-tokens",
    "PasswordPasswordPassword12345!?#",
    "changeme-changeme-and-once-more-x",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "0123456789abcdef0123456789abcdef",
    "aB3$xY7!aB3$xY7!aB3$xY7!aB3$xY7!",
    "zyxwvutsrqponmlkjihgfedcba9876543210",
    "1111111111111111222222222222222233",
    `base64:${btoa("your-256-bit-secret-for-all-tokens")}`,
    "this-is-an-example-of-a-long-text!",
  ];
  for (const secret of guessable) {
    for (const SVC_ENV of ["production", "staging"]) {
      for (const name of ["SVC_JWT_SECRET", "SVC_JWT_SECRET_PREVIOUS", "SVC_METRICS_TOKEN"]) {
        // Secrets of tokens only may be encoded.
        if (name === "SVC_METRICS_TOKEN" && secret.startsWith("base64:")) continue;
        const refuse = () => read({ SVC_ENV, SVC_JWT_SECRET: SECRET, [name]: secret });
        assert.throws(refuse, new RegExp(`^ConfigError: ${name} is not valid: expected a random secret`), secret);
      }
    }
    read({ SVC_ENV: "development", SVC_JWT_SECRET: secret });
  }
  for (let round = 0; round < 500; round++) {
    const bytes = crypto.getRandomValues(new Uint8Array(32));
    for (const secret of [bytes.toHex(), bytes.toBase64(), `base64:${bytes.toBase64()}`]) {
      read({ SVC_ENV: "production", SVC_JWT_SECRET: secret });
    }
  }
});
