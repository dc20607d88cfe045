// The messages of the Centrifuge client protocol as protobuf numbers them, as far as the gateway speaks it. Names are those of
// the JSON flavour; what is not listed is an unknown field, which clients may send and nobody reads.

/** `json` is a `bytes` field that holds a JSON text. */
export type Scalar = "bool" | "uint32" | "int32" | "uint64" | "int64" | "string" | "json";

/** What a field holds. A map is written as a list of its entries. */
export type Kind = Scalar | Message | { list: Message } | { map: Message };

export type Field = { readonly name: string; readonly number: number; readonly kind: Kind };

/** One type of message. */
export class Message {
  readonly byName: ReadonlyMap<string, Field>;
  readonly byNumber: ReadonlyMap<number, Field>;

  constructor(fields: Readonly<Record<string, readonly [number: number, kind: Kind]>>) {
    const all = Object.entries(fields).map(([name, [number, kind]]): Field => ({ name, number, kind }));
    this.byName = new Map(all.map((field) => [field.name, field]));
    this.byNumber = new Map(all.map((field) => [field.number, field]));
  }
}

const Nothing = new Message({});

const ClientInfo = new Message({
  user: [1, "string"],
  client: [2, "string"],
  conn_info: [3, "json"],
  chan_info: [4, "json"],
});

const Publication = new Message({
  data: [4, "json"],
  info: [5, ClientInfo],
  offset: [6, "uint64"],
  tags: [7, mapOf("string")],
  time: [9, "int64"],
});

const Position = new Message({ offset: [1, "uint64"], epoch: [2, "string"] });
const Channel = new Message({ channel: [1, "string"] });
const Payload = new Message({ data: [1, "json"] });

const SubscribeRequest = new Message({
  channel: [1, "string"],
  recover: [3, "bool"],
  epoch: [6, "string"],
  offset: [7, "uint64"],
  join_leave: [11, "bool"],
  flag: [14, "int64"],
  type: [15, "int32"],
});

/** What clients send. */
export const Command = new Message({
  id: [1, "uint32"],
  connect: [4, new Message({ token: [1, "string"], subs: [3, mapOf(SubscribeRequest)] })],
  subscribe: [5, SubscribeRequest],
  unsubscribe: [6, Channel],
  publish: [7, new Message({ channel: [1, "string"], data: [2, "json"] })],
  presence: [8, Channel],
  presence_stats: [9, Channel],
  history: [
    10,
    new Message({ channel: [1, "string"], limit: [7, "int32"], since: [8, Position], reverse: [9, "bool"] }),
  ],
  ping: [11, Nothing],
  send: [12, Payload],
  rpc: [13, new Message({ data: [1, "json"], method: [2, "string"] })],
  refresh: [14, new Message({ token: [1, "string"] })],
  sub_refresh: [15, new Message({ channel: [1, "string"], token: [2, "string"] })],
});

const SubscribeResult = new Message({
  expires: [1, "bool"],
  ttl: [2, "uint32"],
  recoverable: [3, "bool"],
  epoch: [6, "string"],
  publications: [7, { list: Publication }],
  recovered: [8, "bool"],
  offset: [9, "uint64"],
  positioned: [10, "bool"],
  data: [11, "json"],
  was_recovering: [12, "bool"],
});

const ConnectResult = new Message({
  client: [1, "string"],
  version: [2, "string"],
  expires: [3, "bool"],
  ttl: [4, "uint32"],
  data: [5, "json"],
  subs: [6, mapOf(SubscribeResult)],
  ping: [7, "uint32"],
  pong: [8, "bool"],
});

const Membership = new Message({ info: [1, ClientInfo] });

const Push = new Message({
  channel: [2, "string"],
  pub: [4, Publication],
  join: [5, Membership],
  leave: [6, Membership],
  unsubscribe: [7, new Message({ code: [2, "uint32"], reason: [3, "string"] })],
  message: [8, Payload],
  subscribe: [
    9,
    new Message({
      recoverable: [1, "bool"],
      epoch: [4, "string"],
      offset: [5, "uint64"],
      positioned: [6, "bool"],
      data: [7, "json"],
    }),
  ],
  disconnect: [11, new Message({ code: [1, "uint32"], reason: [2, "string"], reconnect: [3, "bool"] })],
});

/** What they get. */
export const Reply = new Message({
  id: [1, "uint32"],
  error: [2, new Message({ code: [1, "uint32"], message: [2, "string"], temporary: [3, "bool"] })],
  push: [4, Push],
  connect: [5, ConnectResult],
  subscribe: [6, SubscribeResult],
  unsubscribe: [7, Nothing],
  publish: [8, Nothing],
  presence: [9, new Message({ presence: [1, mapOf(ClientInfo)] })],
  presence_stats: [10, new Message({ num_clients: [1, "uint32"], num_users: [2, "uint32"] })],
  history: [
    11,
    new Message({ publications: [1, { list: Publication }], epoch: [2, "string"], offset: [3, "uint64"] }),
  ],
  rpc: [13, Payload],
  refresh: [
    14,
    new Message({ client: [1, "string"], version: [2, "string"], expires: [3, "bool"], ttl: [4, "uint32"] }),
  ],
  sub_refresh: [15, new Message({ expires: [1, "bool"], ttl: [2, "uint32"] })],
});

/** Protobuf's own form of a map, its keys being text. */
function mapOf(value: Kind): { map: Message } {
  return { map: new Message({ key: [1, "string"], value: [2, value] }) };
}
