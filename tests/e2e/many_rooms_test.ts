// A client with many rooms comes online: the real npm `centrifuge` client, unmodified, against a gateway with its limits on.
import assert from "node:assert/strict";
import type { Centrifuge, Subscription } from "npm:centrifuge@5.8.0";
import { slowTest } from "../tier.ts";
import { pause, WAIT_MS } from "../wait.ts";
import { GatewayProcess, openTarget, Target, uniqueName } from "./target.ts";

const COUNTS = [104, 1000];

/** A gateway with its limits on, and people who were put into so many rooms before they were. */
async function openCrowdedTarget() {
  const folder = await Deno.makeTempDir({ prefix: "gateway-rooms-" });
  const environment = { SVC_DATABASE_URL: `sqlite:${folder}/gateway.db`, SVC_DATA_DIR: folder };
  const quiet = await openTarget({ isOwn: true, environment });
  const { process, secret } = quiet;
  if (process === undefined) throw new TypeError("Expected a gateway of our own");
  const people: { token: string; roomIds: string[] }[] = [];
  for (const rooms of COUNTS) {
    const token = await quiet.token({ sub: uniqueName("alice"), role: "admin" });
    const roomIds: string[] = [];
    while (roomIds.length < rooms) {
      const batch = Array.from(
        { length: Math.min(20, rooms - roomIds.length) },
        (_, at) => quiet.call(token, "POST", "/v1/rooms", { name: `Room ${roomIds.length + at}` }),
      );
      for (const { id } of await Promise.all(batch)) roomIds.push(id);
    }
    people.push({ token, roomIds });
  }
  await quiet[Symbol.asyncDispose]();
  const limited = new GatewayProcess(process.port, secret, { ...environment, SVC_RATE_LIMIT: "on" });
  await limited.start();
  return { target: new Target(limited.url, secret, limited, folder), people };
}

/** Calls until it is not refused for the rate; says how often it was. */
async function retryWhileLimited(call: () => Promise<unknown>): Promise<number> {
  for (let refusals = 0;; refusals++) {
    try {
      await call();
      return refusals;
    } catch (error) {
      const { code, temporary } = error as { code: number; temporary?: boolean };
      assert.deepEqual({ code, temporary }, { code: 111, temporary: true });
      await pause(500 * Math.random() * Math.min(2 ** refusals, 8));
    }
  }
}

function retryAllWhileLimited(calls: (() => Promise<unknown>)[]): Promise<number[]> {
  return Promise.all(calls.map(retryWhileLimited));
}

async function subscribeToAll(client: Centrifuge, roomIds: readonly string[]): Promise<Subscription[]> {
  const subscriptions = roomIds.map((id) => client.newSubscription(`room:${id}`));
  for (const subscription of subscriptions) subscription.subscribe();
  await Promise.all(subscriptions.map((subscription) => subscription.ready(WAIT_MS)));
  return subscriptions;
}

slowTest(`clients with ${COUNTS.join(" and ")} rooms come online in one burst each and are never closed`, async (t) => {
  const { target: own, people } = await openCrowdedTarget();
  await using target = own;
  for (const { token, roomIds } of people) {
    await t.step(`${roomIds.length} rooms`, () => comeOnline(target, token, roomIds));
  }
});

async function comeOnline(target: Target, token: string, roomIds: readonly string[]): Promise<void> {
  const client = target.client({ token });
  const connecting: number[] = [];
  client.on("connecting", ({ code }) => connecting.push(code));
  client.connect();
  const subscriptions = await subscribeToAll(client, roomIds);
  const presences = await retryAllWhileLimited(subscriptions.map((subscription) => () => subscription.presence()));
  const histories = await retryAllWhileLimited(
    subscriptions.map((subscription) => () => subscription.history({ limit: 10 })),
  );
  assert.deepEqual(new Set([...presences, ...histories]), new Set([0]), "within the allowance of so many channels");
  const rpcs = await retryAllWhileLimited(
    Array.from({ length: 200 }, (_, at) => () => client.rpc("room.read", { id: roomIds[at % roomIds.length] })),
  );
  assert.equal(rpcs.length, 200);
  assert.ok(rpcs.filter((refusals) => refusals === 0).length >= 100, "a burst waits a little before it is refused");
  client.disconnect();
  client.connect();
  await Promise.all(subscriptions.map((subscription) => subscription.ready(WAIT_MS)));
  assert.deepEqual(connecting, [0, 0]);
}
