// A database that was brought back: on each engine, positions from before are refused.
import assert from "node:assert/strict";
import { backUp, restore } from "@/adapters/backup.ts";
import { onPostgres } from "../engines.ts";
import { openGateway } from "../harness.ts";
import { people, refused, roomOf } from "../modules/team.ts";

onPostgres("a database that was restored by its own tools starts every stream anew", async (environment) => {
  const url = environment.SVC_DATABASE_URL ?? "";
  await assert.rejects(backUp(url, "copy"), /for PostgreSQL use pg_dump/);
  const positions: Map<string, string> = new Map();
  let cursor = "";
  {
    await using gateway = await openGateway(environment);
    const { alice } = await people(gateway, "alice");
    for (let made = 0; made < 3; made++) await roomOf(alice, []);
    for (const { id, epoch } of (await alice.get("/v1/rooms")).body.items) positions.set(id, epoch);
    cursor = (await alice.get("/v1/collaboration/sync")).body.cursor;
    await assert.rejects(restore(url, "copy", gateway.clock), /use pg_restore first/);
    await restore(url, undefined, gateway.clock);
  }
  await using gateway = await openGateway(environment);
  const { alice } = await people(gateway, "alice");
  const rooms = (await alice.get("/v1/rooms")).body.items;
  assert.equal(rooms.length, 3);
  for (const { id, epoch } of rooms) assert.notEqual(epoch, positions.get(id));
  refused(await alice.get(`/v1/collaboration/sync?since=${cursor}`), 409, "epoch_changed");
});
