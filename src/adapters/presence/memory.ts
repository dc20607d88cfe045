// Presence of a single node: a map, and the reference implementation of the contract.
import type { ClientInfo, Presence } from "@/ports/presence.ts";

/** Stores the clients of each channel within the process. */
export class MemoryPresence implements Presence {
  readonly #channels = new Map<string, Map<string, ClientInfo>>();

  add(key: string, info: ClientInfo): void {
    const clients = this.#channels.get(key) ?? new Map();
    this.#channels.set(key, clients.set(info.client, info));
  }

  remove(key: string, client: string): void {
    const clients = this.#channels.get(key);
    clients?.delete(client);
    if (clients?.size === 0) this.#channels.delete(key);
  }

  list(key: string): Promise<ClientInfo[]> {
    return Promise.resolve([...this.#channels.get(key)?.values() ?? []]);
  }

  listMany(keys: readonly string[]): Promise<Map<string, ClientInfo[]>> {
    return Promise.resolve(new Map(keys.map((key) => [key, [...this.#channels.get(key)?.values() ?? []]])));
  }

  close(): Promise<void> {
    this.#channels.clear();
    return Promise.resolve();
  }
}
