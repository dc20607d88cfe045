// What the gateway sets about durability: an acknowledged commit is on disk whatever the server's default says.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { testOnPostgres } from "../engines.ts";
import { openGateway } from "../harness.ts";
import { captureLog } from "../log_capture.ts";
import { withAdminConnection } from "../temporary_database.ts";
import { postgresUrl } from "../tier.ts";
import { hasPostgresServer, PostgresServer } from "./postgres_server.ts";

const ignore = !hasPostgresServer || postgresUrl === undefined;
const SENDS = 20;

Deno.test({
  name: "a server with synchronous_commit=off that is killed loses nothing that was acknowledged",
  ignore,
  async fn() {
    // The server by itself would write these commits 30 s later at the latest.
    await using server = await PostgresServer.open(["synchronous_commit=off", "wal_writer_delay=10s"]);
    let roomId: string;
    {
      await using gateway = await openGateway({ SVC_DATABASE_URL: server.url });
      const alice = await gateway.as("alice");
      roomId = (await alice.post("/v1/rooms", { name: "Room" })).body.id;
      for (let at = 0; at < SENDS; at++) {
        const { status } = await alice.post("/v1/messages", { roomId, text: `${at}` });
        assert.equal(status, 201);
      }
      await server.stop("immediate");
    }
    await server.start();
    await using gateway = await openGateway({ SVC_DATABASE_URL: server.url });
    const { body } = await (await gateway.as("alice")).get(`/v1/messages?roomId=${roomId}&limit=100`);
    assert.equal(body.items?.length, SENDS, JSON.stringify(body).slice(0, 200));
  },
});

for (
  const [given, used] of [["off", "on"], ["on", "on"], ["remote_apply", "remote_apply"], ["local", "local"]] as const
) {
  testOnPostgres(
    `writes with synchronous_commit ${used} where the database's default is ${given}`,
    async ({ SVC_DATABASE_URL = "" }) => {
      const name = new URL(SVC_DATABASE_URL).pathname.slice(1);
      await withAdminConnection(
        SVC_DATABASE_URL,
        (admin) => admin.unsafe(`alter database ${name} set synchronous_commit = ${given}`),
      );
      await using gateway = await openGateway({ SVC_DATABASE_URL });
      for (let round = 0; round < 2; round++) {
        const value = await gateway.app.store.write(async ({ db }) => {
          const asked = sql<{ value: string }>`select current_setting('synchronous_commit') as value`;
          return (await asked.execute(db)).rows[0]?.value;
        });
        assert.equal(value, used);
      }
    },
  );
}

Deno.test({
  name: "a server with fsync or full_page_writes off is named in the log at start",
  ignore,
  async fn() {
    await using server = await PostgresServer.open(["fsync=off", "full_page_writes=off"]);
    const records = await captureLog(["gateway", "store"], async () => {
      await using _gateway = await openGateway({ SVC_DATABASE_URL: server.url });
    });
    const warnings = records.filter(({ level }) => level === "warning");
    assert.deepEqual(warnings.map(({ properties }) => properties["off"]), [["fsync", "full_page_writes"]]);
  },
});
