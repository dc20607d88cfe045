// Presence: which connections are on a channel, on all nodes.
//
// - A list may lag up to 30 s after a node died; entries of dead nodes expire.
// - `add` and `remove` never throw; while the backend is unavailable, a node knows only its own clients.

/** `ClientInfo` of the wire protocol. */
export type ClientInfo = { user: string; client: string; conn_info?: unknown; chan_info?: unknown };

export interface Presence {
  add(key: string, info: ClientInfo): void;
  remove(key: string, client: string): void;
  list(key: string): Promise<ClientInfo[]>;
  /** The same for many channels at about the cost of one; the result has an entry for each. */
  listMany(keys: readonly string[]): Promise<Map<string, ClientInfo[]>>;
  close(): Promise<void>;
}
