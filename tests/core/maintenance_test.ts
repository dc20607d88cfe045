// Chores that fail: what they must not take with them.
import assert from "node:assert/strict";
import { MaintenanceScheduler } from "@/core/maintenance.ts";
import { pause } from "../wait.ts";

Deno.test("a chore that fails keeps neither the others nor the next time away, and a stop waits for the one that runs", async () => {
  const done: string[] = [];
  const twice = Promise.withResolvers<void>();
  const chores = new MaintenanceScheduler({
    "away now": () => Promise.reject(new Error("The database is away")),
    "wrong": () => {
      throw new TypeError("Expected a store, received none");
    },
    "fine": async () => {
      done.push("begun");
      if (done.length > 2) twice.resolve();
      await pause(20);
      done.push("ended");
    },
  }, { firstMs: 1, everyMs: 1 });
  await twice.promise;
  await chores.stop();
  assert.deepEqual(done, ["begun", "ended", "begun", "ended"]);
  await pause(30);
  assert.equal(done.length, 4);
});
