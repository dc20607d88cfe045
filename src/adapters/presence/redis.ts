// Presence of many nodes: a Redis hash for each channel, whose entries count only while the node that wrote them lives.
import { HOUR_SECONDS } from "@/core/time/clock.ts";
import type { ClientInfo, Presence } from "@/ports/presence.ts";
import { RedisConnection } from "../redis.ts";

const HEARTBEAT_MS = 8000;
const TTL_MS = 24_000;
/** Hashes expire unless renewed. */
const HASH_TTL_SECONDS = HOUR_SECONDS;
const HEARTBEATS_PER_RENEWAL = 150;
const ENTRIES_PER_PIPELINE = 500;
/** Longest wait of a list for a Redis that hangs. */
const COMMAND_TIMEOUT_MS = 500;

export type RedisPresenceOptions = {
  prefix?: string;
  heartbeatMs?: number;
  ttlMs?: number;
  commandTimeoutMs?: number;
};

/**
 * This node's map is authoritative for its clients; Redis is its copy for other nodes. After each outage or failed write of Redis,
 * all entries are written again under a new node name, so entries removed meanwhile expire with the old name.
 */
export class RedisPresence implements Presence {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #ttlMs: number;
  readonly #heartbeatTimer: ReturnType<typeof setInterval>;
  readonly #localClients = new Map<string, Map<string, ClientInfo>>();
  #nodeName = "";
  #heartbeats = 0;
  /** Whether Redis may differ from this node's map. */
  #isOutOfSync = false;

  constructor(url: string, options: RedisPresenceOptions = {}) {
    this.#prefix = options.prefix ?? "svc:";
    this.#ttlMs = options.ttlMs ?? TTL_MS;
    this.#redis = new RedisConnection(url, {
      commandTimeoutMs: options.commandTimeoutMs ?? COMMAND_TIMEOUT_MS,
      onReady: () => void this.#register(),
    });
    this.#heartbeatTimer = setInterval(() => void this.#sendHeartbeat(), options.heartbeatMs ?? HEARTBEAT_MS);
  }

  add(key: string, info: ClientInfo): void {
    const clients = this.#localClients.get(key) ?? new Map<string, ClientInfo>();
    this.#localClients.set(key, clients.set(info.client, info));
    if (this.#redis.isReady) this.#noteFailure(this.#write([[key, info]]));
  }

  remove(key: string, client: string): void {
    const clients = this.#localClients.get(key);
    clients?.delete(client);
    if (clients?.size === 0) this.#localClients.delete(key);
    if (this.#redis.isReady) {
      this.#noteFailure(this.#redis.client.hdel(this.#channelKey(key), `${this.#nodeName}:${client}`));
    }
  }

  async list(key: string): Promise<ClientInfo[]> {
    return (await this.listMany([key])).get(key) ?? [];
  }

  async listMany(keys: readonly string[]): Promise<Map<string, ClientInfo[]>> {
    // While Redis does not answer, a node knows its own clients only; the connection logs that.
    const others = keys.length === 0 ? [] : await this.#remoteClients(keys).catch(() => []);
    return new Map(keys.map((key, index) => {
      const own = this.#localClients.get(key) ?? new Map<string, ClientInfo>();
      return [key, [...(others[index] ?? []).filter((info) => !own.has(info.client)), ...own.values()]];
    }));
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeatTimer);
    this.#localClients.clear();
    if (this.#redis.isReady) ignoreErrors(this.#redis.client.del(this.#nodeKey(this.#nodeName)));
    await this.#redis.close();
  }

  /** The clients of other nodes for each key, in two round trips. */
  async #remoteClients(keys: readonly string[]): Promise<ClientInfo[][]> {
    const { client } = this.#redis;
    const pipeline = client.pipeline();
    for (const key of keys) pipeline.hgetall(this.#channelKey(key));
    const channels = (await pipeline.exec() ?? []).map(([error, hash]) => {
      if (error !== null) throw error;
      // What `hgetall` resolves to.
      return Object.entries(hash as Record<string, string>).map(([field, json]) => {
        const colon = field.indexOf(":");
        return { field, node: field.slice(0, colon), json };
      }).filter(({ node }) => node !== this.#nodeName);
    });
    const nodes = [...new Set(channels.flat().map(({ node }) => node))];
    if (nodes.length === 0) return [];
    const nodeKeys = await client.mget(nodes.map((node) => this.#nodeKey(node)));
    const alive = new Set(nodes.filter((_, index) => nodeKeys[index] !== null));
    for (const [index, entries] of channels.entries()) {
      const dead = entries.filter(({ node }) => !alive.has(node)).map(({ field }) => field);
      if (dead.length > 0) ignoreErrors(client.hdel(this.#channelKey(keys[index] ?? ""), ...dead));
    }
    // Written by `#write` of a node like this one.
    return channels.map((entries) =>
      entries.filter(({ node }) => alive.has(node)).map(({ json }) => JSON.parse(json) as ClientInfo)
    );
  }

  /** Registers under a new name; entries under the old one no longer count once Redis has the new one. */
  async #register(): Promise<void> {
    const { client } = this.#redis;
    const [old, name] = [this.#nodeName, crypto.randomUUID()];
    this.#isOutOfSync = true;
    // If it fails, `#isOutOfSync` stays set, and the next heartbeat tries again.
    const isTaken = await client.set(this.#nodeKey(name), "", "PX", this.#ttlMs).then(() => true, () => false);
    if (!isTaken) return;
    this.#isOutOfSync = false;
    this.#nodeName = name;
    ignoreErrors(client.del(this.#nodeKey(old)));
    await this.#writeAll();
  }

  async #sendHeartbeat(): Promise<void> {
    if (!this.#redis.isReady) return;
    // If its key expired, other nodes took this node for dead and deleted its entries.
    const renewal = this.#redis.client.pexpire(this.#nodeKey(this.#nodeName), this.#ttlMs);
    // Without a response it is unknown; the next heartbeat asks again.
    const isAlive = await renewal.then((found) => found === 1, () => true);
    if (!isAlive || this.#isOutOfSync) return await this.#register();
    this.#heartbeats = (this.#heartbeats + 1) % HEARTBEATS_PER_RENEWAL;
    if (this.#heartbeats === 0) await this.#writeAll();
  }

  /** In batches, each read from the map when it is sent, so that no client that left meanwhile is written again. */
  async #writeAll(): Promise<void> {
    const name = this.#nodeName;
    let batch: [string, ClientInfo][] = [];
    for (const [key, clients] of this.#localClients) {
      for (const info of clients.values()) {
        batch.push([key, info]);
        if (batch.length < ENTRIES_PER_PIPELINE) continue;
        const sent = this.#noteFailure(this.#write(batch));
        batch = [];
        await sent;
        if (this.#nodeName !== name || !this.#redis.isReady) return;
      }
    }
    await this.#noteFailure(this.#write(batch));
  }

  /** What Redis did not store is written again with the next heartbeat. */
  async #noteFailure(command: Promise<unknown>): Promise<void> {
    await command.catch(() => this.#isOutOfSync = true);
  }

  async #write(entries: readonly (readonly [string, ClientInfo])[]): Promise<void> {
    const pipeline = this.#redis.client.pipeline();
    for (const [key, info] of entries) {
      pipeline.hset(this.#channelKey(key), `${this.#nodeName}:${info.client}`, JSON.stringify(info));
      pipeline.expire(this.#channelKey(key), HASH_TTL_SECONDS);
    }
    const failed = (await pipeline.exec())?.find(([error]) => error !== null);
    if (failed !== undefined) throw failed[0];
  }

  #channelKey(key: string): string {
    return `${this.#prefix}presence:${key}`;
  }

  #nodeKey(name: string): string {
    return `${this.#prefix}node:${name}`;
  }
}

function ignoreErrors(command: Promise<unknown>): void {
  // A later heartbeat, or the expiry of its key, has the same effect.
  command.catch(() => {});
}
