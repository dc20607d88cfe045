// Both official clients, unmodified, in rooms: with an API token, and with an authorization that a person gave.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as Client1 } from "npm:@modelcontextprotocol/sdk@1.32.2/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "npm:@modelcontextprotocol/sdk@1.32.2/client/streamableHttp.js";
import type { Caller } from "../harness.ts";
import { createCallers, createRoom, ok, sendMessage } from "../modules/fixtures.ts";
import { type HttpServer, SdkClient, serveGateway } from "../modules/http_server.ts";
import { allow, APPLICATIONS, exchange, PUBLIC_URL, REQUESTS } from "../modules/oauth/oauth_fixture.ts";

type ToolResult = { isError?: boolean; content: { type: string; text?: string }[] };
type AnyClient = {
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  listResources(): Promise<{ resources: { uri: string; name: string }[] }>;
  readResource(of: { uri: string }): Promise<{ contents: unknown[] }>;
  listPrompts(): Promise<{ prompts: { name: string }[] }>;
  getPrompt(of: { name: string; arguments: Record<string, string> }): Promise<unknown>;
  close(): Promise<void>;
};
type Connection = { client: AnyClient; finishAuth(answer: URLSearchParams): Promise<void> };
type Auth = { token: string } | { provider: BrowserlessProvider };

const INFO = { name: "test", version: "1" };

/** Each client, by its name. `connect` may fail for lack of an authorization, and be called again. */
const CLIENTS: Readonly<Record<string, (url: URL, auth: Auth) => Connection & { connect(): Promise<void> }>> = {
  "2.x in the newest revision": (url, auth) => connection2(url, auth, { mode: { pin: "2026-07-28" } }),
  "2.x in the revision before": (url, auth) => connection2(url, auth, { mode: "legacy" }),
  "1.x"(url, auth) {
    const client = new Client1(INFO);
    const transport = new Transport1(url, optionsOf(auth) as never);
    return {
      client: client as AnyClient,
      connect: () => client.connect(transport as never),
      finishAuth: (answer) => transport.finishAuth(answer.get("code") ?? ""),
    };
  },
};

function connection2(url: URL, auth: Auth, versionNegotiation: { mode: "legacy" | { pin: string } }) {
  const client = new Client(INFO, { versionNegotiation });
  const transport = new StreamableHTTPClientTransport(url, optionsOf(auth) as never);
  return {
    client: client as AnyClient,
    connect: () => client.connect(transport),
    finishAuth: (answer: URLSearchParams) => transport.finishAuth(answer),
  };
}

function optionsOf(auth: Auth): Record<string, unknown> {
  return "token" in auth ? { requestInit: bearer(auth.token) } : { authProvider: auth.provider };
}

function bearer(token: string): RequestInit {
  return { headers: { Authorization: `Bearer ${token}` } };
}

function textOf(result: unknown): string {
  const { content, isError } = result as ToolResult;
  const text = content.map((part) => part.text).join("\n");
  assert.notEqual(isError, true, text);
  return text;
}

/** What a client does in a room, whichever it is. */
async function useRoom(client: AnyClient, roomId: string): Promise<void> {
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === "message_send"));
  assert.match(textOf(await client.callTool({ name: "room_list", arguments: {} })), new RegExp(roomId));
  const sent = textOf(await client.callTool({ name: "message_send", arguments: { roomId, text: "by a model" } }));
  assert.match(sent, /^sent msg_[0-9a-f]{32} at seq \d+$/);
  assert.match(textOf(await client.callTool({ name: "message_list", arguments: { roomId } })), /by a model/);
  const { resources } = await client.listResources();
  const uri = `gateway://room/${roomId}`;
  assert.ok(resources.some((resource) => resource.uri === uri));
  assert.match(JSON.stringify(await client.readResource({ uri })), /by a model/);
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map(({ name }) => name).toSorted(), ["catch_up", "daily_summary", "plan_tasks"]);
  const prompt = await client.getPrompt({ name: "catch_up", arguments: { roomId } });
  assert.match(JSON.stringify(prompt), new RegExp(roomId));
}

function mcpUrl(server: HttpServer): URL {
  return new URL(`${server.url.replace("ws:", "http:")}/mcp`);
}

for (const [name, open] of Object.entries(CLIENTS)) {
  Deno.test(`the official client ${name} works in rooms with an API token`, async () => {
    await using server = await serveGateway();
    const alice = await server.gateway.as("alice");
    const roomId = await createRoom(alice, []);
    const scopes = ["room.*", "message.*"];
    const { token } = ok(await alice.post("/v1/collaboration/tokens", { name: "desk", scopes }));
    const { client, connect } = open(mcpUrl(server), { token });
    await connect();
    await useRoom(client, roomId);
    await client.close();
  });

  Deno.test(`the official client ${name} gets an authorization from a person`, async () => {
    await using server = await serveGateway();
    const alice = await server.gateway.as("alice");
    const roomId = await createRoom(alice, []);
    const provider = new BrowserlessProvider(alice);
    const first = open(mcpUrl(server), { provider });
    await assert.rejects(first.connect(), /[Uu]nauthorized/);
    await first.finishAuth(provider.answer);
    await first.client.close();
    const { client, connect } = open(mcpUrl(server), { provider });
    await connect();
    await useRoom(client, roomId);
    const { items: [application] } = ok(await alice.get(APPLICATIONS));
    assert.equal(application.clientName, "Browserless");
    ok(await alice.delete(`${APPLICATIONS}/${application.id}`));
    await assert.rejects(client.callTool({ name: "room_list", arguments: {} }));
    await client.close();
  });
}

Deno.test("the newest client listens to a room until the membership ends", async () => {
  await using server = await serveGateway();
  const { gateway } = server;
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const [roomId, other] = [await createRoom(alice, ["bob"]), await createRoom(alice, [])];
  const [uri, otherUri] = [`gateway://room/${roomId}`, `gateway://room/${other}`];
  const client = new Client(INFO, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  await client.connect(new StreamableHTTPClientTransport(mcpUrl(server), { requestInit: bearer(bob.token) }));
  const updates: string[] = [];
  const updated = Promise.withResolvers<void>();
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    updates.push(params.uri);
    updated.resolve();
  });
  const subscription = await client.listen({ resourceSubscriptions: [uri, otherUri, "gateway://room/x"] });
  assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri]);
  await sendMessage(alice, other, "hidden");
  await sendMessage(alice, roomId, "seen");
  await updated.promise;
  ok(await alice.delete(`/v1/rooms/${roomId}/members/bob`));
  assert.equal(await subscription.closed, "graceful");
  await sendMessage(alice, roomId, "after the end");
  assert.deepEqual([...new Set(updates)], [uri]);
  await client.close();
});

Deno.test("a client stops listening when its authorization is revoked", async () => {
  await using server = await serveGateway();
  const { gateway } = server;
  const alice = await gateway.as("alice");
  const roomId = await createRoom(alice, []);
  const created = ok(await alice.post("/v1/collaboration/tokens", { name: "desk", scopes: ["room.*", "message.*"] }));
  const client = new Client(INFO, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  await client.connect(new StreamableHTTPClientTransport(mcpUrl(server), { requestInit: bearer(created.token) }));
  const subscription = await client.listen({ resourceSubscriptions: [`gateway://room/${roomId}`] });
  ok(await alice.delete(`/v1/collaboration/tokens/${created.id}`));
  assert.equal(await subscription.closed, "graceful");
  await client.close();
});

Deno.test("the token of an application opens no socket", async () => {
  await using server = await serveGateway({ SVC_PUBLIC_URL: PUBLIC_URL });
  const alice = await server.gateway.as("alice");
  const { access_token: token } = ok(await exchange(server.gateway, await allow(server.gateway, alice)));
  const connected = async (token: string): Promise<string> => {
    using client = new SdkClient(`${server.url}/ws`, { token });
    const end = Promise.withResolvers<string>();
    client.on("connected", () => end.resolve("connected"));
    client.on("disconnected", ({ reason }) => end.resolve(reason));
    client.connect();
    return await end.promise;
  };
  assert.equal(await connected(alice.token), "connected");
  assert.match(await connected(token), /^invalid token: /);
});

/** An OAuth client without a browser: the person decides by the two operations that the page would call. */
class BrowserlessProvider {
  readonly redirectUrl = "http://127.0.0.1:7777/callback";
  readonly clientMetadata = { client_name: "Browserless", redirect_uris: [this.redirectUrl] };
  readonly #person: Caller;
  #client: unknown;
  #tokens: unknown;
  #verifier = "";
  #discovery: unknown;
  /** What the browser returns. */
  answer = new URLSearchParams();

  constructor(person: Caller) {
    this.#person = person;
  }

  state(): string {
    return "s1";
  }

  clientInformation(): unknown {
    return this.#client;
  }

  saveClientInformation(client: unknown): void {
    this.#client = client;
  }

  tokens(): unknown {
    return this.#tokens;
  }

  saveTokens(tokens: unknown): void {
    this.#tokens = tokens;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  invalidateCredentials(): void {
    this.#tokens = undefined;
  }

  saveDiscoveryState(state: unknown): void {
    this.#discovery = state;
  }

  discoveryState(): unknown {
    return this.#discovery;
  }

  async redirectToAuthorization(url: URL): Promise<void> {
    const shown = await fetch(url, { redirect: "manual" });
    await shown.body?.cancel();
    const id = shown.headers.get("location")?.split("#/oauth?request=")[1] ?? assert.fail("No request");
    const { clientName } = ok(await this.#person.get(`${REQUESTS}/${id}`));
    assert.equal(clientName, "Browserless");
    const decided = ok(await this.#person.post(`${REQUESTS}/${id}/decision`, { decision: "allow" }));
    this.answer = new URL(decided.redirectTo).searchParams;
    assert.notEqual(this.answer.get("code"), null);
  }
}
