// Two gateways on one SQLite file would miss each other's events, so the second is refused and says why.
import assert from "node:assert/strict";
import { createApp } from "@/app.ts";
import { readConfig } from "@/config/config.ts";
import { systemClock } from "@/core/time/clock.ts";
import { SECRET } from "../harness.ts";
import { eventually } from "../wait.ts";
import { Cluster } from "./cluster.ts";

function configOf(settings: Record<string, string>): ReturnType<typeof readConfig> {
  const all: Record<string, string> = { SVC_JWT_SECRET: SECRET, ...settings };
  return readConfig({ get: (name) => all[name], readFile: Deno.readTextFileSync });
}

function isLockError(error: Error): boolean {
  return /^SVC_DATABASE_URL: another gateway is using .*; stop it first/.test(error.message);
}

Deno.test("a second gateway on a SQLite file is refused while the first runs, also when that one was killed", async () => {
  await using cluster = await Cluster.openSingle();
  const config = configOf({ SVC_DATABASE_URL: `sqlite:${cluster.folder}/gateway.db`, SVC_DATA_DIR: cluster.folder });
  const open = () => createApp(config, { clock: systemClock });
  await assert.rejects(open, isLockError);
  await cluster.node(0).stop("SIGKILL");
  const app = await eventually(open);
  await assert.rejects(open, isLockError);
  await app[Symbol.asyncDispose]();
  await (await open())[Symbol.asyncDispose]();
});

Deno.test("a SQLite file is one file under every name that it has", async () => {
  await using cluster = await Cluster.openSingle();
  await Deno.symlink(`${cluster.folder}/gateway.db`, `${cluster.folder}/alias.db`);
  const config = configOf({ SVC_DATABASE_URL: `sqlite:${cluster.folder}/alias.db`, SVC_DATA_DIR: cluster.folder });
  await assert.rejects(async () => {
    await using _second = await createApp(config, { clock: systemClock });
  }, isLockError);
});

Deno.test("combinations that leave a second gateway deaf are named at the start", () => {
  const postgres = "postgres://localhost/x";
  const warnings = (settings: Record<string, string>) =>
    configOf(settings).warnings.filter((text) => /REDIS/.test(text));
  assert.equal(warnings({ SVC_REDIS_URL: "redis://localhost" }).length, 1);
  assert.equal(warnings({ SVC_DATABASE_URL: postgres }).length, 1);
  assert.equal(warnings({ SVC_DATABASE_URL: postgres, SVC_REDIS_URL: "redis://localhost" }).length, 0);
  assert.equal(warnings({}).length, 0);
});
