// Gateway processes on one database, and real clients that reconnect to the next process when theirs ends.
import { Centrifuge } from "npm:centrifuge@5.8.0";
import { SignJWT } from "jose";
import { WebSocket } from "npm:ws@8.23.0";
import { hasRedisServer, RedisServer } from "../conformance/redis_server.ts";
import { GatewayProcess } from "../e2e/target.ts";
import { countSockets } from "../counted_sockets.ts";
import { freePort } from "../free_port.ts";
import { createTemporaryDatabase } from "../temporary_database.ts";
import { postgresUrl } from "../tier.ts";
import { WAIT_MS } from "../wait.ts";

/** Tests of several nodes are skipped where PostgreSQL or Redis cannot be had. */
export const hasServers = postgresUrl !== undefined && hasRedisServer;

/** How often a test kills its nodes: as often as is usual for it, or as `KILLS` says. */
export function killCount(usual: number): number {
  return Number(Deno.env.get("KILLS") ?? usual);
}

export type ClusterOptions = {
  nodes?: number;
  /** All nodes listen on one port. */
  isPortShared?: boolean;
  /** Instead of a schema of TEST_postgresUrl. */
  databaseUrl?: string;
  environment?: Record<string, string>;
  /** What the tokens of these principals say besides. */
  claims?: Record<string, Record<string, unknown>>;
  /** Of one node, made from the addresses that all of them have. */
  nodeEnvironment?: (node: number, shared: { redisUrl: string; databaseUrl: string }) => Record<string, string>;
  /** Command before each gateway's own. */
  wrapper?: readonly string[];
};

/** What a gateway answered, whatever it was. */
// deno-lint-ignore no-explicit-any -- tests look into bodies of every shape
export type NodeResponse = { status: number; body: any };

export class Cluster {
  readonly nodes: readonly GatewayProcess[];
  /** Of the test's own; a single node has none. */
  readonly redis: RedisServer = new RedisServer();
  readonly folder: string;
  readonly #secret = crypto.randomUUID() + crypto.randomUUID();
  readonly #claims: NonNullable<ClusterOptions["claims"]>;
  readonly #clients: Centrifuge[] = [];
  readonly #sockets = countSockets(WebSocket);
  readonly #stack = new AsyncDisposableStack();

  private constructor(folder: string, databaseUrl: string, options: ClusterOptions) {
    const { nodes = 1, isPortShared = false, environment = {}, nodeEnvironment, wrapper } = options;
    const port = freePort();
    this.folder = folder;
    this.#claims = options.claims ?? {};
    this.nodes = Array.from(
      { length: nodes },
      (_, at) =>
        new GatewayProcess(isPortShared ? port : freePort(), this.#secret, {
          SVC_DATABASE_URL: databaseUrl,
          SVC_DATA_DIR: folder,
          SVC_RATE_LIMIT: "off",
          ...(isPortShared ? { SVC_REUSE_PORT: "on" } : {}),
          ...(nodes > 1 ? { SVC_REDIS_URL: this.redis.url } : {}),
          ...environment,
          ...nodeEnvironment?.(at, { redisUrl: this.redis.url, databaseUrl }),
        }, wrapper),
    );
    this.#stack.defer(() => Deno.remove(folder, { recursive: true }));
    this.#stack.use(this.redis);
  }

  /** One node on a SQLite file. */
  static async openSingle(options: ClusterOptions = {}): Promise<Cluster> {
    const folder = await Deno.makeTempDir({ prefix: "gateway-fault-" });
    const cluster = new Cluster(folder, `sqlite:${folder}/gateway.db`, options);
    await cluster.#start();
    return cluster;
  }

  /** Nodes that share PostgreSQL and Redis. `prepare` runs before they start. */
  static async openShared(options: ClusterOptions, prepare?: (cluster: Cluster) => Promise<void>): Promise<Cluster> {
    const folder = await Deno.makeTempDir({ prefix: "gateway-fault-" });
    const database = options.databaseUrl === undefined ? await createTemporaryDatabase(postgresUrl ?? "") : undefined;
    const cluster = new Cluster(folder, options.databaseUrl ?? database?.url ?? "", { nodes: 2, ...options });
    cluster.#stack.defer(() => database?.release() ?? Promise.resolve());
    await (prepare?.(cluster) ?? cluster.redis.start());
    await cluster.#start();
    return cluster;
  }

  token(sub: string, claims: Record<string, unknown> = this.#claims[sub] ?? {}): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ exp: now + 3600, ...claims }).setProtectedHeader({ alg: "HS256" }).setSubject(sub)
      .setIssuedAt(now).sign(new TextEncoder().encode(this.#secret));
  }

  /** One HTTP call to a node; resolves whatever the status. */
  async request(node: number, sub: string, method: string, path: string, body?: unknown): Promise<NodeResponse> {
    const response = await fetch(`${this.node(node).url}${path}`, {
      method,
      headers: { authorization: `Bearer ${await this.token(sub)}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  }

  /** One HTTP call; throws unless it responds 2xx. */
  async call(node: number, sub: string, method: string, path: string, body?: unknown): Promise<NodeResponse["body"]> {
    const answered = await this.request(node, sub, method, path, body);
    if (answered.status >= 300) {
      throw new Error(`${method} ${path}: ${answered.status} ${JSON.stringify(answered.body)}`);
    }
    return answered.body;
  }

  /** What readiness says on a node. */
  async readReadiness(node: number): Promise<NodeResponse> {
    return await this.request(node, "nobody", "GET", "/v1/collaboration/ready");
  }

  /** A room of these principals, who are made known first. */
  async createRoom(subs: readonly string[]): Promise<string> {
    await Promise.all(subs.map((sub) => this.call(0, sub, "GET", "/v1/collaboration/me")));
    const [owner = "", ...memberIds] = subs;
    return (await this.call(0, owner, "POST", "/v1/rooms", { name: "fault", memberIds })).id;
  }

  /** A real client, connected: to `home` first, to the next node when that one has ended. */
  async connect(sub: string, home = 0): Promise<Centrifuge> {
    const ports = this.nodes.map((_, at) => this.node((home + at) % this.nodes.length).port);
    const client = new Centrifuge(
      ports.map((port) => ({ transport: "websocket" as const, endpoint: `ws://127.0.0.1:${port}/ws` })),
      {
        token: await this.token(sub),
        minReconnectDelay: 20,
        maxReconnectDelay: 200,
        timeout: WAIT_MS,
        websocket: this.#sockets.Socket,
      },
    );
    this.#clients.push(client);
    client.connect();
    await client.ready(WAIT_MS);
    return client;
  }

  node(at: number): GatewayProcess {
    const node = this.nodes[at];
    if (node === undefined) throw new RangeError(`Expected one of ${this.nodes.length} nodes, received ${at}`);
    return node;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.disconnect();
    await Promise.all(this.nodes.map((node) => node.stop("SIGKILL")));
    await this.#sockets.untilClosed();
    await this.#stack.disposeAsync();
  }

  async #start(): Promise<void> {
    try {
      // The first one alone migrates the schema; the others would only wait for it.
      for (const node of this.nodes) await node.start();
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw error;
    }
  }
}
