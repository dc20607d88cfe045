// The tables of a gateway, in the database that those of tests are copies of.
import { migrateStore, openStore } from "@/adapters/open.ts";
import { systemClock } from "@/core/time/clock.ts";
import { openGateway } from "./harness.ts";

export async function createTables(url: string): Promise<void> {
  await using gateway = await openGateway();
  const store = await openStore(url, systemClock);
  await migrateStore(store, gateway.app.modules);
  await store.close();
}
