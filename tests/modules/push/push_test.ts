// Web Push: what push services get when a person is notified, read as a browser reads it.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createDecipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from "node:crypto";
import { decodeProtectedHeader, importJWK, jwtVerify } from "jose";
import { DAY_MS } from "@/core/time/clock.ts";
import type { Outbound } from "@/ports/outbound.ts";
import { testOnEngines } from "../../engines.ts";
import { type Caller, type Claims, type Harness, openGateway } from "../../harness.ts";
import { until } from "../../wait.ts";
import { assertProblem, createCaller, createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const PATH = "/v1/collaboration/push-subscriptions";
const CONTACT = "mailto:ops@example.com";

/** A push service that records what it is sent, and responds with `status`. */
class PushService {
  readonly sent: { url: string; headers: Headers; body: Uint8Array }[] = [];
  status = 201;

  readonly outbound: Outbound = Object.assign(
    (url: string | URL, init: Parameters<Outbound>[1] = {}) => {
      this.sent.push({ url: `${url}`, headers: new Headers(init.headers ?? {}), body: init.body as Uint8Array });
      return Promise.resolve(new Response(null, { status: this.status }));
    },
    { assertAllowed: () => {} },
  );

  open(environment: Record<string, string> = {}): Promise<Harness> {
    return openGateway({ SVC_PUSH_CONTACT: CONTACT, ...environment }, { createOutbound: () => this.outbound });
  }
}

/** What a browser has of a subscription. */
class Browser {
  readonly endpoint: string;
  readonly #keys: ECDH = createECDH("prime256v1");
  readonly #auth = randomBytes(16);

  constructor(name: string) {
    this.endpoint = `https://updates.push.services.mozilla.com/wpush/v2/${name}`;
    this.#keys.generateKeys();
  }

  get subscription() {
    const keys = { p256dh: this.#keys.getPublicKey("base64url"), auth: this.#auth.toString("base64url") };
    return { name: "Firefox on Linux", endpoint: this.endpoint, keys };
  }

  /** Decrypts one record as RFC 8188 and RFC 8291 say. */
  // deno-lint-ignore no-explicit-any -- as in the harness: JSON of every shape
  read(bytes: Uint8Array): any {
    const body = Buffer.from(bytes);
    const salt = body.subarray(0, 16);
    const senderKey = body.subarray(21, 21 + 65);
    const cipher = body.subarray(21 + 65);
    const shared = this.#keys.computeSecret(senderKey);
    const info = Buffer.concat([Buffer.from("WebPush: info\0"), this.#keys.getPublicKey(), senderKey]);
    const secret = Buffer.from(hkdfSync("sha256", shared, this.#auth, info, 32));
    const key = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: aes128gcm\0", 16));
    const nonce = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: nonce\0", 12));
    const decipher = createDecipheriv("aes-128-gcm", key, nonce).setAuthTag(cipher.subarray(-16));
    const padded = Buffer.concat([decipher.update(cipher.subarray(0, -16)), decipher.final()]);
    return JSON.parse(padded.subarray(0, padded.lastIndexOf(2)).toString());
  }
}

async function subscribe(who: Caller, browser: Browser): Promise<string> {
  return ok(await who.post(PATH, browser.subscription)).id;
}

/** Runs what is to be pushed until `isDone`. */
async function pushUntil(gateway: Harness, isDone: () => boolean | Promise<boolean>): Promise<void> {
  await until(async () => {
    gateway.clock.advance(2000);
    await gateway.runJobs();
    return await isDone();
  }, "what is to be pushed");
}

async function namesOf(who: Caller): Promise<string[]> {
  return ok(await who.get(PATH)).items.map(({ name }: { name: string }) => name);
}

testOnEngines(
  "a mention reaches each browser of a person, encrypted for it and signed for its push service",
  async (environment) => {
    const service = new PushService();
    await using gateway = await service.open(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const roomId = await createRoom(alice, ["bob"]);
    const { modules } = ok(await bob.get("/v1/collaboration/capabilities"));
    const [laptop, phone] = [new Browser("laptop"), new Browser("phone")];
    await subscribe(bob, laptop);
    await subscribe(bob, phone);
    const { id } = await sendMessage(alice, roomId, "**bob**, please", { mentions: { principalIds: ["bob"] } });
    await pushUntil(gateway, () => service.sent.length >= 2);

    assert.deepEqual(service.sent.map(({ url }) => url).sort(), [laptop.endpoint, phone.endpoint]);
    for (const browser of [laptop, phone]) {
      const { body, headers } = service.sent.find(({ url }) => url === browser.endpoint) ?? assert.fail("Not sent");
      const { notification, actorName, moreCount, unreadCount } = browser.read(body);
      assert.equal(notification.messageId, id);
      assert.deepEqual([notification.kind, notification.preview], ["mention", "**bob**, please"]);
      // The invitation to the room was there before the browser.
      assert.deepEqual([actorName, moreCount, unreadCount], ["alice", 0, 2]);
      assert.equal(headers.get("content-encoding"), "aes128gcm");
      const [, token = "", key = ""] = /^vapid t=(\S+),\s*k=(\S+)$/.exec(headers.get("authorization") ?? "") ?? [];
      assert.equal(key, modules.push.publicKey);
      const point = Buffer.from(key, "base64url");
      const [x, y] = [point.toString("base64url", 1, 33), point.toString("base64url", 33)];
      const { payload } = await jwtVerify(token, await importJWK({ kty: "EC", crv: "P-256", x, y }, "ES256"), {
        currentDate: new Date(),
        audience: "https://updates.push.services.mozilla.com",
      });
      assert.deepEqual([payload.sub, decodeProtectedHeader(token).alg], [CONTACT, "ES256"]);
    }
    await gateway.runJobs();
    assert.equal(service.sent.length, 2);
  },
);

Deno.test("what is read at once is not pushed, and of several only the newest, with the number of the others", async () => {
  const service = new PushService();
  await using gateway = await service.open();
  const { alice, bob, carol } = await createCallers(gateway, "alice", "bob", "carol");
  const roomId = await createRoom(alice, ["bob", "carol"]);
  const [browser, other] = [new Browser("bob"), new Browser("carol")];
  await subscribe(bob, browser);
  await subscribe(carol, other);
  const mentions = { principalIds: ["bob", "carol"] };
  await sendMessage(alice, roomId, "one", { mentions });
  await sendMessage(alice, roomId, "two", { mentions });
  await gateway.runJobs();
  ok(await carol.post("/v1/collaboration/notifications/read", {}));
  await pushUntil(gateway, () => service.sent.length > 0);
  await gateway.runJobs();
  const [only, ...more] = service.sent;
  assert.deepEqual([only?.url, more.length], [browser.endpoint, 0]);
  const { notification, moreCount } = browser.read(only?.body ?? assert.fail("Not sent"));
  assert.deepEqual([notification.preview, moreCount], ["two", 1]);
});

Deno.test("a push has what the token of its subscription may read when it is sent", async () => {
  const service = new PushService();
  await using gateway = await service.open();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const narrow = async (scope: string): Promise<Caller> => await gateway.as("bob", { scope });
  const browser = new Browser("bob");
  assertProblem(await (await narrow("notification.write")).post(PATH, browser.subscription), 403, "scope_missing");
  await subscribe(await narrow("notification.read notification.write"), browser);
  await sendMessage(alice, roomId, "a secret", { mentions: { principalIds: ["bob"] } });
  await pushUntil(gateway, () => service.sent.length > 0);
  assert.equal(browser.read(service.sent[0]?.body ?? assert.fail("Not sent")).notification.preview, null);
  await subscribe(bob, browser);
  await sendMessage(alice, roomId, "more of it", { mentions: { principalIds: ["bob"] } });
  await pushUntil(gateway, () => service.sent.length > 1);
  assert.equal(browser.read(service.sent[1]?.body ?? assert.fail("Not sent")).notification.preview, "more of it");
});

Deno.test("subscriptions end with the token that made them, with their person, and when the push service forgot them", async () => {
  const service = new PushService();
  await using gateway = await service.open();
  const admin = await createCaller(gateway, "ada", { role: "admin" });
  const { alice, bob, carol, dan } = await createCallers(gateway, "alice", "bob", "carol", "dan");
  const roomId = await createRoom(alice, ["bob", "carol", "dan"]);
  const claims: Claims = { jti: "a-session" };
  await subscribe(await gateway.as("bob", claims), new Browser("bob"));
  await subscribe(carol, new Browser("carol"));
  await subscribe(dan, new Browser("dan"));
  assert.equal((await namesOf(bob)).length, 1);
  ok(await (await gateway.as("bob", claims)).post("/v1/collaboration/auth/logout", {}));
  await gateway.runJobs();
  assert.deepEqual(await namesOf(bob), []);

  service.status = 410;
  await sendMessage(alice, roomId, "all of you", { mentions: { principalIds: ["bob", "carol", "dan"] } });
  ok(await admin.patch("/v1/collaboration/principals/carol", { disabled: true }, { "If-Match": "*" }));
  await pushUntil(gateway, () => service.sent.length > 0);
  await gateway.runJobs();
  assert.deepEqual(service.sent.map(({ url }) => url), [new Browser("dan").endpoint]);
  assert.deepEqual(await namesOf(dan), []);
});

testOnEngines(
  "an endpoint belongs to who subscribed it last, and what nobody renews is deleted",
  async (environment) => {
    const service = new PushService();
    await using gateway = await service.open(environment);
    const { alice, bob } = await createCallers(gateway, "alice", "bob");
    const browser = new Browser("shared");
    const id = await subscribe(alice, browser);
    assert.equal(await subscribe(alice, browser), id);
    assert.equal(await subscribe(bob, browser), id);
    assert.deepEqual([(await namesOf(alice)).length, (await namesOf(bob)).length], [0, 1]);
    assertProblem(await alice.delete(`${PATH}/${id}`), 404, "not_found");
    ok(await bob.delete(`${PATH}/${id}`));
    assert.deepEqual(await namesOf(bob), []);

    for (let count = 0; count < 21; count++) {
      gateway.clock.advance(1);
      await subscribe(alice, new Browser(`${count}`));
    }
    const { items } = ok(await alice.get(PATH));
    assert.deepEqual([items.length, items[0].service], [20, "updates.push.services.mozilla.com"]);
    gateway.clock.advance(91 * DAY_MS);
    await gateway.app.runMaintenance();
    assert.deepEqual(await namesOf(await gateway.as("alice")), []);
  },
);

Deno.test("a subscription needs an address of a push service and a key on the curve, and an operator who pushes", async () => {
  const service = new PushService();
  await using gateway = await service.open();
  const { alice } = await createCallers(gateway, "alice");
  const { subscription } = new Browser("alice");
  for (const endpoint of ["https://example.com/push", "https://evilpush.apple.com.example.com/", "no address"]) {
    assertProblem(await alice.post(PATH, { ...subscription, endpoint }), 422, "address_not_allowed");
  }
  const keys = { ...subscription.keys, p256dh: "B".repeat(87) };
  assertProblem(await alice.post(PATH, { ...subscription, keys }), 422, "validation_failed");
  await using silent = await openGateway();
  const other = await createCaller(silent, "alice");
  assertProblem(await other.post(PATH, subscription), 404, "push_not_configured");
  assert.equal(ok(await other.get("/v1/collaboration/capabilities")).modules.push.enabled, false);
});

Deno.test("after a failure of the push service the notification is pushed by a later attempt", async () => {
  const service = new PushService();
  await using gateway = await service.open();
  const { alice, bob } = await createCallers(gateway, "alice", "bob");
  const roomId = await createRoom(alice, ["bob"]);
  const browser = new Browser("bob");
  await subscribe(bob, browser);
  service.status = 503;
  await sendMessage(alice, roomId, "bob?", { mentions: { principalIds: ["bob"] } });
  await pushUntil(gateway, () => service.sent.length > 0);
  service.status = 201;
  await pushUntil(gateway, () => service.sent.length > 1);
  assert.equal(browser.read(service.sent[1]?.body ?? assert.fail("Not sent")).notification.preview, "bob?");
});
