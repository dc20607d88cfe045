// A TCP proxy before a server, for tests of what a broken network does.

type Link = { isCut: boolean; isBlackholed: boolean; dropsResponses: boolean };

export class TcpProxy {
  readonly url: string;
  readonly #listener: Deno.TcpListener;
  #target: { hostname: string; port: number };
  readonly #open = new Set<Deno.TcpConn>();
  readonly #links = new Set<Link>();
  readonly #pipes = new Set<Promise<void>>();
  readonly #accepting: Promise<void>;
  #isRefusing = false;
  #stalled: PromiseWithResolvers<void> | undefined;
  #cutAfter: string | undefined;

  constructor(url: string) {
    const target = new URL(url);
    this.#target = addressOf(url);
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    target.hostname = "127.0.0.1";
    target.port = String(this.#listener.addr.port);
    this.url = target.href;
    this.#accepting = this.#accept();
  }

  /** Cuts every connection and takes no more. */
  refuse(): void {
    this.#isRefusing = true;
    for (const conn of this.#open) close(conn);
  }

  accept(): void {
    this.#isRefusing = false;
  }

  /** Takes new connections to another server; those there are stay where they are. */
  routeTo(url: string): void {
    this.#target = addressOf(url);
  }

  /** From now on drops whatever is sent over the present connections, without closing them; new ones work. */
  blackhole(): void {
    for (const link of this.#links) link.isBlackholed = true;
    this.#links.clear();
  }

  /** From now on drops what the server sends over the present connections; it still gets what it is sent. */
  dropResponses(): void {
    for (const link of this.#links) link.dropsResponses = true;
  }

  /** Holds whatever is sent, in both directions, until `resume`. */
  stall(): void {
    this.#stalled ??= Promise.withResolvers<void>();
  }

  resume(): void {
    this.#stalled?.resolve();
    this.#stalled = undefined;
  }

  /** Cuts the next connection whose client sends `text`, once the server has received it and before the client gets a response. */
  cutAfter(text: string): void {
    this.#cutAfter = text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.resume();
    this.refuse();
    await this.#accepting;
    await Promise.all(this.#pipes);
  }

  async #accept(): Promise<void> {
    for await (const client of this.#listener) {
      if (this.#isRefusing) {
        close(client);
        continue;
      }
      const server = await Deno.connect(this.#target).catch(() => undefined);
      // The server may be away, and meanwhile none be taken any more.
      if (server === undefined || this.#isRefusing) {
        close(client);
        close(server);
        continue;
      }
      this.#open.add(client).add(server);
      const link: Link = { isCut: false, isBlackholed: false, dropsResponses: false };
      this.#links.add(link);
      this.#track(this.#pipe(client, server, link, true));
      this.#track(this.#pipe(server, client, link, false));
    }
  }

  #track(pipe: Promise<void>): void {
    this.#pipes.add(pipe);
    pipe.finally(() => this.#pipes.delete(pipe));
  }

  async #pipe(from: Deno.TcpConn, to: Deno.TcpConn, link: Link, isRequest: boolean): Promise<void> {
    const buffer = new Uint8Array(65_536);
    try {
      while (true) {
        const count = await from.read(buffer);
        if (count === null) break;
        const bytes = buffer.subarray(0, count);
        await this.#stalled?.promise;
        if (isRequest && this.#cutAfter !== undefined && new TextDecoder().decode(bytes).includes(this.#cutAfter)) {
          this.#cutAfter = undefined;
          link.isCut = true;
        }
        // The server's answer is what gets lost.
        if (link.isCut && !isRequest) break;
        if (link.isBlackholed || link.dropsResponses && !isRequest) continue;
        for (let sent = 0; sent < count;) sent += await to.write(bytes.subarray(sent));
      }
    } catch {
      // Either side may disconnect at any time; that is what the proxy is for.
    }
    this.#links.delete(link);
    for (const conn of [from, to]) {
      close(conn);
      this.#open.delete(conn);
    }
  }
}

function addressOf(url: string): { hostname: string; port: number } {
  const { hostname, port } = new URL(url);
  return { hostname, port: Number(port) };
}

function close(conn: Deno.TcpConn | undefined): void {
  try {
    conn?.close();
  } catch {
    // Closed already.
  }
}
