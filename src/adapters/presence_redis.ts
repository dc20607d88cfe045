// Presence of many nodes: a Redis hash for each channel, whose entries count only while the node that wrote them lives.
import type { ClientInfo, Presence } from "@/ports/presence.ts";
import { RedisConnection } from "./redis.ts";

const BEAT_MS = 8000;
const LIFE_MS = 24_000;
/** Hashes nobody renews end by themselves; renewed well before. */
const HASH_LIFE_SECONDS = 3600;
const BEATS_PER_RENEWAL = 150;
const ENTRIES_PER_PIPELINE = 500;
/** Longest wait of a list for a Redis that hangs. */
const COMMAND_TIMEOUT_MS = 500;

export type RedisPresenceOptions = { prefix?: string; beatMs?: number; lifeMs?: number };

/**
 * What this node holds is the truth about this node; Redis is what it tells the others. After each time that Redis was
 * away or did not take something, all is written under a new name, so what was removed meanwhile dies with the old name.
 */
export class RedisPresence implements Presence {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #lifeMs: number;
  readonly #beat: ReturnType<typeof setInterval>;
  readonly #own = new Map<string, Map<string, ClientInfo>>();
  #name = "";
  #beats = 0;
  /** Whether Redis lacks something of this node, or has too much. */
  #isAmiss = false;

  constructor(url: string, options: RedisPresenceOptions = {}) {
    this.#prefix = options.prefix ?? "svc:";
    this.#lifeMs = options.lifeMs ?? LIFE_MS;
    this.#redis = new RedisConnection(url, {
      commandTimeoutMs: COMMAND_TIMEOUT_MS,
      onReady: () => void this.#enter(),
    });
    this.#beat = setInterval(() => void this.#stayAlive(), options.beatMs ?? BEAT_MS);
  }

  add(key: string, info: ClientInfo): void {
    const clients = this.#own.get(key) ?? new Map<string, ClientInfo>();
    this.#own.set(key, clients.set(info.client, info));
    if (this.#redis.isReady) this.#tell(this.#write([[key, info]]));
  }

  remove(key: string, client: string): void {
    const clients = this.#own.get(key);
    clients?.delete(client);
    if (clients?.size === 0) this.#own.delete(key);
    if (this.#redis.isReady) this.#tell(this.#redis.client.hdel(this.#hash(key), `${this.#name}:${client}`));
  }

  async list(key: string): Promise<ClientInfo[]> {
    return (await this.listMany([key])).get(key) ?? [];
  }

  async listMany(keys: readonly string[]): Promise<Map<string, ClientInfo[]>> {
    const others = keys.length === 0 ? [] : await this.#others(keys).catch(() => []);
    return new Map(keys.map((key, index) => {
      const own = this.#own.get(key) ?? new Map<string, ClientInfo>();
      return [key, [...(others[index] ?? []).filter((info) => !own.has(info.client)), ...own.values()]];
    }));
  }

  async close(): Promise<void> {
    clearInterval(this.#beat);
    this.#own.clear();
    if (this.#redis.isReady) quietly(this.#redis.client.del(this.#life(this.#name)));
    await this.#redis.close();
  }

  /** What other nodes wrote, for each of the keys: two ways to Redis, however many they are. */
  async #others(keys: readonly string[]): Promise<ClientInfo[][]> {
    const { client } = this.#redis;
    const pipeline = client.pipeline();
    for (const key of keys) pipeline.hgetall(this.#hash(key));
    const channels = (await pipeline.exec() ?? []).map(([error, hash]) => {
      if (error !== null) throw error;
      // What `hgetall` resolves to.
      return Object.entries(hash as Record<string, string>).map(([field, json]) => {
        const colon = field.indexOf(":");
        return { field, node: field.slice(0, colon), json };
      }).filter(({ node }) => node !== this.#name);
    });
    const nodes = [...new Set(channels.flat().map(({ node }) => node))];
    if (nodes.length === 0) return [];
    const lives = await client.mget(nodes.map((node) => this.#life(node)));
    const alive = new Set(nodes.filter((_, index) => lives[index] !== null));
    for (const [index, entries] of channels.entries()) {
      const dead = entries.filter(({ node }) => !alive.has(node)).map(({ field }) => field);
      if (dead.length > 0) quietly(client.hdel(this.#hash(keys[index] ?? ""), ...dead));
    }
    // Written by `#write` of a node like this one.
    return channels.map((entries) =>
      entries.filter(({ node }) => alive.has(node)).map(({ json }) => JSON.parse(json) as ClientInfo)
    );
  }

  /** A new name: nothing written under the old one counts any more, once Redis has taken the new one. */
  async #enter(): Promise<void> {
    const { client } = this.#redis;
    const [old, name] = [this.#name, crypto.randomUUID()];
    this.#isAmiss = true;
    const isTaken = await client.set(this.#life(name), "", "PX", this.#lifeMs).then(() => true, () => false);
    if (!isTaken) return;
    this.#isAmiss = false;
    this.#name = name;
    quietly(client.del(this.#life(old)));
    await this.#writeAll();
  }

  async #stayAlive(): Promise<void> {
    if (!this.#redis.isReady) return;
    // Without a life in Redis this node was dead for the others, who clear the entries of the dead away.
    const beat = this.#redis.client.pexpire(this.#life(this.#name), this.#lifeMs);
    const isAlive = await beat.then((found) => found === 1, () => true);
    if (!isAlive || this.#isAmiss) return await this.#enter();
    this.#beats = (this.#beats + 1) % BEATS_PER_RENEWAL;
    if (this.#beats === 0) await this.#writeAll();
  }

  /** In pieces, each read from the live map as it is sent, so that nothing removed meanwhile is written again. */
  async #writeAll(): Promise<void> {
    const name = this.#name;
    let piece: [string, ClientInfo][] = [];
    for (const [key, clients] of this.#own) {
      for (const info of clients.values()) {
        piece.push([key, info]);
        if (piece.length < ENTRIES_PER_PIPELINE) continue;
        const sent = this.#tell(this.#write(piece));
        piece = [];
        await sent;
        if (this.#name !== name || !this.#redis.isReady) return;
      }
    }
    await this.#tell(this.#write(piece));
  }

  /** What Redis did not take is written again with a next beat. */
  async #tell(command: Promise<unknown>): Promise<void> {
    await command.catch(() => this.#isAmiss = true);
  }

  async #write(entries: readonly (readonly [string, ClientInfo])[]): Promise<void> {
    const pipeline = this.#redis.client.pipeline();
    for (const [key, info] of entries) {
      pipeline.hset(this.#hash(key), `${this.#name}:${info.client}`, JSON.stringify(info));
      pipeline.expire(this.#hash(key), HASH_LIFE_SECONDS);
    }
    const failed = (await pipeline.exec())?.find(([error]) => error !== null);
    if (failed !== undefined) throw failed[0];
  }

  #hash(key: string): string {
    return `${this.#prefix}presence:${key}`;
  }

  #life(name: string): string {
    return `${this.#prefix}node:${name}`;
  }
}

/** For what a later beat, or time, does as well. */
function quietly(command: Promise<unknown>): void {
  command.catch(() => {});
}
