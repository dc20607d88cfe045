// A gateway of the tests behind a real port, for clients that need one.
import { Centrifuge, type Options } from "npm:centrifuge@5.8.0";
import { WebSocket } from "npm:ws@8.23.0";
import type { Extensions } from "@/app.ts";
import { type Harness, openGateway } from "../harness.ts";
import { WAIT_MS } from "../wait.ts";

export type HttpServer = { gateway: Harness; url: string; [Symbol.asyncDispose](): Promise<void> };

/** Opens a gateway and serves it. */
export async function serveGateway(
  environment: Record<string, string> = {},
  extensions: Extensions = {},
): Promise<HttpServer> {
  const gateway = await openGateway(environment, extensions);
  const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
  const server = Deno.serve(options, (request, { remoteAddr }) => gateway.app.fetch(request, remoteAddr.hostname));
  return {
    gateway,
    url: `ws://127.0.0.1:${server.addr.port}`,
    async [Symbol.asyncDispose]() {
      await gateway.app.drain();
      await server.shutdown();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

/** The SDK of Centrifuge, which reconnects until it is disposed of, and waits for a reply for as long as a test does. */
export class SdkClient extends Centrifuge implements Disposable {
  constructor(url: string, options: Partial<Options>) {
    super(url, { timeout: WAIT_MS, ...options });
  }

  [Symbol.dispose](): void {
    this.disconnect();
  }
}

type WebSocketConstructor = new (url: string | URL, protocols?: string | string[]) => WebSocket;

/** A WebSocket as a browser opens it on a page of this origin. */
export function webSocketWithOrigin(origin: string): WebSocketConstructor {
  return class extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols, { origin });
    }
  };
}
