// `deno task start` in a fresh clone: what it may touch is enough for everything, and what is elsewhere is refused with
// the way to allow it.
import assert from "node:assert/strict";
import { freePort } from "./free_port.ts";
import { SECRET } from "./harness.ts";
import { untilCreated } from "./modules/file/file_harness.ts";
import { PNG } from "./modules/file/file_images.ts";
import { createTemporaryFolder } from "./temporary_folder.ts";
import { signClaims } from "./tokens.ts";
import { until, WAIT_MS } from "./wait.ts";
import { slowTest } from "./tier.ts";

const ROOT = new URL("../", import.meta.url).pathname;

/** A clone of the project, as far as running it needs. */
async function clone(): ReturnType<typeof createTemporaryFolder> {
  const folder = await createTemporaryFolder();
  for (const name of ["deno.json", "deno.lock"]) await Deno.copyFile(`${ROOT}${name}`, `${folder.path}/${name}`);
  await Deno.symlink(`${ROOT}src`, `${folder.path}/src`);
  return folder;
}

/** Runs `deno task start` there until `log` has what is waited for, or it ends. */
async function withStartedGateway(folder: string, environment: Record<string, string>, work: () => Promise<void>) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", "start"],
    cwd: folder,
    env: {
      SVC_HOST: "127.0.0.1",
      SVC_JWT_SECRET: SECRET,
      SVC_LOG_FORMAT: "json",
      SVC_DRAIN_SECONDS: "0",
      ...environment,
    },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "";
  let isOver = false;
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) log += decoder.decode(bytes, { stream: true });
    isOver = true;
  })();
  try {
    await until(() => isOver || log.includes(`"listening"`), "a start", 3 * WAIT_MS);
    if (!isOver) await work();
  } finally {
    if (!isOver) child.kill("SIGTERM");
    await child.status;
    await reading;
  }
  return log;
}

Deno.test("deno task start in a fresh clone serves everything with access to its own directory only", async () => {
  await using folder = await clone();
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const log = await withStartedGateway(folder.path, { SVC_PORT: String(port) }, async () => {
    const now = Math.floor(Date.now() / 1000);
    const token = await signClaims(SECRET, { sub: "alice", iat: now, exp: now + 600 });
    const ask = async (method: string, path: string, body?: BodyInit, type = "application/json") => {
      const headers = { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "content-type": type }) };
      const { status, bytes } = await untilCreated(async () => {
        const response = await fetch(`${url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
        return { status: response.status, bytes: await response.bytes() };
      });
      assert.ok(status < 300, `${method} ${path}: ${status} ${new TextDecoder().decode(bytes).slice(0, 300)}`);
      return bytes;
    };
    const json = async (...call: Parameters<typeof ask>) => JSON.parse(new TextDecoder().decode(await ask(...call)));
    const { id: roomId } = await json("POST", "/v1/rooms", JSON.stringify({ name: "Room" }));
    const file = await json("POST", `/v1/collaboration/files?roomId=${roomId}&name=a.png`, PNG, "image/png");
    // Decoded by a worker with WebAssembly of a package.
    await ask("GET", `/v1/collaboration/files/${file.id}/content?thumbnail=64`);
    const document = { roomId, title: "Page", text: "# Title" };
    const { id } = await json("POST", "/v1/collaboration/documents", JSON.stringify(document));
    await ask("GET", `/v1/collaboration/documents/${id}/export?format=html`);
    await ask("GET", "/docs");
    await ask("GET", "/docs/swagger-ui.css");
    await ask("GET", "/openapi.json");
  });
  assert.doesNotMatch(log, /NotCapable|Requires \w+ access/);
  assert.deepEqual((await Array.fromAsync(Deno.readDir(folder.path), ({ name }) => name)).sort(), [
    "data",
    "deno.json",
    "deno.lock",
    "src",
  ]);
});

slowTest("a start with data elsewhere is refused with the command that allows it, and that command works", async () => {
  await using folder = await clone();
  await using data = await createTemporaryFolder();
  const elsewhere = data.path;
  const secret = `${elsewhere}/secret`;
  await Deno.writeTextFile(secret, SECRET);
  const given = {
    SVC_PORT: String(freePort()),
    SVC_DATA_DIR: elsewhere,
    SVC_DATABASE_URL: `sqlite:${elsewhere}/gateway.db`,
  };
  const nothing = () => Promise.reject(new Error("it started"));
  const refused = await withStartedGateway(folder.path, given, nothing);
  const [, flags = ""] =
    /SVC_DATABASE_URL is outside .*GATEWAY_PERMISSIONS="([^"]+)" deno task start$/m.exec(refused) ?? [];
  assert.equal(flags, `--allow-read=${elsewhere} --allow-write=${elsewhere}`, refused);
  assert.match(
    await withStartedGateway(folder.path, { ...given, GATEWAY_PERMISSIONS: flags }, () => Promise.resolve()),
    /"listening"/,
  );
  const fromFile = { SVC_PORT: given.SVC_PORT, SVC_JWT_SECRET: "", SVC_JWT_SECRET_FILE: secret };
  assert.match(
    await withStartedGateway(folder.path, fromFile, nothing),
    new RegExp(`SVC_JWT_SECRET_FILE[^]*GATEWAY_PERMISSIONS="--allow-read=${secret}" deno task start`),
  );
});
