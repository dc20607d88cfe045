// Presence: which connections are on a channel, on all nodes.
//
// - What is listed may be up to 30 s behind after a node died; entries of dead nodes end by themselves.
// - `add` and `remove` never throw; a store that is away means presence of this node only.

/** `ClientInfo` of the wire protocol. */
export type ClientInfo = { user: string; client: string; conn_info?: unknown; chan_info?: unknown };

export interface Presence {
  add(key: string, info: ClientInfo): void;
  remove(key: string, client: string): void;
  list(key: string): Promise<ClientInfo[]>;
  /** The same for many channels at the price of about one; each of them is in the answer. */
  listMany(keys: readonly string[]): Promise<Map<string, ClientInfo[]>>;
  close(): Promise<void>;
}
