// The real npm `centrifuge` client, unmodified, against a running gateway.
import assert from "node:assert/strict";
import type { PublicationContext } from "npm:centrifuge@5.8.0";
import { until, WAIT_MS } from "../wait.ts";
import { openTarget, type Target, testOfParts, uniqueName } from "./target.ts";

const clientTest = testOfParts("the client of npm, unmodified");
/** The first is longer than a token takes to the gateway by far: one that has expired on the way ends the connection. */
const LIFETIMES_SECONDS = [5, 20, 60];

async function openRoom(target: Target, names: string[]) {
  const subs = names.map(uniqueName);
  const tokens = await Promise.all(subs.map((sub) => target.createPrincipal({ sub })));
  const room = await target.call(tokens[0] ?? "", "POST", "/v1/rooms", { name: "e2e", memberIds: subs.slice(1) });
  return { roomId: room.id as string, channel: `room:${room.id}`, subs, tokens };
}

function texts(publications: PublicationContext[]): string[] {
  return publications.filter(({ data }) => data.type === "message.created").map(({ data }) => data.data.message.text);
}

clientTest("two clients converse over rpc, live, in order", async (target) => {
  const { roomId, channel, subs, tokens } = await openRoom(target, ["alice", "bob"]);
  const heard = await Promise.all(tokens.map(async (token) => {
    const client = await target.connect(token);
    const subscription = client.newSubscription(channel);
    const publications: PublicationContext[] = [];
    subscription.on("publication", (context) => publications.push(context));
    subscription.subscribe();
    await subscription.ready();
    return { client, subscription, publications };
  }));
  for (let turn = 0; turn < 10; turn++) {
    const speaker = heard[turn % 2];
    const { data } = await speaker?.client.rpc("message.send", { roomId, text: `turn ${turn}` }) ?? {};
    assert.equal(data.senderId, subs[turn % 2]);
  }
  const expected = Array.from({ length: 10 }, (_, turn) => `turn ${turn}`);
  for (const { publications } of heard) {
    await until(() => texts(publications).length === 10, "ten messages");
    assert.deepEqual(texts(publications), expected);
    const offsets = publications.map(({ offset }) => offset ?? 0);
    assert.ok(offsets.every((offset, at) => at === 0 || offset === (offsets[at - 1] ?? 0) + 1), String(offsets));
  }
});

clientTest("connect tells who one is; presence, history and typing work", async (target) => {
  const { roomId, channel, subs, tokens } = await openRoom(target, ["alice", "bob"]);
  const alice = target.client({ token: tokens[0] ?? "" });
  const connected = new Promise<{ data: { principal: { id: string } } }>((resolve) =>
    alice.on("connected", (context) => resolve(context as never))
  );
  alice.connect();
  assert.equal((await connected).data.principal.id, subs[0]);
  const bob = await target.connect(tokens[1] ?? "");
  const [a, b] = [alice.newSubscription(channel), bob.newSubscription(channel)];
  const typing: PublicationContext[] = [];
  b.on("publication", (context) => typing.push(context));
  a.subscribe();
  b.subscribe();
  await Promise.all([a.ready(), b.ready()]);
  const { clients } = await a.presence();
  assert.deepEqual(Object.values(clients).map(({ user }) => user).sort(), [...subs].sort());
  assert.deepEqual(await a.presenceStats(), { numClients: 2, numUsers: 2 });
  await a.publish({ type: "typing", data: { typing: true } });
  await until(() => typing.length === 1, "typing");
  assert.equal(typing[0]?.data.type, "typing");
  assert.equal(typing[0]?.data.actor.id, subs[0]);
  assert.equal(typing[0]?.offset ?? 0, 0);
  await alice.rpc("message.send", { roomId, text: "one" });
  const { publications, offset } = await a.history({ limit: 10 });
  assert.equal(publications.at(-1)?.data.data.message.text, "one");
  assert.equal(publications.at(-1)?.offset, offset);
  await assert.rejects(
    a.publish({ type: "message.created", data: {} }),
    (error: { code: number }) => error.code === 103,
  );
});

clientTest("errors of rpc carry the HTTP status and the problem code", async (target) => {
  const client = await target.connect(await target.token({ sub: uniqueName("carol") }));
  const failure = async (method: string, data: unknown) => {
    try {
      await client.rpc(method, data);
    } catch (error) {
      return error as { code: number; message: string };
    }
    throw new Error(`${method} did not fail`);
  };
  assert.equal((await failure("room.read", { id: "room_none" })).code, 404);
  assert.match((await failure("room.read", { id: "room_none" })).message, /^not_found: /);
  assert.equal((await failure("room.create", { name: "", surprise: 1 })).code, 422);
  assert.equal((await failure("no.such", {})).code, 104);
});

clientTest("a client cut off recovers what it missed, once and in order", async (target) => {
  const { roomId, channel, tokens } = await openRoom(target, ["alice", "bob"]);
  const bob = await target.connect(tokens[1] ?? "");
  const subscription = bob.newSubscription(channel);
  const publications: PublicationContext[] = [];
  const recovered: boolean[] = [];
  subscription.on("publication", (context) => publications.push(context));
  subscription.on("subscribed", (context) => context.wasRecovering && recovered.push(context.recovered));
  subscription.subscribe();
  await subscription.ready();
  for (let round = 0; round < 3; round++) {
    await target.call(tokens[0] ?? "", "POST", "/v1/messages", { roomId, text: `live ${round}` });
    await until(() => texts(publications).includes(`live ${round}`), "live message");
    bob.disconnect();
    for (let missed = 0; missed < 20; missed++) {
      await target.call(tokens[0] ?? "", "POST", "/v1/messages", { roomId, text: `missed ${round}.${missed}` });
    }
    bob.connect();
    await until(() => texts(publications).includes(`missed ${round}.19`), "recovery");
  }
  assert.deepEqual(recovered, [true, true, true]);
  const expected = [0, 1, 2].flatMap((round) => [
    `live ${round}`,
    ...Array.from({ length: 20 }, (_, missed) => `missed ${round}.${missed}`),
  ]);
  assert.deepEqual(texts(publications), expected);
});

clientTest("a token is refreshed in band, and an expired one sends the client for a new one", async (target) => {
  const sub = uniqueName("dave");
  let isShown = false;
  for (const ttlSeconds of LIFETIMES_SECONDS) isShown ||= await refreshTwice(target, sub, ttlSeconds);
  assert.ok(isShown, "a token in time is accepted");
  const late = target.client({
    token: await target.token({ sub, ttlSeconds: -10 }),
    getToken: () => target.token({ sub }),
  });
  late.connect();
  await late.ready();
});

/** Resolves to whether that was in band; each token may only be too late if it took as long as it is valid. */
async function refreshTwice(target: Target, sub: string, ttlSeconds: number): Promise<boolean> {
  let asked = 0;
  let askedAt = 0;
  const client = target.client({
    getToken: () => {
      asked++;
      askedAt = performance.now();
      return target.token({ sub, ttlSeconds });
    },
  });
  const states: string[] = [];
  let lateMs = 0;
  client.on("state", ({ newState }) => {
    states.push(newState);
    if (states.length === 3) lateMs = performance.now() - askedAt;
  });
  client.connect();
  await client.ready();
  await until(() => asked >= 3 || states.length > 2, "two refreshes", WAIT_MS + 2000 * ttlSeconds);
  client.disconnect();
  const isInBand = states[2] === "disconnected";
  // What is signed has whole seconds.
  assert.ok(isInBand || lateMs > 1000 * (ttlSeconds - 1), `closed ${lateMs} ms after a token was asked for`);
  return isInBand;
}

clientTest("a member removed stops hearing at once; a stranger never hears", async (target) => {
  const { roomId, channel, subs, tokens } = await openRoom(target, ["alice", "bob"]);
  const bob = await target.connect(tokens[1] ?? "");
  const subscription = bob.newSubscription(channel);
  const publications: PublicationContext[] = [];
  const ended = new Promise<number>((resolve) => subscription.on("unsubscribed", ({ code }) => resolve(code)));
  subscription.on("publication", (context) => publications.push(context));
  subscription.subscribe();
  await subscription.ready();
  const own: string[] = [];
  bob.on("publication", ({ data }) => own.push(data.type));
  const sends = Array.from(
    { length: 50 },
    (_, at) => target.call(tokens[0] ?? "", "POST", "/v1/messages", { roomId, text: `before or after ${at}` }),
  );
  const [removal] = [target.call(tokens[0] ?? "", "DELETE", `/v1/rooms/${roomId}/members/${subs[1]}`)];
  await Promise.all([...sends, removal]);
  assert.equal(await ended, 2000);
  const count = publications.length;
  await target.call(tokens[0] ?? "", "POST", "/v1/messages", { roomId, text: "secret" });
  await until(() => own.includes("member.left"), "member.left on the principal's own stream");
  assert.equal(publications.length, count);
  assert.ok(!texts(publications).includes("secret"));

  const stranger = (await target.connect(await target.token({ sub: uniqueName("eve") }))).newSubscription(channel);
  const refused = new Promise<number>((resolve) => stranger.on("unsubscribed", ({ code }) => resolve(code)));
  stranger.subscribe();
  assert.equal(await refused, 103);
});

clientTest("the legacy token in the URL works and is called deprecated", async (target) => {
  const token = await target.token({ sub: uniqueName("frank") });
  const before = await legacyCount(target);
  const client = target.client({}, `${target.wsUrl}?token=${token}`);
  const connected = new Promise<{ data: { deprecations: unknown[] } }>((resolve) =>
    client.on("connected", (context) => resolve(context as never))
  );
  client.connect();
  assert.match(JSON.stringify((await connected).data.deprecations), /legacy_query_token/);
  client.disconnect();
  assert.equal(await legacyCount(target), before + 1);
});

Deno.test("the legacy token in the URL can be switched off", async () => {
  await using target = await openTarget({ isOwn: true, environment: { SVC_LEGACY_QUERY_TOKEN: "off" } });
  const token = await target.token({ sub: uniqueName("frank") });
  const legacy = target.client({}, `${target.wsUrl}?token=${token}`);
  const refused = new Promise<number>((resolve) => legacy.on("disconnected", ({ code }) => resolve(code)));
  legacy.connect();
  assert.ok([3500, 101, 1].includes(await refused));
  assert.equal(await legacyCount(target), 0);
});

clientTest("revoking an API token closes its sockets for good", async (target) => {
  const token = await target.token({ sub: uniqueName("grace") });
  const minted = await target.call(token, "POST", "/v1/collaboration/tokens", { name: "bot", scopes: ["*"] });
  const client = await target.connect(minted.token as string);
  const closed = new Promise<number>((resolve) => client.on("disconnected", ({ code }) => resolve(code)));
  await target.call(token, "DELETE", `/v1/collaboration/tokens/${minted.id}`);
  assert.equal(await closed, 3503);
});

async function legacyCount(target: Target): Promise<number> {
  const text = await (await fetch(`${target.baseUrl}/metrics`)).text();
  return Number(/svc_connection_errors\{type="legacy_query_token"\} (\d+)/.exec(text)?.[1] ?? 0);
}
