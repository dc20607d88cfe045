// What a start refuses, by the name of the variable to fix.
import assert from "node:assert/strict";
import postgres from "postgres";
import { restore } from "@/adapters/store/backup.ts";
import { systemClock } from "@/core/time/clock.ts";
import { s3Settings } from "./conformance/s3.ts";
import { testOnPostgres } from "./engines.ts";
import { openGateway } from "./harness.ts";
import { captureLog } from "./log_capture.ts";
import { createTemporaryFolder } from "./temporary_folder.ts";
import { eventually } from "./wait.ts";

Deno.test("a start with a data directory that cannot be written is refused, one that does not exist yet is not", async () => {
  const file = await Deno.makeTempFile();
  try {
    await assert.rejects(
      openGateway({ SVC_DATA_DIR: `${file}/data` }),
      /^Error: SVC_DATA_DIR: the gateway cannot write to this directory$/,
    );
    await using _gateway = await openGateway({ SVC_DATA_DIR: `${file}.missing/data` });
    await assert.rejects(Deno.stat(`${file}.missing`), Deno.errors.NotFound);
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("a start is refused at once with a database below a file, or one that another gateway has open", async () => {
  await using folder = await createTemporaryFolder();
  const taken = { SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`, SVC_DATA_DIR: folder.path };
  await using _first = await openGateway(taken);
  await assert.rejects(
    openGateway(taken),
    /^Error: SVC_DATABASE_URL: another gateway is using .*gateway\.db; stop it first/,
  );
  await assert.rejects(
    restore(taken.SVC_DATABASE_URL, undefined, systemClock),
    /^Error: SVC_DATABASE_URL: another gateway is using .*gateway\.db; stop it first/,
  );
  await assert.rejects(
    openGateway({ ...taken, SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db/below.db` }),
    /^Error: SVC_DATABASE_URL: the database cannot be used$/,
  );
});

Deno.test("a start is refused at once where sslmode requires TLS of a PostgreSQL without it", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using _server = replyToAll(listener, "N");
  await assert.rejects(
    openGateway({ SVC_DATABASE_URL: `postgres://gateway@127.0.0.1:${listener.addr.port}/gateway?sslmode=require` }),
    (error: Error) => /^SVC_DATABASE_URL: /.test(error.message) && /TLS.*sslmode/.test(String(error.cause)),
  );
});

Deno.test("PostgreSQL is reached at a Unix socket", async () => {
  await using folder = await createTemporaryFolder();
  const fields = ["SFATAL", "C28000", "Mreached at its socket", "", ""].join("\0");
  const reply = `E\0\0\0${String.fromCharCode(fields.length + 4)}${fields}`;
  await using _server = replyToAll(Deno.listen({ transport: "unix", path: `${folder.path}/.s.PGSQL.5432` }), reply);
  await assert.rejects(
    openGateway({ SVC_DATABASE_URL: `postgres://gateway@${encodeURIComponent(folder.path)}/gateway` }),
    (error: Error) => /^SVC_DATABASE_URL: /.test(error.message) && /reached at its socket/.test(String(error.cause)),
  );
});

Deno.test("a start says why its file store cannot be used, and does not depend on it", async () => {
  let response = { status: 403, body: "<Error><Code>SignatureDoesNotMatch</Code></Error>" };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    await request.bytes();
    return new Response(response.body, { status: response.status, headers: { ETag: '"e"' } });
  });
  const start = (port: number) =>
    captureLog(["gateway", "file"], async () => {
      await using gateway = await openGateway(s3Settings(`http://127.0.0.1:${port}`));
      assert.equal((await gateway.withToken(undefined).get("/v1/collaboration/ready")).status, 200);
    });
  for (const [port, cause] of [[server.addr.port, /SignatureDoesNotMatch/], [1, /refused/i]] as const) {
    const [record, ...others] = await start(port);
    assert.match(String(record?.rawMessage), /SVC_S3_ENDPOINT/);
    assert.match(String(record?.properties["cause"]), cause);
    assert.deepEqual(others, []);
  }
  response = { status: 200, body: "" };
  assert.deepEqual(await start(server.addr.port), []);
  await server.shutdown();
});

testOnPostgres("a restore is refused while gateways run on the database", async ({ SVC_DATABASE_URL: url = "" }) => {
  {
    await using gateway = await openGateway({ SVC_DATABASE_URL: url });
    await (await gateway.as("alice")).post("/v1/rooms", { name: "Room" });
    await assert.rejects(
      restore(url, undefined, systemClock),
      /^Error: \d+ gateway sessions are open .*; stop all gateways first/,
    );
  }
  // The server ends a session a moment after its client has left.
  await eventually(() => restore(url, undefined, systemClock));
});

testOnPostgres(
  "a start is refused where a pooler keeps nothing of what a session sets",
  async ({ SVC_DATABASE_URL: url = "" }) => {
    await openGateway({ SVC_DATABASE_URL: url }).then((gateway) => gateway[Symbol.asyncDispose]());
    // A pooler that ignores these leaves the server with its own.
    for (const lost of ["statement_timeout=0", "default_transaction_read_only=off"]) {
      await assert.rejects(
        openGateway({ SVC_DATABASE_URL: `${url}?${lost}` }),
        (error: Error) => /^SVC_DATABASE_URL: /.test(error.message) && /not through a pooler/.test(String(error.cause)),
        lost,
      );
    }
  },
);

testOnPostgres(
  "a start is refused on a database whose encoding lacks characters",
  async ({ SVC_DATABASE_URL: url = "" }) => {
    const name = `latin_${crypto.randomUUID().replaceAll("-", "")}`;
    const latin = new URL(url);
    latin.pathname = `/${name}`;
    latin.search = "";
    const admin = postgres(url, { max: 1, onnotice: () => {} });
    try {
      await admin.unsafe(`create database ${name} template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'`);
      await assert.rejects(
        openGateway({ SVC_DATABASE_URL: latin.href }),
        (error: Error) => /^SVC_DATABASE_URL: /.test(error.message) && /LATIN1.*UTF8/.test(String(error.cause)),
      );
    } finally {
      await admin.unsafe(`drop database if exists ${name} with (force)`);
      await admin.end();
    }
  },
);

/** A server that replies this to whatever a client asks first. */
function replyToAll(listener: Deno.Listener, reply: string): AsyncDisposable {
  const bytes = new TextEncoder().encode(reply);
  const replied = (async () => {
    for await (const connection of listener) {
      // The client may have left already.
      await connection.read(new Uint8Array(1024)).then(() => connection.write(bytes)).catch(() => {});
      connection.close();
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      listener.close();
      await replied;
    },
  };
}
