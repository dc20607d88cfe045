// Calls of plugins: what counts as a failure of the plugin.
import assert from "node:assert/strict";
import { Metrics } from "@/core/metrics.ts";
import { PluginCaller } from "@/modules/plugin/caller.ts";
import { TestClock } from "../../harness.ts";

Deno.test("calls that waited for earlier calls of their caller are not failures of the plugin", async () => {
  const events: unknown[] = [];
  const hang = (_plugin: unknown, { signal }: { signal: AbortSignal }) =>
    new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const caller = new PluginCaller({
    store: {
      write: (work: (tx: unknown) => unknown) =>
        Promise.resolve(work({ emit: (event: unknown) => events.push(event) })),
    },
    clock: new TestClock(),
    metrics: new Metrics(),
    transports: { http: hang },
  } as never);
  const plugin = {
    tenantId: "t",
    id: "p",
    isEnabled: true,
    createdBy: "a",
    manifest: { name: "P", transport: "http" },
  };
  const call = { kind: "filter", timeoutMs: 30 };
  const callAs = (who: string) => caller.call(plugin as never, who, call as never).catch(() => {});
  // Four run at a time.
  await Promise.all(Array.from({ length: 40 }, () => callAs("mallory")));
  assert.equal(caller.isBreakerOpen("t", "p"), false);
  await callAs("alice");
  assert.equal(caller.isBreakerOpen("t", "p"), true);
  assert.equal(events.length, 1);
});
