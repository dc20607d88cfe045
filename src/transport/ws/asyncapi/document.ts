// `/asyncapi.json`: AsyncAPI 3.0 of `/ws`, generated at first use from the definitions that serve it.
import { runInSlices, type Steps } from "@/core/caller.ts";
import type { ChannelKind } from "@/core/event/channel.ts";
import { appearsOn, type EventType } from "@/core/event/event.ts";
import { EVENT_VALUE_MAX_CHARS } from "@/core/event/event_data.ts";
import type { Module } from "@/core/module.ts";
import { nounOf } from "@/core/operation.ts";
import type { Route } from "@/core/http/route.ts";
import { describeCall } from "../../shared/call_description.ts";
import { pascalCase, Schemas, titleParts } from "../../shared/json_schema.ts";
import type { WsLimits } from "../../shared/socket_limits.ts";
import { assetRoute, StaticAsset } from "../../shared/static_asset.ts";
import {
  commandFrame,
  COMMANDS,
  ephemeralFrame,
  errorFrame,
  eventFrame,
  type Json,
  noticeFrame,
  publishFrame,
  pushFrames,
  rpcFrames,
} from "./frame.ts";
import { rateAdvice, tablesOf } from "./table.ts";

/** The source of the document; read when the document is generated. */
export type AsyncDocumentSource = { modules: readonly Module[]; version: string; limits: WsLimits };

const DESCRIPTION =
  `The Centrifuge client protocol, version 2, described in its JSON encoding. Existing Centrifuge clients work unchanged.

A text frame contains one or more JSON objects, separated by newlines. The first command is \`connect\` with the access
token. A reply has the \`id\` of its command. \`{}\` is a ping; its reply is \`{}\`. Stored events have an \`offset\` that
increases by exactly 1 within a channel. To recover after a disconnect, subscribe with the last \`offset\` seen and its
\`epoch\`: if \`recovered\` is set, all missed events arrive with the reply or right after it; otherwise read the state again.
Ignore unknown fields and event types.

Events describe changes. A created resource is sent in full; a changed one has the new values of its changed fields in
\`changes\`: apply them to the local copy, and ignore changes of resources that are not cached. Values longer than
${EVENT_VALUE_MAX_CHARS} characters are left out, except texts of messages: \`omitted\` names these fields, to be read over HTTP when
they are needed. Calendar events have the fields that lists have.

The same operations are available over HTTP, including responses too long for a socket (error 413): \`/openapi.json\`.

Clients that request the subprotocol \`centrifuge-protobuf\` get the same messages as protobuf in binary frames, with JSON
text as \`data\`; it is empty where a reply has none.`;

const PRINCIPAL = {
  prefix: "principal",
  summary: "Events of the caller itself, on all its connections; the server subscribes it when a connection " +
    "authenticates",
  isDurable: true,
  presenceMax: 0,
  ephemeral: {},
};

/** The address of channels that are the connection itself. */
export const SOCKET_ADDRESS = "/ws";

/** The document, as text. */
export function* asyncapiDocument({ modules, version, limits }: AsyncDocumentSource): Steps<string> {
  const document = new Document();
  document.addSocket();
  const events = modules.flatMap((module) => module.events ?? []);
  yield* document.addChannel(PRINCIPAL, events);
  for (const kind of modules.flatMap((module) => module.channels ?? [])) yield* document.addChannel(kind, events);
  for (const operation of modules.flatMap((module) => module.operations)) {
    const { request, reply } = rpcFrames(operation, document.schemas);
    const noun = nounOf(operation.name);
    document.addCall(document.callChannel(noun), operation.name, request, reply, {
      summary: operation.summary,
      description: describeCall(operation),
      tags: [{ name: noun }],
      "x-access": operation.access,
    });
    yield;
  }
  return document.serialize(version, limits);
}

/** The route that serves the document. */
export function asyncapiRoute(source: AsyncDocumentSource): Route {
  const asset = new StaticAsset("application/json", () => runInSlices(asyncapiDocument(source)));
  return assetRoute({
    name: "asyncapi.get",
    summary: "Get the AsyncAPI document of `/ws`",
    path: "/asyncapi.json",
    description: "AsyncAPI 3.0 document of the gateway",
  }, asset);
}

/** Builds the document. */
class Document {
  readonly schemas = new Schemas("draft-7");
  readonly #channels: Record<string, Json> = {};
  readonly #operations: Record<string, Json> = {};
  readonly #messages: Record<string, Json> = {};

  /** Adds the socket: commands of the connection, and their replies. */
  addSocket(): void {
    this.#channels["socket"] = {
      address: SOCKET_ADDRESS,
      title: "The WebSocket connection",
      description: "Commands and their replies; every other channel is multiplexed over this connection.",
      messages: {},
    };
    this.#message("socket", "error", errorFrame());
    for (const [method, { reply, ...described }] of Object.entries(COMMANDS)) {
      const request = commandFrame(method, this.schemas);
      this.addCall("socket", method, request, reply, { ...described, tags: [{ name: "protocol" }] });
    }
    for (const [name, frame] of Object.entries(pushFrames())) this.#message("socket", name, frame);
    this.#operation("push", "send", "socket", Object.keys(pushFrames()), {
      summary: "Pushes that are not events",
      description: "Of a channel with subscribers that come and go, or of a subscription that the server ends.",
    });
  }

  /**
   * The channel of the operations on a noun, added if it is new. Parsers copy a channel to each reference to it, so one channel
   * with all operations takes them minutes.
   */
  callChannel(noun: string): string {
    const channel = `rpc.${noun}`;
    this.#channels[channel] ??= {
      address: SOCKET_ADDRESS,
      title: `Calls of \`${noun}\``,
      description: "The command `rpc` with these methods, over the same connection as all channels.",
      messages: { error: { $ref: "#/components/messages/socket.error" } },
    };
    return channel;
  }

  /** Adds a command with its reply to a channel that has the message `error`. */
  addCall(channel: string, name: string, request: Json, reply: Json, properties: Json): void {
    this.#message(channel, name, request);
    this.#message(channel, `${name}.reply`, reply);
    this.#operation(name, "receive", channel, [name], {
      ...properties,
      reply: {
        channel: { $ref: `#/channels/${channel}` },
        messages: [`${name}.reply`, "error"].map((message) => reference(channel, message)),
      },
    });
  }

  /** Adds a channel kind: what it delivers, and what may be published to it. */
  *addChannel(
    kind: Pick<ChannelKind, "prefix" | "summary" | "isDurable" | "ephemeral" | "notices" | "presenceMax">,
    events: readonly EventType[],
  ): Steps {
    const { prefix, isDurable, ephemeral, notices = {}, presenceMax } = kind;
    const parameter = `${prefix}Id`;
    const description = isDurable ? "Stored in the event log: recoverable." : "Not stored.";
    this.#channels[prefix] = {
      address: `${prefix}:{${parameter}}`,
      title: kind.summary,
      description,
      "x-presence-max": presenceMax,
      parameters: { [parameter]: { description: `Id of the ${prefix}` } },
      messages: {},
    };
    const delivered: string[] = [];
    for (const event of isDurable ? events.filter((type) => appearsOn(type, prefix)) : []) {
      delivered.push(this.#message(prefix, event.type, eventFrame(event, this.schemas)));
      yield;
    }
    for (const [type, one] of Object.entries(notices)) {
      delivered.push(this.#message(prefix, type, noticeFrame(type, one, this.schemas)));
    }
    for (const [type, one] of Object.entries(ephemeral)) {
      delivered.push(this.#message(prefix, type, ephemeralFrame(type, one, this.schemas)));
      const published = this.#message(prefix, `${type}.publish`, publishFrame(prefix, type, one, this.schemas));
      this.#operation(`${prefix}.${type}`, "receive", prefix, [published], {
        summary: one.summary,
        description: `Delivered to all subscribers of the channel as \`${type}\`, and not stored.`,
        reply: {
          channel: { $ref: "#/channels/socket" },
          messages: [reference("socket", "publish.reply"), reference("socket", "error")],
        },
      });
    }
    if (delivered.length > 0) {
      this.#operation(`${prefix}.deliver`, "send", prefix, delivered, { summary: kind.summary, description });
    }
  }

  serialize(version: string, limits: WsLimits): string {
    const tagged = Object.values(this.#operations) as { tags?: { name: string }[] }[]; // as they are added above
    const tags = new Set(tagged.flatMap(({ tags = [] }) => tags.map(({ name }) => name)));
    return this.schemas.serialize({
      asyncapi: "3.0.0",
      info: {
        title: "Collaboration Gateway realtime API",
        version,
        description: `${DESCRIPTION}\n\n${rateAdvice(limits)}`,
        license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
        tags: [...tags].map((name) => ({ name })),
      },
      defaultContentType: "application/json",
      ...tablesOf(limits),
      servers: {
        gateway: {
          host: "{host}",
          protocol: "ws",
          description: "`wss` behind TLS",
          variables: { host: { default: "localhost:8080" } },
          security: [{ $ref: "#/components/securitySchemes/bearer" }],
        },
      },
      channels: this.#channels,
      operations: this.#operations,
      components: {
        messages: this.#messages,
        securitySchemes: {
          bearer: {
            type: "http",
            scheme: "bearer",
            bearerFormat: "JWT",
            description: "Sent as `token` of the `connect` command, not as a header",
          },
        },
        schemas: {},
      },
    });
  }

  #operation(
    name: string,
    action: "send" | "receive",
    channel: string,
    messages: readonly string[],
    properties: Json,
  ): void {
    this.#operations[name] = {
      action,
      channel: { $ref: `#/channels/${channel}` },
      ...properties,
      messages: messages.map((message) => reference(channel, message)),
    };
  }

  /** Adds a message to a channel, as a component named after both. */
  #message(channel: string, name: string, message: Json): string {
    const key = `${channel}.${name}`;
    // Calls are named after their operation alone.
    const title = pascalCase(
      `${this.#channels[channel]?.["address"] === SOCKET_ADDRESS ? "" : `${channel}.`}${name}.frame`,
    );
    const payload = message["payload"] as Json; // every frame has one
    payload["title"] = title;
    titleParts(payload, title);
    this.#messages[key] = { name, ...message };
    const messages = this.#channels[channel]?.["messages"] as Json; // every channel is created with `messages`
    messages[name] = { $ref: `#/components/messages/${key}` };
    return name;
  }
}

function reference(channel: string, message: string): Json {
  return { $ref: `#/channels/${channel}/messages/${message}` };
}
