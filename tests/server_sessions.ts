// Sessions of PostgreSQL that outlive the test that opened them: a new one costs its server and its client more than what most tests
// do over it, as its caches are empty. The client sees a session that begins and ends: what it set, prepared and locked is discarded.
import { AsyncLocalStorage } from "node:async_hooks";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";

/** What the package asks a socket for. */
type SocketOptions = { host: string[]; port: number[]; database?: string };
type OpenSocket<Options extends SocketOptions> = (options: Options) => Socket;

const TERMINATE = Buffer.from("X\0\0\0\x04");
const AUTHENTICATED = Buffer.from("R\0\0\0\x08\0\0\0\0");
const READY_IDLE = Buffer.from("Z\0\0\0\x05I");
/** Begins the message with the number of the server's process. */
const PROCESS_KEY = Buffer.from("K\0\0\0\x0c");
const DISCARD = Buffer.from("Q\0\0\0\x10DISCARD ALL\0");
const DISCARDED = Buffer.concat([Buffer.from("C\0\0\0\x10DISCARD ALL\0"), READY_IDLE]);

/** Whose sessions outlive their clients, as the host and the name of a database. */
const places = new Set<string>();
const idle = new Set<ServerSession>();

/** Sessions of this thread with a database outlive their clients from now on. */
export function keepSessionsOf(url: string): void {
  places.add(placeOf(new URL(url)));
}

/** The processes of the server for sessions with a database that nobody uses. */
export function idleProcessesOf(url: string): number[] {
  return idleSessionsOf(url).map(({ processId }) => processId);
}

/** Ends the sessions with a database that nobody uses, as before it is dropped. */
export async function endIdleSessions(url: string): Promise<void> {
  await Promise.all(idleSessionsOf(url).map((session) => session.end()));
}

/** Opens sockets as `open` does, or takes over the session of an earlier one that began with the same settings. */
export function reuseSessions<Options extends SocketOptions>(open: OpenSocket<Options>): OpenSocket<Options> {
  return (options) => {
    const { host: [hostname = ""], port: [port = 5432], database = "" } = options;
    const place = placeOf({ host: `${hostname}:${port}`, pathname: `/${database}` });
    // What the package uses of a socket is there.
    return places.has(place) ? new ClientSocket(place, () => open(options)) as unknown as Socket : open(options);
  };
}

function idleSessionsOf(url: string): ServerSession[] {
  const place = placeOf(new URL(url));
  return [...idle].filter((session) => session.place === place);
}

function placeOf({ host, pathname }: Pick<URL, "host" | "pathname">): string {
  return `${host}${pathname}`;
}

/** A session of the server, used by one client after the other. */
class ServerSession {
  readonly place: string;
  /** What the client sent first: its user, its database and its settings. */
  readonly startup: string;
  /** The server's response to it, as far as it has come. */
  greeting = Buffer.alloc(0);
  client: ClientSocket | undefined;
  readonly socket: Socket;
  /** Whether everything that was sent is answered, and no transaction is open. */
  #isQuiet = false;
  #isGreeted = false;
  #whenDiscarded: (() => void) | undefined;
  #discarding = Buffer.alloc(0);

  constructor(place: string, startup: string, socket: Socket, client: ClientSocket) {
    this.place = place;
    this.startup = startup;
    this.socket = socket;
    this.client = client;
    socket.on("data", (data: Buffer) => this.#receive(data));
    socket.on("drain", () => this.client?.pass("drain"));
    socket.on("error", (error) => this.client?.pass("error", error));
    socket.on("close", (hadError) => {
      idle.delete(this);
      this.client?.pass("close", hadError);
    });
  }

  get processId(): number {
    return this.greeting.readInt32BE(this.greeting.indexOf(PROCESS_KEY) + PROCESS_KEY.length);
  }

  write(data: Buffer, written?: () => void): boolean {
    this.#isQuiet = false;
    return this.socket.write(data, written);
  }

  /** Ends what the client did; the session is idle then. False if it can only be closed. */
  discard(): boolean {
    if (!this.#isQuiet || !this.greeting.subarray(0, AUTHENTICATED.length).equals(AUTHENTICATED)) return false;
    this.#whenDiscarded = () => {
      const { client } = this;
      this.client = undefined;
      idle.add(this);
      client?.pass("close", false);
    };
    this.write(DISCARD);
    return true;
  }

  end(): Promise<void> {
    idle.delete(this);
    return new Promise((resolve) => {
      this.socket.once("close", () => resolve());
      this.socket.end(TERMINATE);
    });
  }

  #receive(data: Buffer): void {
    this.#isQuiet = endsWith(data, READY_IDLE);
    if (this.#whenDiscarded === undefined) {
      if (!this.#isGreeted) {
        this.greeting = Buffer.concat([this.greeting, data]);
        this.#isGreeted = endsWith(this.greeting, READY_IDLE);
      }
      this.client?.pass("data", data);
      return;
    }
    this.#discarding = Buffer.concat([this.#discarding, data]);
    if (!endsWith(this.#discarding, DISCARDED)) return;
    const done = this.#whenDiscarded;
    this.#whenDiscarded = undefined;
    this.#discarding = Buffer.alloc(0);
    done();
  }
}

/** What the package takes for a socket of its own. */
class ClientSocket extends EventEmitter {
  readonly #place: string;
  readonly #open: () => Socket;
  /** What happens on a session is not the affair of the test that opened it. */
  readonly #run = AsyncLocalStorage.snapshot();
  #session: ServerSession | undefined;
  #state: "open" | "ending" | "closed" = "open";

  constructor(place: string, open: () => Socket) {
    super();
    this.#place = place;
    this.#open = open;
  }

  get readyState(): string {
    return this.#session === undefined || this.#state !== "open" ? this.#state : this.#session.socket.readyState;
  }

  write(data: Buffer, written?: () => void): boolean {
    if (this.#session !== undefined) return this.#session.write(data, written);
    const startup = data.toString("latin1");
    const kept = [...idle].find((session) => session.place === this.#place && session.startup === startup);
    if (kept === undefined) {
      this.#session = new ServerSession(this.#place, startup, this.#open(), this);
      return this.#session.write(data, written);
    }
    idle.delete(kept);
    kept.client = this;
    this.#session = kept;
    queueMicrotask(() => this.pass("data", kept.greeting));
    return true;
  }

  end(data = Buffer.alloc(0)): void {
    if (this.#state !== "open") return;
    this.#state = "ending";
    const isTerminated = TERMINATE.equals(data);
    if (this.#session === undefined) this.pass("close", false);
    else if (!isTerminated || !this.#session.discard()) this.#session.socket.end(data);
  }

  destroy(): void {
    if (this.#session === undefined) this.pass("close", false);
    else this.#session.socket.destroy();
  }

  setKeepAlive(): void {}

  pause(): void {
    this.#session?.socket.pause();
  }

  resume(): void {
    this.#session?.socket.resume();
  }

  /** Hands over what happened on the session. */
  pass(event: string, ...args: unknown[]): void {
    if (event === "close") this.#state = "closed";
    this.#run(() => this.emit(event, ...args));
  }
}

function endsWith(data: Buffer, end: Buffer): boolean {
  return data.length >= end.length && data.subarray(-end.length).equals(end);
}
