// An address in front of a gateway's nodes, as a load balancer has: connections reach the node that it points to now.

export class Balancer implements AsyncDisposable {
  readonly url: string;
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #serving: Promise<void>;
  #port: number;

  constructor(port: number) {
    this.#port = port;
    this.url = `http://127.0.0.1:${this.#listener.addr.port}`;
    this.#serving = this.#serve();
  }

  /** Points to another node. Connections that there are stay where they are. */
  pointTo(port: number): void {
    this.#port = port;
  }

  async #serve(): Promise<void> {
    for await (const client of this.#listener) void this.#connect(client);
  }

  async #connect(client: Deno.TcpConn): Promise<void> {
    let node: Deno.TcpConn | undefined;
    this.#connections.add(client);
    try {
      node = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
      await Promise.all([client.readable.pipeTo(node.writable), node.readable.pipeTo(client.writable)]);
    } catch {
      // The node is down, or one side has disconnected: the other one notices when its connection closes.
    }
    this.#connections.delete(client);
    close(client);
    close(node);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const client of this.#connections) close(client);
    await this.#serving;
  }
}

function close(connection: Deno.TcpConn | undefined): void {
  try {
    connection?.close();
  } catch {
    // It was closed already, by a stream of it.
  }
}
