// Databases for tests of the whole gateway on PostgreSQL. To make one takes longer than most tests run, so those of earlier tests are
// emptied and used again. New ones are copies of a template that has all tables, made once for each state of the store's sources.
import postgres from "postgres";

type TemporaryDatabase = { url: string; release(): Promise<void> };

const TEMPLATE_PREFIX = "gateway_template_";
const COPY_PREFIX = "gateway_test_";
/** Any numbers that no other user of the server locks. */
const TEMPLATE_LOCK_KEY = 5_170_322;
const COPY_LOCK_CLASS = 5_170_323;
const NO_SUCH_DATABASE = "3D000";
/** Loads the whole app, which most tests that need a database run as a process. A runtime that reads this name loads it at once. */
const APP = new URL("./template_database.ts", import.meta.url).href;

/** A database with all tables and no rows, the caller's own until it releases it. `url` names a server and a database to ask it in. */
export async function createTemporaryDatabase(url: string): Promise<TemporaryDatabase> {
  // Its lock names the user of a copy, and ends with the connection, also when the process dies.
  const owner = connect(url);
  try {
    const template = await (templateName ??= computeTemplateName());
    const name = await claimName(owner, template.replace(TEMPLATE_PREFIX, COPY_PREFIX));
    const copyUrl = withDatabaseName(url, name);
    await owner`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
    if (!await isEmptied(owner, name, copyUrl)) await createCopy(owner, url, template, name);
    return { url: copyUrl, release: () => owner.end() };
  } catch (error) {
    await owner.end();
    throw error;
  }
}

/** One session. To read the types of arrays, which its statements do not return, takes longer than a short session otherwise. */
function connect(url: string): postgres.Sql {
  return postgres(url, { max: 1, onnotice: () => {}, fetch_types: false });
}

/** The first name that no other test uses. */
async function claimName(owner: postgres.Sql, prefix: string): Promise<string> {
  for (let number = 0;; number++) {
    const name = `${prefix}_${number}`;
    const [row] = await owner`select pg_try_advisory_lock(${COPY_LOCK_CLASS}, hashtext(${name})) as locked`;
    if (row?.locked === true) return name;
  }
}

/** Empties what an earlier test left. False if there is no such database, or the test changed more than rows. */
async function isEmptied(owner: postgres.Sql, name: string, copyUrl: string): Promise<boolean> {
  const [row] =
    await owner`select shobj_description(oid, 'pg_database') as digest from pg_database where datname = ${name}`;
  if (row === undefined) return false;
  const copy = connect(copyUrl);
  try {
    if (await computeSchemaDigest(copy) !== row.digest) return false;
    await copy.unsafe(EMPTY_TABLES);
    return true;
  } finally {
    await copy.end();
  }
}

async function createCopy(owner: postgres.Sql, url: string, template: string, name: string): Promise<void> {
  await owner.unsafe(`drop database if exists ${name} with (force)`);
  const copy = () => owner.unsafe(`create database ${name} template ${template}`);
  // Nobody drops the template while it is copied; a lock that is left ends with the connection.
  await owner`select pg_advisory_lock_shared(${TEMPLATE_LOCK_KEY})`;
  const isCopied = await copy().then(() => true, (error) => {
    if (error.code !== NO_SUCH_DATABASE) throw error;
    return false;
  });
  await owner`select pg_advisory_unlock_shared(${TEMPLATE_LOCK_KEY})`;
  if (!isCopied) {
    await owner`select pg_advisory_lock(${TEMPLATE_LOCK_KEY})`;
    await createTemplate(owner, url, template);
    await copy();
    await owner`select pg_advisory_unlock(${TEMPLATE_LOCK_KEY})`;
  }
  await withAdminConnection(withDatabaseName(url, name), async (sql) => {
    await sql.unsafe(`comment on database ${name} is '${await computeSchemaDigest(sql)}'`);
  });
}

/** What a test may have changed besides rows: tables, columns, indexes, triggers, functions, settings, and which migrations ran. */
async function computeSchemaDigest(sql: postgres.Sql): Promise<string> {
  const [row] = await sql.unsafe(`
    with relation as (select oid, relname, relkind from pg_class where relnamespace = 'public'::regnamespace)
    select md5(string_agg(item, ';' order by item)) as digest from (
      select concat(oid, relname, relkind) as item from relation
      union all select concat(attrelid, attname, atttypid, attnotnull, atthasdef, attisdropped)
        from pg_attribute join relation on relation.oid = attrelid
      union all select concat(indexrelid, indisvalid) from pg_index join relation on relation.oid = indexrelid
      union all select concat(tgrelid, tgname, tgenabled) from pg_trigger
      union all select concat(conrelid, conname) from pg_constraint where connamespace = 'public'::regnamespace
      union all select concat(proname, md5(prosrc)) from pg_proc where pronamespace = 'public'::regnamespace
      union all select concat(extname, extversion) from pg_extension
      union all select setconfig::text from pg_db_role_setting join pg_database on pg_database.oid = setdatabase
        where datname = current_database()
      union all select migration::text from migration
    ) items`);
  return row?.digest;
}

/**
 * A table that a test has written into has pages, whatever is in them now. To truncate one makes files for it, its indexes and what
 * they store apart, so those of up to ten pages, which the planner takes even an empty one for, are emptied row by row.
 */
const EMPTY_TABLES = `do $$
  declare written record;
  begin
    set local session_replication_role = replica;
    for written in select oid::regclass as name, pg_relation_size(oid) > 81920 as is_large from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'migration' and pg_relation_size(oid) > 0
    loop
      execute case when written.is_large then 'truncate ' || written.name || ' cascade' else 'delete from ' || written.name end;
    end loop;
    perform setval(oid, 1, false) from pg_class where relnamespace = 'public'::regnamespace and relkind = 'S';
  end $$`;

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

/** Makes the template, unless another test has done so meanwhile, and drops what other sources left and nobody uses. */
async function createTemplate(admin: postgres.Sql, url: string, template: string): Promise<void> {
  const made = await admin`select datname from pg_database where starts_with(datname, ${TEMPLATE_PREFIX})`;
  if (!made.some(({ datname }) => datname === template)) {
    for (const { datname } of made) await admin.unsafe(`drop database if exists ${datname} with (force)`);
    await dropUnusedCopies(admin, template);
    // Under its name it is seen only when it is whole.
    const unfinished = `${template}_unfinished`;
    await admin.unsafe(`create database ${unfinished}`);
    const { createTables } = await import(APP) as typeof import("./template_database.ts");
    await createTables(withDatabaseName(url, unfinished));
    await admin.unsafe(`alter database ${unfinished} rename to ${template}`);
  }
}

async function dropUnusedCopies(admin: postgres.Sql, template: string): Promise<void> {
  const current = template.replace(TEMPLATE_PREFIX, COPY_PREFIX);
  const copies = await admin`select datname from pg_database
    where starts_with(datname, ${COPY_PREFIX}) and not starts_with(datname, ${current})`;
  for (const { datname } of copies) {
    const [row] = await admin`select pg_try_advisory_lock(${COPY_LOCK_CLASS}, hashtext(${datname})) as locked`;
    if (row?.locked === true) await admin.unsafe(`drop database if exists ${datname} with (force)`);
  }
}

/** Asks a server over a connection of its own. */
export async function withAdminConnection(
  url: string,
  ask: (admin: postgres.Sql) => PromiseLike<unknown>,
): Promise<void> {
  const admin = connect(url);
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
