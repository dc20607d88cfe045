// The program as an operator types it: token, health, a start that cannot listen, a stop and what clients receive then.
import assert from "node:assert/strict";
import { decodeJwt } from "jose";
import { readConfig } from "@/config/config.ts";
import { mintToken } from "@/token.ts";
import { GatewayProcess } from "./e2e/target.ts";
import { freePort } from "./free_port.ts";
import { SECRET } from "./harness.ts";
import { createTemporaryFolder } from "./temporary_folder.ts";
import { eventually, pause, until } from "./wait.ts";
import { slowTest } from "./tier.ts";

/** A signal that follows another one sooner is its echo, by a wide margin. */
const ECHO_MS = 100;
const MAIN = new URL("../src/main.ts", import.meta.url).pathname;
const config = readConfig({ get: (name) => name === "SVC_JWT_SECRET" ? SECRET : undefined, readFile: () => "" });

Deno.test("token signs what the gateway would take, and names the flag of what it would not", async () => {
  const flags = ["--sub", "alice", "--tenant", "acme", "--kind", "agent", "--name", "Al", "--role", "guest"];
  const { iat = 0, exp, jti, ...claims } = decodeJwt(
    await mintToken(config, [...flags, "--owner", "bob", "--scope", "room.read", "--ttl", "60"]),
  );
  assert.deepEqual(claims, {
    sub: "alice",
    tenant: "acme",
    kind: "agent",
    owner: "bob",
    name: "Al",
    role: "guest",
    scope: "room.read",
  });
  assert.equal(exp, iat + 60);
  assert.ok(jti);
  for (
    const [flag, value] of [
      ["sub", "a/b"],
      ["tenant", "a/b"],
      ["kind", "robot"],
      ["role", "boss"],
      ["scope", "x".repeat(5000)],
      ["scope", "room.read mesage.write"],
      ["ttl", "0"],
      ["ttl", "1e3"],
      ["ttl", "1.5"],
      ["bogus", "x"],
    ] as const
  ) {
    const args = flag === "sub" ? [] : ["--sub", "alice"];
    await assert.rejects(mintToken(config, [...args, `--${flag}`, value]), new RegExp(`--${flag}.*\nusage: `), flag);
  }
  await assert.rejects(mintToken(config, []), /--sub is missing\nusage: .*\|auditor\|/);
  const mistyped = mintToken(config, ["--sub", "alice", "--scope", "room.* mesage.write"]);
  await assert.rejects(mistyped, /--scope is not valid: no scope mesage\.write; did you mean message\.write\?/);
});

Deno.test(".env counts as other systems' editors write it", async () => {
  await using folder = await createTemporaryFolder();
  await Deno.writeTextFile(`${folder.path}/.env`, `\uFEFFSVC_JWT_ISSUER=here\r\nSVC_JWT_AUDIENCE="there"\r\n`);
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", "--allow-all", MAIN, "token", "--sub", "alice"],
    env: { SVC_JWT_SECRET: SECRET },
    cwd: folder.path,
  }).output();
  const { iss, aud } = decodeJwt(new TextDecoder().decode(stdout).trim());
  assert.deepEqual({ iss, aud }, { iss: "here", aud: "there" });
});

Deno.test("a start on a port in use is refused by the names of the variables", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const gateway = new GatewayProcess(taken.addr.port, SECRET, { SVC_DATABASE_URL: "sqlite::memory:" });
  gateway.spawn();
  assert.equal((await gateway.waitForExit())?.code, 1);
  assert.match(gateway.log, /^Start failed: 127\.0\.0\.1:\d+ is already in use.*stop that process, or set SVC_PORT/m);
});

Deno.test("metrics are served on a port of their own, and a start where that is taken names its variable", async () => {
  const metricsPort = freePort();
  const environment = { SVC_DATABASE_URL: "sqlite::memory:", SVC_METRICS_PORT: String(metricsPort) };
  const gateway = new GatewayProcess(freePort(), SECRET, environment);
  await gateway.start();
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  assert.match(await response.text(), /^svc_build_info/m);
  const other = new GatewayProcess(freePort(), SECRET, environment);
  other.spawn();
  assert.equal((await other.waitForExit())?.code, 1);
  assert.match(other.log, /^Start failed: .* in use.*set SVC_METRICS_PORT/m);
  await gateway.stop();
});

slowTest("an unknown command, option or argument is named, and help lists what there is", async () => {
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-prompt", "--allow-all", MAIN, ...args],
    }).output();
    return { code, out: new TextDecoder().decode(stdout), error: new TextDecoder().decode(stderr) };
  };
  for (
    const [args, wrong] of [
      [["--port", "9000"], "Unknown option --port"],
      [["serve", "--port=9000"], "Unknown option --port=9000"],
      [["restore", "--force"], "Unknown option --force"],
      [["helth"], "Unknown command helth; did you mean health?"],
      [["--verison"], "Unknown option --verison; did you mean --version?"],
      [["backup", "a.db", "b.db"], "Unexpected argument b.db of backup"],
    ] as const
  ) {
    const { code, error } = await run(...args);
    assert.deepEqual([code, error.split("\n")[0]], [2, wrong]);
    assert.match(error, /^usage: gateway [^]*environment variables/m);
  }
  for (const args of [["--help"], ["help"], ["-h"], ["backup", "--help"]]) {
    const help = await run(...args);
    assert.equal(help.code, 0);
    assert.match(help.out, /^usage: gateway /);
  }
  assert.match((await run("--version")).out, /^\d+\.\d+\.\d+\n$/);
  const token = await run("token", "--sub", "alice", "--tenent", "x");
  assert.deepEqual([token.code, token.out, token.error.split("\n")[0]], [
    2,
    "",
    "Unknown option '--tenent'; did you mean --tenant?",
  ]);
  const help = await run("token", "--help");
  assert.deepEqual([help.code, help.error], [0, ""]);
  assert.match(help.out, /^usage: deno task token --sub /);
  assert.match(JSON.parse((await run("dashboard")).out).title, /Gateway/);
});

Deno.test("the log is text where SVC_LOG_FORMAT says so, and JSON where no terminal is attached", async () => {
  const firstLine = async (environment: Record<string, string>) => {
    const gateway = new GatewayProcess(freePort(), SECRET, {
      SVC_DATABASE_URL: "sqlite::memory:",
      SVC_ODD: "1",
      ...environment,
    });
    gateway.spawn();
    await until(() => gateway.log.includes("listening"), "listening");
    return (await gateway.stop()).split("\n")[0] ?? "";
  };
  assert.match(
    await firstLine({ SVC_LOG_FORMAT: "text" }),
    /^\d\d:\d\d:\d\d\.\d+ WARN +main: SVC_ODD is not a known setting$/,
  );
  const { level, logger, message } = JSON.parse(await firstLine({}));
  assert.deepEqual([level, logger, message], ["WARN", "gateway.main", "SVC_ODD is not a known setting"]);
});

Deno.test("health asks the address that the gateway listens on", { ignore: !hasIpv6() }, async () => {
  const environment = { SVC_HOST: "::1", SVC_DATABASE_URL: "sqlite::memory:" };
  const gateway = new GatewayProcess(freePort(), SECRET, environment);
  const health = () =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-prompt", "--allow-all", MAIN, "health"],
      env: { ...environment, SVC_PORT: String(gateway.port), SVC_JWT_SECRET: SECRET },
      stderr: "null",
    }).output();
  assert.equal((await health()).code, 1);
  await gateway.start();
  // One check waits for two seconds.
  await eventually(async () => {
    const { code, stdout } = await health();
    assert.deepEqual([code, new TextDecoder().decode(stdout)], [0, "OK\n"]);
  });
  await gateway.stop();
});

Deno.test("a stop says so to the only client", async () => {
  const gateway = new GatewayProcess(freePort(), SECRET, { SVC_DATABASE_URL: "sqlite::memory:" });
  await gateway.start();
  const client = new WebSocket(`ws://127.0.0.1:${gateway.port}/ws`);
  const heard = Promise.withResolvers<unknown>();
  const closed = Promise.withResolvers<CloseEvent>();
  client.onmessage = ({ data }) => heard.resolve(data);
  client.onclose = closed.resolve;
  const token = await mintToken(config, ["--sub", "alice"]);
  client.onopen = () => client.send(JSON.stringify({ id: 1, connect: { token } }));
  await heard.promise;
  await gateway.stop();
  const { code, reason } = await closed.promise;
  assert.deepEqual({ code, reason }, { code: 3001, reason: "shutdown" });
});

Deno.test("one Ctrl-C, which can come twice, waits for a request that runs; another one ends it at once", async () => {
  const gateway = new GatewayProcess(freePort(), SECRET, { SVC_DATABASE_URL: "sqlite::memory:" });
  await gateway.start();
  const token = await mintToken(config, ["--sub", "alice"]);
  using client = await Deno.connect({ hostname: "127.0.0.1", port: gateway.port });
  await client.write(new TextEncoder().encode(
    `POST /v1/rooms HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
      "Content-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
  ));
  const answer = new Uint8Array(100);
  const length = await client.read(answer);
  assert.match(new TextDecoder().decode(answer.subarray(0, length ?? 0)), /^HTTP\/1.1 100 /, "it reads the request");
  Deno.kill(gateway.pid, "SIGINT");
  await until(() => gateway.log.includes(`"stopping"`));
  let hasExited = false;
  const exit = gateway.waitForExit().finally(() => hasExited = true);
  let signals = 0;
  while (!hasExited) {
    try {
      Deno.kill(gateway.pid, "SIGINT");
    } catch (error) {
      // It has exited just now.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
    signals++;
    // Signals that come while a busy process has not read the last one are one with it.
    for (let polls = 0; polls < 50 && !hasExited; polls++) await pause(20);
  }
  // On a machine so busy that the second one comes late, it is another one.
  if (signals === 1) {
    assert.ok(timeOf(gateway, "second signal") - timeOf(gateway, "stopping") >= ECHO_MS, `it waits: ${gateway.log}`);
  }
  assert.equal((await exit)?.code, 130);
  assert.match(gateway.log, /"second signal received; exiting immediately".*"SIGINT"/);
});

/** When the log of a gateway said something. */
function timeOf({ log }: GatewayProcess, text: string): number {
  const line = log.split("\n").find((one) => one.includes(text));
  assert.ok(line, `${text}: ${log}`);
  return Date.parse(JSON.parse(line)["@timestamp"]);
}

function hasIpv6(): boolean {
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
    return true;
  } catch {
    return false;
  }
}
