// A hub behind a real server on a free port, and clients of the real SDK.
import type { Centrifuge, Options } from "npm:centrifuge@5.8.0";
import { Fault } from "@/core/fault.ts";
import { Metrics } from "@/core/metrics.ts";
import type { WsLimits } from "@/transport/shared/socket_limits.ts";
import { MemoryGuard } from "@/transport/shared/memory_guard.ts";
import { createWebSocketUpgrade } from "@/transport/ws/server.ts";
import { until, WAIT_MS } from "../wait.ts";
import { createHubHarness, type HubHarness, TEST_LIMITS } from "./ws_harness.ts";

/** A client of a build of the SDK; each build declares its harness class. */
type Client = Pick<Centrifuge, "disconnect">;

export type HubServer<Sdk extends Client> = HubHarness & {
  url: string;
  client(token?: string, options?: Partial<Options>): Sdk;
  [Symbol.asyncDispose](): Promise<void>;
};

/** Serves until disposed, which waits for the end of every socket; `Sdk` is the client class. */
export function serveHub<Sdk extends Client>(
  Sdk: new (url: string, options: Partial<Options>) => Sdk,
  limits: WsLimits = TEST_LIMITS,
  options: Parameters<typeof createHubHarness>[0] = {},
  guard: MemoryGuard = new MemoryGuard({ budgetBytes: Infinity, metrics: new Metrics() }),
): HubServer<Sdk> {
  const harness = createHubHarness({ limits, ...options });
  const upgrade = createWebSocketUpgrade({
    hub: harness.hub,
    limits,
    metrics: harness.metrics,
    guard,
    isOriginAllowed: (origin) => origin === "https://good.example",
  });
  const server = Deno.serve(
    {
      port: 0,
      hostname: "127.0.0.1",
      onListen: () => {},
      onError(thrown) {
        const { code, spec } = Fault.from(thrown);
        return Response.json({ code }, { status: spec.status });
      },
    },
    (request, { remoteAddr }) => upgrade(request, remoteAddr.hostname),
  );
  const clients: Sdk[] = [];
  const url = `ws://127.0.0.1:${server.addr.port}/ws`;
  return {
    ...harness,
    url,
    client(token = "alice", options = {}) {
      const delays = { minReconnectDelay: 5, maxReconnectDelay: 20, timeout: WAIT_MS };
      const client = new Sdk(url, { token, ...delays, ...options });
      clients.push(client);
      return client;
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.disconnect();
      await harness.hub.drain();
      await until(() => harness.hub.stats().lingeringSockets === 0, "every socket's end");
      await server.shutdown();
    },
  };
}
