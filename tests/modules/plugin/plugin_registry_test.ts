// What a node knows of plugins when the signals of their changes do not reach it.
import assert from "node:assert/strict";
import { MemoryBus } from "@/adapters/bus/memory.ts";
import { PluginRegistry } from "@/modules/plugin/registry.ts";
import type { Bus } from "@/ports/bus.ts";
import { openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { createCallers, createRoom, ok } from "../fixtures.ts";
import { ALLOW, installPlugin, manifestOf, PluginServer } from "./plugin_fixture.ts";

const ID = "org.example.filter";

Deno.test("a node reads filters again after a second while the bus is uncertain, and when it has recovered", async () => {
  await using server = new PluginServer();
  await using gateway = await openGateway(ALLOW);
  const { alice } = await createCallers(gateway, "alice", "bob");
  const [first, second] = [await createRoom(alice, ["bob"]), await createRoom(alice, ["bob"])];
  const filter = {
    id: ID,
    commands: [],
    actions: [],
    scopes: ["message.read"],
    transport: "http",
    endpoint: server.url,
  };
  const hooks = [{ on: "message.before_send" }];
  await installPlugin(await gateway.as("admin", { role: "admin" }), manifestOf({ ...filter, hooks }));
  ok(await alice.put(`/v1/rooms/${first}/filters/${ID}`));
  // Another node on the same database, which no signal reaches.
  const bus: Bus & { isCurrent: boolean } = new MemoryBus();
  const { app: { store }, clock } = gateway;
  const elsewhere = new PluginRegistry({ store, clock, bus });
  elsewhere.start();
  const isFiltered = (roomId: string): boolean => elsewhere.isFiltered("default", roomId);
  assert.equal((await elsewhere.filtersOf("default", first)).length, 1);

  ok(await alice.put(`/v1/rooms/${second}/filters/${ID}`));
  clock.advance(1000);
  assert.equal(isFiltered(second), false);
  bus.isCurrent = false;
  await until(() => isFiltered(second));
  // No read is left that could see what follows.
  await elsewhere.reload();

  ok(await alice.delete(`/v1/rooms/${first}/filters/${ID}`));
  bus.isCurrent = true;
  assert.equal(isFiltered(first), true);
  bus.onRecovered();
  await until(() => !isFiltered(first));

  assert.equal((await elsewhere.enabledOf("default")).length, 1);
  ok(await (await gateway.as("admin", { role: "admin" })).post(`/v1/collaboration/plugins/${ID}/disable`));
  bus.isCurrent = false;
  clock.advance(1000);
  assert.equal((await elsewhere.enabledOf("default")).length, 0, "not even once");
  await elsewhere.stop();
});
