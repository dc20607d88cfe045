// The messages of `/ws` in the AsyncAPI document, from the schemas that validate them.
import { z } from "@zod/zod";
import type { EphemeralKind, NoticeKind } from "@/core/event/channel.ts";
import type { EventType } from "@/core/event/event.ts";
import type { Operation } from "@/core/operation.ts";
import { type JsonSchema, pascalCase, type Schemas } from "../../shared/json_schema.ts";
import { COMMAND_SCHEMAS } from "../protocol.ts";

export type Json = Record<string, unknown>;

const ID = { type: "integer", minimum: 1, description: "Chosen by the client; repeated in the reply" };
const TEXT = { type: "string" };
const COUNT = { type: "integer", minimum: 0 };
const FLAG = { type: "boolean" };
const ANY = {};
const CORRELATION = { location: "$message.payload#/id", description: "Matches the reply to its command" };

const CLIENT_INFO = titled(
  object({ user: TEXT, client: TEXT, conn_info: ANY, chan_info: ANY }, ["user", "client"]),
  "client_info",
);
const PUBLICATION = titled(object({ data: ANY, offset: COUNT, info: CLIENT_INFO }, ["data"]), "publication");
const PUBLICATIONS = { type: "array", items: PUBLICATION };
const POSITION = {
  recoverable: FLAG,
  positioned: FLAG,
  epoch: TEXT,
  offset: COUNT,
  was_recovering: FLAG,
  recovered: { ...FLAG, description: "Whether recovery succeeded: `publications` has all missed events" },
  publications: PUBLICATIONS,
};
const LIFETIME = {
  expires: FLAG,
  ttl: { ...COUNT, description: "Seconds until the client refreshes the token, shortly before it expires" },
};

/** The commands of the protocol; each operation of `rpc` has messages of its own. */
export const COMMANDS: Readonly<Record<string, { summary: string; description: string; reply: Json }>> = {
  connect: {
    summary: "Authenticate the connection",
    description:
      "Must be the first command of a connection and arrive within 10 s. The reply has the principal, the limits in force and the subscriptions of the server.",
    reply: replyFrame("connect", {
      client: TEXT,
      version: TEXT,
      ping: { ...COUNT, description: "Seconds between pings of the server" },
      pong: FLAG,
      ...LIFETIME,
      data: { type: "object", description: "Principal, tenant, limits and version; deprecations if there are any" },
      subs: { type: "object", additionalProperties: object(POSITION) },
    }, ["client"]),
  },
  subscribe: {
    summary: "Subscribe to a channel",
    description:
      "From now on, or with `recover` from an `offset` in an `epoch`: then with all events that were missed.",
    reply: replyFrame("subscribe", POSITION),
  },
  unsubscribe: {
    summary: "Unsubscribe from a channel",
    description: "Always succeeds, also without a subscription.",
    reply: replyFrame("unsubscribe", {}),
  },
  publish: {
    summary: "Publish an ephemeral message",
    description: "It is not stored. Each channel defines which types it accepts.",
    reply: replyFrame("publish", {}),
  },
  presence: {
    summary: "List the clients subscribed to a channel",
    description: "Requires a subscription to it.",
    reply: replyFrame("presence", { presence: { type: "object", additionalProperties: CLIENT_INFO } }, ["presence"]),
  },
  presence_stats: {
    summary: "Count the clients subscribed to a channel",
    description: "Requires a subscription to it.",
    reply: replyFrame("presence_stats", { num_clients: COUNT, num_users: COUNT }, ["num_clients", "num_users"]),
  },
  history: {
    summary: "Read the event log of a channel",
    description: "Events after `since`; with `reverse` those before it, the newest first.",
    reply: replyFrame("history", { publications: PUBLICATIONS, epoch: TEXT, offset: COUNT }, [
      "publications",
      "epoch",
      "offset",
    ]),
  },
  refresh: {
    summary: "Continue the connection with a newer token",
    description: "The token must be of the same principal.",
    reply: replyFrame("refresh", { client: TEXT, version: TEXT, ...LIFETIME }),
  },
};

/** A command of the protocol. */
export function commandFrame(method: string, schemas: Schemas): Json {
  const body = COMMAND_SCHEMAS[method as keyof typeof COMMAND_SCHEMAS]; // the names of COMMANDS are methods
  return message(
    `Command \`${method}\``,
    object({ id: ID, [method]: titled(schemas.of(body, "input"), `${method}.command`) }, ["id", method]),
    true,
  );
}

const BAGGAGE = { ...TEXT, description: "As the HTTP header, such as `agent-hops=1`" };

/** An operation called over the socket, and its reply. */
export function rpcFrames(operation: Operation, schemas: Schemas): { request: Json; reply: Json } {
  const { name, summary, input, output, example } = operation;
  const data = titled(schemas.of(input, "input"), `${name}.input`);
  const rpc = object({ method: { const: name }, data, baggage: BAGGAGE }, ["method"]);
  const hasOutput = !(output instanceof z.ZodVoid);
  return {
    request: {
      ...message(summary, object({ id: ID, rpc }, ["id", "rpc"]), true),
      examples: [{ payload: { id: 1, rpc: { method: name, ...example === undefined ? {} : { data: example } } } }],
    },
    reply: replyFrame(
      "rpc",
      hasOutput ? { data: titled(schemas.of(output, "output"), `${name}.output`) } : {},
      hasOutput ? ["data"] : [],
    ),
  };
}

/** The reply to a failed command. */
export function errorFrame(): Json {
  const error = object({
    code: { ...COUNT, description: "HTTP status of the problem, or a protocol code below 400" },
    message: { ...TEXT, description: "`<problem code>: <detail>` if an operation failed" },
    temporary: FLAG,
  }, ["code", "message"]);
  return message("A command failed", object({ id: ID, error }, ["id", "error"]), true);
}

/** Pushes that are not events. */
export function pushFrames(): Record<string, Json> {
  const info = object({ info: CLIENT_INFO }, ["info"]);
  return {
    join: message("A client subscribed", push("join", info)),
    leave: message("A client unsubscribed", push("leave", info)),
    unsubscribed: message(
      "The server ended the subscription; with codes from 2500 the client should subscribe again",
      push("unsubscribe", object({ code: COUNT, reason: TEXT }, ["code", "reason"])),
    ),
  };
}

/** A push of a stored event. */
export function eventFrame({ type, summary, data, scope }: EventType, schemas: Schemas): Json {
  const agentHops = { ...COUNT, description: "How many agents led to it, one after the other; absent if none did" };
  const at = { type: "string", format: "date-time" };
  const head = { id: TEXT, type: { const: type }, at, actor: ACTOR, agentHops };
  const body = object({ ...head, data: titled(schemas.of(data, "output"), `${type}.data`) }, [
    "id",
    "type",
    "at",
    "actor",
    "data",
  ]);
  const event = titled(body, `${type}.event`);
  const frame = message(summary, push("pub", object({ data: event, offset: COUNT }, ["data", "offset"])));
  return { ...frame, description: `Requires the scope \`${scope}\`.`, "x-scope": scope };
}

/** A push of an event that the gateway does not store. */
export function noticeFrame(type: string, { summary, data }: NoticeKind, schemas: Schemas): Json {
  const head = { type: { const: type }, at: { type: "string", format: "date-time" }, actor: ACTOR };
  const body = object({ ...head, data: titled(schemas.of(data, "output"), `${type}.data`) }, [
    "type",
    "at",
    "actor",
    "data",
  ]);
  const event = titled(body, `${type}.event`);
  return message(summary, push("pub", object({ data: event }, ["data"])));
}

/** A push of an ephemeral message of a client. */
export function ephemeralFrame(type: string, { summary, data }: EphemeralKind, schemas: Schemas): Json {
  const head = { type: { const: type }, at: { type: "string", format: "date-time" }, actor: ACTOR };
  const body = object({ ...head, data: titled(schemas.of(data, "output"), `${type}.data`) }, ["type", "at", "actor"]);
  const event = titled(body, `${type}.event`);
  return message(summary, push("pub", object({ data: event, info: CLIENT_INFO }, ["data"])));
}

/** The command that publishes an ephemeral message. */
export function publishFrame(prefix: string, type: string, { summary, data }: EphemeralKind, schemas: Schemas): Json {
  const body = object({ type: { const: type }, data: titled(schemas.of(data, "input"), `${type}.publish_data`) }, [
    "type",
  ]);
  const channel = { type: "string", pattern: `^${prefix}:` };
  const publish = object({ channel, data: body }, ["channel", "data"]);
  return message(summary, object({ id: ID, publish }, ["id", "publish"]), true);
}

const ACTOR = {
  ...titled(object({ id: TEXT, kind: { enum: ["human", "agent", "service"] } }, ["id", "kind"]), "actor"),
  type: ["object", "null"],
  description: "Principal that caused the event; null for the gateway itself",
};

function push(kind: string, body: Json): Json {
  return object({ push: object({ channel: TEXT, [kind]: body }, ["channel", kind]) }, ["push"]);
}

function replyFrame(method: string, properties: Json, required: readonly string[] = []): Json {
  const reply = object({ id: ID, [method]: object(properties, required) }, ["id", method]);
  return message(`Reply to \`${method}\``, reply, true);
}

function message(summary: string, payload: Json, isCorrelated = false): Json {
  return { summary, payload, ...isCorrelated ? { correlationId: CORRELATION } : {} };
}

function object(properties: Json, required: readonly string[] = []): Json {
  return { type: "object", properties, ...required.length === 0 ? {} : { required } };
}

/** An object with a title, by which generators name its model; a reference has the name of its component. */
function titled(schema: JsonSchema, name: string): JsonSchema {
  return schema["properties"] === undefined ? schema : { title: pascalCase(name), ...schema };
}
