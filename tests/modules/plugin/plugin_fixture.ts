// Plugins of tests: one behind HTTP that a test scripts, and one that is connected to `/ws`.
import type { Caller, Harness } from "../../harness.ts";
import { FakeSocket, sendCommand } from "../../transport/ws_harness.ts";
import { ok } from "../fixtures.ts";

export const PLUGINS = "/v1/collaboration/plugins";
/** Plugins of tests are on this machine. */
export const ALLOW = { SVC_OUTBOUND_ALLOW: "127.0.0.1" };

// deno-lint-ignore no-explicit-any -- data of every shape
type Data = any;
type ReceivedCall = { type: string; id: string; data: Data; headers: Headers; body: string };
type Answer = Response | Record<string, unknown>;

/** An HTTP server of a plugin. */
export class PluginServer implements AsyncDisposable {
  readonly calls: ReceivedCall[] = [];
  respond: (call: ReceivedCall) => Answer | Promise<Answer> = () => ({ kind: "ephemeral", text: "Done" });
  readonly #ended = Promise.withResolvers<void>();
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    this.#server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
      const body = await request.text();
      const { type, id = "", data } = JSON.parse(body);
      const call = { type, id, data, headers: request.headers, body };
      this.calls.push(call);
      const answer = await this.respond(call);
      return answer instanceof Response ? answer : Response.json(answer);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/`;
  }

  /** A response that does not come while the server runs. */
  async hang(): Promise<Response> {
    await this.#ended.promise;
    return new Response();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.resolve();
    await this.#server.shutdown();
  }
}

/** A filter that refuses what is forbidden, and masks numbers. */
export function refuseOrMask({ data: { text } }: Pick<ReceivedCall, "data">): Answer {
  if (text.includes("forbidden")) return { kind: "refuse", reason: "Not here" };
  return text.includes("4111") ? { kind: "replace", text: text.replaceAll("4111", "****") } : { kind: "pass" };
}

export function manifestOf(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: "org.example.poll",
    name: "Polls",
    version: "1.0.0",
    apiVersion: 1,
    transport: "socket",
    scopes: ["command.read", "message.write"],
    commands: [{ name: "poll", description: "Ask the room something" }],
    actions: ["vote-*"],
    ...more,
  };
}

type Installed = { id: string; principalId: string; token: string; secret: string | null };

/** Installs a plugin with all scopes that it asks for, enables it and adds it to rooms. */
export async function installPlugin(
  admin: Caller,
  manifest: Record<string, unknown>,
  rooms: [owner: Caller, roomId: string][] = [],
): Promise<Installed> {
  const { token, secret, ...plugin } = ok(await admin.post(PLUGINS, { manifest }));
  ok(await admin.post(`${PLUGINS}/${plugin.id}/grant`, { scopes: manifest["scopes"] }));
  ok(await admin.post(`${PLUGINS}/${plugin.id}/enable`));
  for (const [owner, roomId] of rooms) {
    ok(await owner.put(`/v1/rooms/${roomId}/members/${plugin.principalId}`, { role: "member" }));
  }
  return { id: plugin.id, principalId: plugin.principalId, token, secret };
}

/** A plugin that is connected to `/ws` and subscribed to its channel. */
export class PluginSocket {
  readonly socket = new FakeSocket();
  readonly #peer;
  #nextId = 1;

  constructor(gateway: Harness) {
    this.#peer = { socket: this.socket, connection: gateway.app.hub.open(this.socket, { ip: "127.0.0.1" }) };
  }

  /** Connects and subscribes; `recover` continues after a position. */
  async connect({ id, token }: Installed, recover?: { offset: number; epoch: string }): Promise<Data> {
    await this.#command({ connect: { token } });
    const recovery = recover === undefined ? {} : { recover: true, ...recover };
    return (await this.#command({ subscribe: { channel: `plugin:${id}`, ...recovery } })).subscribe;
  }

  rpc(method: string, data: unknown): Promise<Data> {
    return this.#command({ rpc: { method, data } });
  }

  /** Calls that have arrived, in order. */
  get calls(): { id: string; call: string; data: Data }[] {
    return this.socket.messages.flatMap(({ push }) => push?.pub === undefined ? [] : [push.pub.data.data]);
  }

  #command(command: Record<string, unknown>): Promise<Data> {
    return sendCommand(this.#peer, this.#nextId++, command);
  }
}
