// The door itself for tests: a hub behind a real server on a free port, and clients of a real SDK.
import type { Centrifuge, Options } from "npm:centrifuge@5.8.0";
import { Fault } from "@/core/fault.ts";
import type { WsLimits } from "@/transport/ws/limits.ts";
import { createUpgrade } from "@/transport/ws/server.ts";
import { until } from "../wait.ts";
import { type Rig, rig, SMALL } from "./ws_rig.ts";

/** A client of one of the SDK's builds, which declare the same class each for itself. */
type Client = Pick<Centrifuge, "disconnect">;

export type Served<Sdk extends Client> = Rig & {
  url: string;
  client(token?: string, options?: Partial<Options>): Sdk;
  [Symbol.asyncDispose](): Promise<void>;
};

/** Serves until disposed, once every socket has ended; `Sdk` is the build of the SDK to be a client with. */
export function serve<Sdk extends Client>(
  Sdk: new (url: string, options: Partial<Options>) => Sdk,
  limits: WsLimits = SMALL,
  options: Parameters<typeof rig>[0] = {},
): Served<Sdk> {
  const own = rig({ limits, ...options });
  const upgrade = createUpgrade({
    hub: own.hub,
    limits,
    metrics: own.metrics,
    isOriginAllowed: (origin) => origin === "https://good.example",
  });
  const server = Deno.serve(
    {
      port: 0,
      hostname: "127.0.0.1",
      onListen: () => {},
      onError(thrown) {
        const { code, kind } = Fault.from(thrown);
        return Response.json({ code }, { status: kind.status });
      },
    },
    (request, { remoteAddr }) => upgrade(request, remoteAddr.hostname),
  );
  const clients: Sdk[] = [];
  const url = `ws://127.0.0.1:${server.addr.port}/ws`;
  return {
    ...own,
    url,
    client(token = "alice", options = {}) {
      const client = new Sdk(url, { token, minReconnectDelay: 5, maxReconnectDelay: 20, ...options });
      clients.push(client);
      return client;
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.disconnect();
      await own.hub.drain();
      await until(() => own.hub.stats().zombies === 0, "every socket's end");
      await server.shutdown();
    },
  };
}
