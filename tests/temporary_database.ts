// Databases for tests of the whole gateway on PostgreSQL: copies of one that has all tables, which is made once for each state of
// the store's sources: to copy it is several times quicker than to migrate anew.
import postgres from "postgres";
import { migrateStore, openStore } from "@/adapters/open.ts";
import { systemClock } from "@/core/clock.ts";
import { openGateway } from "./harness.ts";

export type TemporaryDatabase = { url: string; drop(): Promise<void> };

const TEMPLATE_PREFIX = "gateway_template_";
/** Any number that no other user of the server locks. */
const TEMPLATE_LOCK_KEY = 5_170_322;
const NO_SUCH_DATABASE = "3D000";

/** A database with all tables and no rows, the caller's own until it drops it. `url` names a server and a database to ask it in. */
export async function createTemporaryDatabase(url: string): Promise<TemporaryDatabase> {
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  await withAdminConnection(url, async (admin) => {
    const template = await (templateName ??= computeTemplateName());
    const copy = () => admin.unsafe(`create database ${name} template ${template}`);
    await copy().catch(async (error) => {
      if (error.code !== NO_SUCH_DATABASE) throw error;
      await createTemplate(admin, url, template);
      await copy();
    });
  });
  return {
    url: withDatabaseName(url, name),
    drop: () => withAdminConnection(url, (admin) => admin.unsafe(`drop database ${name} with (force)`)),
  };
}

let templateName: Promise<string> | undefined;

async function computeTemplateName(): Promise<string> {
  const sources = await Array.fromAsync(readSources(new URL("../src/", import.meta.url)));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(sources.sort().join("\0")));
  return `${TEMPLATE_PREFIX}${new Uint8Array(digest).toHex().slice(0, 16)}`;
}

/** All files of the adapters, and the migrations of each module. */
async function* readSources(folder: URL): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(folder)) {
    const url = new URL(entry.name, folder);
    if (entry.isDirectory) yield* readSources(new URL(`${url.href}/`));
    else if (/\/src\/adapters\/|\/migrations\.ts$/.test(url.pathname)) {
      yield `${url.pathname}\0${await Deno.readTextFile(url)}`;
    }
  }
}

/** Makes the template, unless another test does so meanwhile, and drops those of other sources. */
async function createTemplate(admin: postgres.Sql, url: string, template: string): Promise<void> {
  await admin`select pg_advisory_lock(${TEMPLATE_LOCK_KEY})`;
  const made = await admin`select datname from pg_database where starts_with(datname, ${TEMPLATE_PREFIX})`;
  if (!made.some(({ datname }) => datname === template)) {
    for (const { datname } of made) await admin.unsafe(`drop database if exists ${datname} with (force)`);
    // Under its name it is seen only when it is whole.
    const unfinished = `${template}_unfinished`;
    await admin.unsafe(`create database ${unfinished}`);
    await migrate(withDatabaseName(url, unfinished));
    await admin.unsafe(`alter database ${unfinished} rename to ${template}`);
  }
  await admin`select pg_advisory_unlock(${TEMPLATE_LOCK_KEY})`;
}

/** Creates the tables of a gateway. */
async function migrate(url: string): Promise<void> {
  await using gateway = await openGateway();
  const store = await openStore(url, systemClock);
  await migrateStore(store, gateway.app.modules);
  await store.close();
}

/** Asks a server over a connection of its own. */
export async function withAdminConnection(
  url: string,
  ask: (admin: postgres.Sql) => PromiseLike<unknown>,
): Promise<void> {
  const admin = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await ask(admin);
  } finally {
    await admin.end();
  }
}

function withDatabaseName(url: string, name: string): string {
  const there = new URL(url);
  there.pathname = `/${name}`;
  return there.href;
}
