// The program as an operator types it: token, health, a start that cannot listen, a stop and what clients hear of it.
import assert from "node:assert/strict";
import { decodeJwt } from "jose";
import { readConfig } from "@/config.ts";
import { mintToken } from "@/token.ts";
import { freePort, GatewayProcess } from "./e2e/target.ts";
import { SECRET } from "./harness.ts";
import { pause } from "./wait.ts";

const MAIN = new URL("../src/main.ts", import.meta.url).pathname;
const config = readConfig({ get: (name) => name === "SVC_JWT_SECRET" ? SECRET : undefined, readFile: () => "" });

Deno.test("token signs what the gateway would take, and names the flag of what it would not", async () => {
  const flags = ["--sub", "alice", "--tenant", "acme", "--kind", "agent", "--name", "Al", "--role", "guest"];
  const { iat = 0, exp, jti, ...claims } = decodeJwt(
    await mintToken(config, [...flags, "--scope", "room.read", "--ttl", "60"]),
  );
  assert.deepEqual(claims, {
    sub: "alice",
    tenant: "acme",
    kind: "agent",
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
      ["ttl", "0"],
      ["ttl", "1e3"],
      ["ttl", "1.5"],
      ["bogus", "x"],
    ] as const
  ) {
    const args = flag === "sub" ? [] : ["--sub", "alice"];
    await assert.rejects(mintToken(config, [...args, `--${flag}`, value]), new RegExp(`--${flag}.*\nusage: `), flag);
  }
  await assert.rejects(mintToken(config, []), /--sub is missing/);
});

Deno.test(".env counts as other systems' editors write it", async () => {
  const folder = await Deno.makeTempDir({ prefix: "gateway-env-" });
  try {
    await Deno.writeTextFile(`${folder}/.env`, `\uFEFFSVC_JWT_ISSUER=here\r\nSVC_JWT_AUDIENCE="there"\r\n`);
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-prompt", "--allow-all", MAIN, "token", "--sub", "alice"],
      env: { SVC_JWT_SECRET: SECRET },
      cwd: folder,
    }).output();
    const { iss, aud } = decodeJwt(new TextDecoder().decode(stdout).trim());
    assert.deepEqual({ iss, aud }, { iss: "here", aud: "there" });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a start on a port in use is refused by the names of the variables", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const gateway = new GatewayProcess(taken.addr.port, SECRET, { SVC_DATABASE_URL: "sqlite::memory:" });
  gateway.launch();
  assert.equal((await gateway.ended())?.code, 1);
  assert.match(gateway.log, /^Start failed: SVC_HOST and SVC_PORT .*in use/m);
});

Deno.test("health asks the address that the gateway listens on", async () => {
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
  const { code, stdout } = await health();
  await gateway.stop();
  assert.deepEqual([code, new TextDecoder().decode(stdout)], [0, "OK\n"]);
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
      "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
  ));
  await pause(300);
  Deno.kill(gateway.pid, "SIGINT");
  await pause(20);
  Deno.kill(gateway.pid, "SIGINT");
  assert.equal(await Promise.race([gateway.ended(), pause(1000)]), undefined, "it waits");
  Deno.kill(gateway.pid, "SIGINT");
  assert.equal((await gateway.ended())?.code, 130);
  assert.match(gateway.log, /"ended at once, as it was asked to stop a second time".*"SIGINT"/);
});
