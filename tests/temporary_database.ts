// Databases for tests of the whole gateway on PostgreSQL: copies of one that has all tables, which is made once for each state of
// the store's sources: to copy it is several times quicker than to migrate anew.
import postgres from "postgres";
import { openStore } from "@/adapters/open.ts";
import { systemClock } from "@/core/clock.ts";

export type TemporaryDatabase = { url: string; drop(): Promise<void> };

const PREFIX = "gateway_template_";
/** Any number that no other user of the server locks. */
const LOCK = 5_170_322;
const NO_SUCH_DATABASE = "3D000";

/** A database with all tables and no rows, the caller's own until it drops it. `url` names a server and a database to ask it in. */
export async function temporaryDatabase(url: string): Promise<TemporaryDatabase> {
  const name = `test_${crypto.randomUUID().replaceAll("-", "")}`;
  await asAdmin(url, async (admin) => {
    const template = await (templateName ??= nameOfTemplate());
    const copy = () => admin.unsafe(`create database ${name} template ${template}`);
    await copy().catch(async (error) => {
      if (error.code !== NO_SUCH_DATABASE) throw error;
      await makeTemplate(admin, url, template);
      await copy();
    });
  });
  return {
    url: inDatabase(url, name),
    drop: () => asAdmin(url, (admin) => admin.unsafe(`drop database ${name} with (force)`)),
  };
}

let templateName: Promise<string> | undefined;

async function nameOfTemplate(): Promise<string> {
  const sources = await Array.fromAsync(sourcesIn(new URL("../src/adapters/", import.meta.url)));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(sources.sort().join("\0")));
  return `${PREFIX}${new Uint8Array(digest).toHex().slice(0, 16)}`;
}

async function* sourcesIn(folder: URL): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory) yield* sourcesIn(new URL(`${entry.name}/`, folder));
    else yield `${entry.name}\0${await Deno.readTextFile(new URL(entry.name, folder))}`;
  }
}

/** Makes the template, unless another test does so meanwhile, and drops those of other sources. */
async function makeTemplate(admin: postgres.Sql, url: string, template: string): Promise<void> {
  await admin`select pg_advisory_lock(${LOCK})`;
  const made = await admin`select datname from pg_database where starts_with(datname, ${PREFIX})`;
  if (!made.some(({ datname }) => datname === template)) {
    for (const { datname } of made) await admin.unsafe(`drop database if exists ${datname} with (force)`);
    // Under its name it is seen only when it is whole.
    const unfinished = `${template}_unfinished`;
    await admin.unsafe(`create database ${unfinished}`);
    await openStore(inDatabase(url, unfinished), systemClock).then((store) => store.close());
    await admin.unsafe(`alter database ${unfinished} rename to ${template}`);
  }
  await admin`select pg_advisory_unlock(${LOCK})`;
}

/** Asks a server over a connection of its own. */
export async function asAdmin(url: string, ask: (admin: postgres.Sql) => PromiseLike<unknown>): Promise<void> {
  const admin = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await ask(admin);
  } finally {
    await admin.end();
  }
}

function inDatabase(url: string, name: string): string {
  const there = new URL(url);
  there.pathname = `/${name}`;
  return there.href;
}
