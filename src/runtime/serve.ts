// For Deno 2.9.6. Listens again when a connection could not be accepted.
//
// Fault: `Deno.serve` ends for good when the system has no descriptor for another connection, and the process with it:
//
//   ulimit -n 100; Deno.serve(handler); for (let n = 0; n < 100; n++) await Deno.connect(address);
//
// Delete it when a connection that could not be accepted ends nothing: tests/fault/aborted_upgrade_test.ts then passes without it.

import { DescriptorReserve } from "./descriptor_reserve.ts";

type Server = Deno.HttpServer<Deno.NetAddr>;

/** Until then new connections are refused; those that exist are served, with the descriptors of the reserve. */
const LISTEN_AGAIN_MS = 1000;

/**
 * What `serve` returns. It is called again with the port of the first time whenever it could not accept a connection, once there are
 * descriptors again.
 */
export function serveLasting(
  serve: (port?: number) => Server,
  onRefused: (cause: unknown) => void,
): Pick<Server, "addr" | "shutdown"> {
  let server = watched(serve());
  const { addr } = server;
  const reserve = new DescriptorReserve();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function watched(started: Server): Server {
    started.finished.catch(listenAgain);
    return started;
  }

  function listenAgain(cause: unknown): void {
    reserve.release();
    onRefused(cause);
    waitForDescriptors();
  }

  function waitForDescriptors(): void {
    timer = setTimeout(() => {
      if (!reserve.take()) return waitForDescriptors();
      try {
        server = watched(serve(addr.port));
      } catch (thrown) {
        listenAgain(thrown);
      }
    }, LISTEN_AGAIN_MS);
  }

  return {
    addr,
    shutdown(): Promise<void> {
      clearTimeout(timer);
      reserve.release();
      return server.shutdown();
    },
  };
}
