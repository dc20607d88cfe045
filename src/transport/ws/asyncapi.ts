// `/asyncapi.json`: AsyncAPI 3.0 of `/ws` from the very values that serve it, made once when first asked for.
import type { ChannelKind } from "@/core/channel.ts";
import { appearsOn, type EventType } from "@/core/event.ts";
import type { Module } from "@/core/module.ts";
import type { Route } from "@/core/route.ts";
import { Asset, ASSET_PARAMETERS, ASSET_RESPONSES } from "../http/asset.ts";
import { Schemas } from "../http/openapi_schema.ts";
import { commandFrame, COMMANDS, errorFrame, pushFrames, rpcFrames } from "./asyncapi_frame.ts";
import { ephemeralFrame, eventFrame, type Json, publishFrame } from "./asyncapi_frame.ts";

/** What the document is made from; read when the document is made. */
export type AsyncDocumentSource = { modules: readonly Module[]; version: string };

const DESCRIPTION =
  `The Centrifuge client protocol, v2, described in its JSON flavour: existing Centrifuge clients work as they are.

One text frame carries one or more JSON objects, separated by newlines. The first command is \`connect\` with the access
token; a reply has the \`id\` of its command. \`{}\` is a ping, answered with \`{}\`. Events of the log have an \`offset\` that
grows by exactly 1 within a channel: resubscribe with the last one seen and its \`epoch\`, and everything missed comes with
the reply or right after it, or \`recovered\` is absent and the state is to be read again. Unknown fields and event types are
to be ignored. The same operations over HTTP, for answers too long for a socket (error 413) as well: \`/openapi.json\`.

Who asks for the subprotocol \`centrifuge-protobuf\` gets the same messages as protobuf in binary frames, with JSON text as \`data\`.`;

const PRINCIPAL = {
  prefix: "principal",
  summary:
    "What concerns me, on all my devices: subscribed by the server when connecting; silent for tokens without the " +
    "scopes `room.read` and `message.read`",
  isDurable: true,
  ephemeral: {},
};

/** The document, as text. */
function asyncapiDocument({ modules, version }: AsyncDocumentSource): string {
  const document = new Document();
  document.addSocket();
  const events = modules.flatMap((module) => module.events ?? []);
  document.addChannel(PRINCIPAL, events);
  for (const kind of modules.flatMap((module) => module.channels ?? [])) document.addChannel(kind, events);
  for (const operation of modules.flatMap((module) => module.operations)) {
    const { request, reply } = rpcFrames(operation, document.schemas);
    const tags = [{ name: operation.name.slice(0, operation.name.indexOf(".")) }];
    document.addCall(operation.name, request, reply, {
      summary: operation.summary,
      tags,
      "x-access": operation.access,
    });
  }
  return document.seal(version);
}

/** The route that serves the document. */
export function asyncapiRoute(source: AsyncDocumentSource): Route {
  const asset = new Asset("application/json", () => asyncapiDocument(source));
  return {
    name: "asyncapi.get",
    summary: "The document of `/ws`",
    tag: "operation",
    method: "GET",
    path: "/asyncapi.json",
    auth: "public",
    document: {
      parameters: ASSET_PARAMETERS,
      responses: {
        200: {
          description: "AsyncAPI 3.0 document of the gateway",
          content: { "application/json": { schema: { type: "object" } } },
        },
        ...ASSET_RESPONSES,
      },
    },
    handle: (request) => asset.answer(request),
  };
}

/** The document while it is put together. */
class Document {
  readonly schemas = new Schemas("draft-7");
  readonly #channels: Record<string, Json> = {};
  readonly #operations: Record<string, Json> = {};
  readonly #messages: Record<string, Json> = {};

  /** The socket itself: commands that are about the connection, and what answers all of them. */
  addSocket(): void {
    this.#channels["socket"] = {
      address: "/ws",
      title: "The socket",
      description: "Commands and their replies; every other channel is a stream within the socket.",
      messages: {},
    };
    this.#message("socket", "error", errorFrame());
    for (const [method, { summary, reply }] of Object.entries(COMMANDS)) {
      this.addCall(method, commandFrame(method, this.schemas), reply, { summary, tags: [{ name: "protocol" }] });
    }
    for (const [name, frame] of Object.entries(pushFrames())) this.#message("socket", name, frame);
    this.#operation("push", "send", "socket", Object.keys(pushFrames()), { summary: "Pushes that belong to no event" });
  }

  /** A command with its reply. */
  addCall(name: string, request: Json, reply: Json, facts: Json): void {
    this.#message("socket", name, request);
    this.#message("socket", `${name}.reply`, reply);
    this.#operation(name, "receive", "socket", [name], {
      ...facts,
      reply: {
        channel: { $ref: "#/channels/socket" },
        messages: [`${name}.reply`, "error"].map((message) => reference("socket", message)),
      },
    });
  }

  /** A kind of channel: what is heard on it, and what may be published on it. */
  addChannel(
    kind: Pick<ChannelKind, "prefix" | "summary" | "isDurable" | "ephemeral">,
    events: readonly EventType[],
  ): void {
    const { prefix, isDurable, ephemeral } = kind;
    const parameter = `${prefix}Id`;
    this.#channels[prefix] = {
      address: `${prefix}:{${parameter}}`,
      title: kind.summary,
      description: isDurable ? "Backed by the log: recoverable." : "Nothing here is kept.",
      parameters: { [parameter]: { description: `Id of the ${prefix}` } },
      messages: {},
    };
    const heard: string[] = [];
    for (const event of isDurable ? events.filter((type) => appearsOn(type, prefix)) : []) {
      heard.push(this.#message(prefix, event.type, eventFrame(event, this.schemas)));
    }
    for (const [type, one] of Object.entries(ephemeral)) {
      heard.push(this.#message(prefix, type, ephemeralFrame(type, one, this.schemas)));
      const published = this.#message(prefix, `${type}.publish`, publishFrame(prefix, type, one, this.schemas));
      this.#operation(`${prefix}.${type}`, "receive", prefix, [published], {
        summary: one.summary,
        reply: {
          channel: { $ref: "#/channels/socket" },
          messages: [reference("socket", "publish.reply"), reference("socket", "error")],
        },
      });
    }
    if (heard.length > 0) this.#operation(`${prefix}.hear`, "send", prefix, heard, { summary: kind.summary });
  }

  seal(version: string): string {
    return this.schemas.seal({
      asyncapi: "3.0.0",
      info: {
        title: "Collaboration Gateway realtime API",
        version,
        description: DESCRIPTION,
        license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
      },
      defaultContentType: "application/json",
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
    facts: Json,
  ): void {
    this.#operations[name] = {
      action,
      channel: { $ref: `#/channels/${channel}` },
      ...facts,
      messages: messages.map((message) => reference(channel, message)),
    };
  }

  /** Adds a message to a channel; kept once in the components, under the name it has there. */
  #message(channel: string, name: string, message: Json): string {
    const key = `${channel}.${name}`;
    this.#messages[key] = { name, ...message };
    const messages = this.#channels[channel]?.["messages"] as Json; // every channel starts with some
    messages[name] = { $ref: `#/components/messages/${key}` };
    return name;
  }
}

function reference(channel: string, message: string): Json {
  return { $ref: `#/channels/${channel}/messages/${message}` };
}
