// What gateways share over Redis, and what they do not: deployments beside each other, a Redis that is down.
import assert from "node:assert/strict";
import { openSharedServices } from "@/adapters/open.ts";
import { defineSignal } from "@/core/event/event.ts";
import type { BusMessage } from "@/ports/bus.ts";
import { RedisConnection } from "@/adapters/redis.ts";
import { hasRedis, hasRedisServer, sendRedisCommand, startRedis, withRedis } from "./conformance/redis_server.ts";
import { openGateway } from "./harness.ts";
import { captureLog } from "./log_capture.ts";

Deno.test({
  name: "deployments on different databases of one Redis do not hear each other",
  ignore: !hasRedis,
  fn: () =>
    withRedis(async (url) => {
      const topic = `test:${crypto.randomUUID()}`;
      const heard: Record<string, string[]> = { "/1": [], "/2": [] };
      const opened = await Promise.all(
        Object.entries(heard).map(async ([path, messages]) => {
          const { bus, presence, limiter } = await openSharedServices(new URL(path, url).href);
          const waiting = new Map<string, () => void>();
          await bus.subscribe(topic, (message) => {
            const text = textOf(message);
            messages.push(text);
            waiting.get(text)?.();
          });
          /** Settles when the message has come back through Redis, which hands it to all listeners at once. */
          const say = (text: string) =>
            new Promise<void>((resolve) => {
              waiting.set(text, resolve);
              bus.publish(topic, { kind: "signal", signal: defineSignal(text).create("acme", "") });
            });
          return { say, close: () => Promise.all([bus.close(), presence.close(), limiter.close()]) };
        }),
      );
      for (const [index, { say }] of [...opened, ...opened].entries()) await say(`message ${index}`);
      assert.deepEqual(heard, { "/1": ["message 0", "message 2"], "/2": ["message 1", "message 3"] });
      await Promise.all(opened.map(({ close }) => close()));
    }),
});

Deno.test({
  name: "the log says when a Redis wants a password and SVC_REDIS_URL has none",
  ignore: !hasRedisServer,
  async fn() {
    await using server = await startRedis();
    await sendRedisCommand(server.url, "CONFIG", "SET", "requirepass", "needed");
    assert.deepEqual(await logOfRefusal(server.url), [
      ["redis unavailable", "NOAUTH: check the user and password in SVC_REDIS_URL"],
    ]);
  },
});

Deno.test({
  name: "a user that its Redis refuses is no other user, and the log says what to check",
  ignore: !hasRedisServer,
  async fn() {
    await using server = await startRedis();
    const url = Object.assign(new URL(server.url), { username: "gateway", password: "wrong" });
    assert.deepEqual(await logOfRefusal(url.href), [
      ["redis unavailable", "WRONGPASS: check the user and password in SVC_REDIS_URL"],
    ]);
  },
});

Deno.test({
  name: "a database that its Redis does not have is no other database, and the log says what to check",
  ignore: !hasRedisServer,
  async fn() {
    await using server = await startRedis();
    assert.deepEqual(await logOfRefusal(new URL("/99", server.url).href), [
      ["redis unavailable", "ERR: check the database number in SVC_REDIS_URL"],
    ]);
  },
});

Deno.test("a gateway that does not reach its Redis says so in a metric", async () => {
  for (const [environment, health] of [[{}, 1], [{ SVC_REDIS_URL: "redis://127.0.0.1:1" }, 0]] as const) {
    await using gateway = await openGateway(environment);
    const { body } = await gateway.withToken(undefined).get("/metrics");
    assert.match(body, new RegExp(`^svc_bus_healthy ${health}$`, "m"));
  }
});

Deno.test("a node that does not reach its Redis is ready, and its readiness names the bus", async () => {
  await using gateway = await openGateway({ SVC_REDIS_URL: "redis://127.0.0.1:1" });
  const { status, body } = await gateway.withToken(undefined).get("/v1/collaboration/ready");
  assert.deepEqual([status, body.ready, body.checks.bus, body.checks.store], [200, true, false, true]);
});

/** What the log says of a server that does not let the gateway in: each message with its cause. */
async function logOfRefusal(url: string): Promise<unknown[]> {
  const records = await captureLog(["gateway", "redis"], async () => {
    const connection = new RedisConnection(url);
    await connection.firstAttempt;
    assert.equal(connection.isReady, false);
    await connection.close();
  });
  return records.map(({ rawMessage, properties }) => [rawMessage, properties["cause"]]);
}

function textOf(message: BusMessage): string {
  return message.kind === "signal" ? message.signal.kind : "";
}
