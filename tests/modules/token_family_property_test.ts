// Refresh tokens used in any order, at any time, at once and on several gateways: one line of descent at most, always.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { configure, type LogRecord, reset } from "@logtape/logtape";
import { onEngines, onPostgres } from "../engines.ts";
import { type Answer, type Harness, openGateway } from "../harness.ts";
import { Family, type Pair, said, SECOND } from "./token_family_world.ts";

/** How many of these refresh tokens are the one that is good, by what is kept of them. */
async function goodOnes(gateway: Harness, family: Family, pairs: readonly Pair[]): Promise<number> {
  const row = await gateway.app.store.db.selectFrom("token_family").select("hash").where("token_id", "=", family.id)
    .executeTakeFirstOrThrow();
  const hashes = await Promise.all(pairs.map(async ({ refreshToken }) => {
    const secret = new TextEncoder().encode(refreshToken.split(".")[1]);
    return new Uint8Array(await crypto.subtle.digest("SHA-256", secret)).toHex();
  }));
  return hashes.filter((hash) => hash === row.hash).length;
}

async function oneLineSurvives(gateways: readonly [Harness, ...Harness[]], runs: number): Promise<void> {
  const [gateway] = gateways;
  const use = (family: Family, at: number, refreshToken: string): Promise<Answer> =>
    family.on(gateways[at % gateways.length] ?? gateway).use(refreshToken);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 }), async (rounds) => {
      const family = await Family.of(gateway);
      let { refreshToken } = family.first;
      let rest: Pair[] = [];
      for (const copies of rounds) {
        const answers = await Promise.all(Array.from({ length: copies }, (_, at) => use(family, at, refreshToken)));
        assert.deepEqual(answers.map(said), answers.map(() => "200"));
        const pairs: Pair[] = answers.map(({ body }) => body);
        assert.equal(new Set(pairs.map((pair) => pair.refreshToken)).size, copies);
        assert.equal(await goodOnes(gateway, family, pairs), 1);
        const survivors = await Promise.all(
          pairs.map(async (pair) => await goodOnes(gateway, family, [pair]) === 1 ? [pair] : []),
        );
        refreshToken = survivors.flat()[0]?.refreshToken ?? "";
        rest = pairs.filter((pair) => pair.refreshToken !== refreshToken);
      }
      assert.equal(said(await family.use(refreshToken)), "200");
      if (rest[0] === undefined) return await family.end();
      assert.equal(said(await family.use(rest[0].refreshToken)), "401 token_revoked");
      assert.equal(said(await family.use(refreshToken)), "401 unauthenticated");
    }),
    { numRuns: runs },
  );
}

/** A successor used while the rotation that made it is repeated: whichever comes second comes with an old token. */
async function onlyOneIsFirst(gateways: readonly [Harness, ...Harness[]], runs: number): Promise<void> {
  const [gateway, other = gateway] = gateways;
  for (let run = 0; run < runs; run++) {
    const family = await Family.of(gateway);
    const next = await family.next();
    const answers = await Promise.all([
      family.use(next.refreshToken),
      family.on(other).use(family.first.refreshToken),
    ]);
    assert.deepEqual(answers.map(said).sort(), ["200", "401 token_revoked"]);
    const { body } = answers.find(({ status }) => status === 200) ?? {};
    assert.equal(said(await family.use(body.refreshToken)), "401 unauthenticated");
    assert.equal(await family.says(body), "401 token_revoked");
  }
}

onEngines("of refreshes at once with one token exactly one line of descent survives", async (environment) => {
  await using gateway = await openGateway(environment);
  await oneLineSurvives([gateway], 25);
  await onlyOneIsFirst([gateway], 10);
});

onPostgres("the same on two gateways that share a database", async (environment) => {
  await using one = await openGateway(environment);
  await using two = await openGateway(environment);
  await oneLineSurvives([one, two], 25);
  await onlyOneIsFirst([one, two], 20);
});

/** What the family should do, as the contract says it: a list of tokens handed out, of which `good` is the place of the good one. */
class Model {
  good = 0;
  spent = -1;
  spentAt = 0;
  count = 1;
  hasEnded = false;

  use(at: number, now: number): string {
    if (this.hasEnded) return "401 unauthenticated";
    const isRepeat = at === this.spent && now - this.spentAt <= 30 * SECOND;
    if (at !== this.good && !isRepeat) {
      this.hasEnded = true;
      return "401 token_revoked";
    }
    if (!isRepeat) [this.spent, this.spentAt] = [at, now];
    this.good = this.count++;
    return "200";
  }
}

Deno.test("whatever token is used whenever, the gateway does what the contract says, and logs none of them", async () => {
  const records: LogRecord[] = [];
  await configure({
    reset: true,
    sinks: { kept: (record) => records.push(record) },
    loggers: [
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["kept"] },
      { category: ["gateway"], lowestLevel: "trace", sinks: ["kept"] },
    ],
  });
  try {
    await using gateway = await openGateway();
    // Mostly the latest tokens, so that families live a while.
    const step = fc.record({
      back: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 3, arbitrary: fc.nat(2) }, fc.nat(20)),
      wait: fc.constantFrom(0, 1, 29, 30, 31, 40),
    });
    const handedOut: string[] = [];
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        const family = await Family.of(gateway);
        const model = new Model();
        const pairs = [family.first];
        for (const { back, wait } of steps) {
          gateway.clock.advance(wait * SECOND);
          const at = Math.max(0, pairs.length - 1 - back);
          const answer = await family.use(pairs[at]?.refreshToken ?? "");
          assert.equal(said(answer), model.use(at, gateway.clock.now()));
          if (answer.status === 200) pairs.push(answer.body);
          assert.equal(await family.says(pairs[0] ?? family.first), model.hasEnded ? "401 token_revoked" : "200");
        }
        handedOut.push(...pairs.flatMap(({ refreshToken, accessToken }) => [...refreshToken.split("."), accessToken]));
        await family.end();
      }),
      { numRuns: 60 },
    );
    const text = JSON.stringify(records);
    assert.ok(records.some(({ message }) => String(message).includes("used again")));
    for (const secret of handedOut) assert.ok(!text.includes(secret), "a token is in the log");
    const { db } = gateway.app.store;
    const kept = JSON.stringify([
      await db.selectFrom("api_token").selectAll().execute(),
      await db.selectFrom("token_family").selectAll().execute(),
      await db.selectFrom("event").selectAll().execute(),
    ]);
    for (const secret of handedOut) assert.ok(!kept.includes(secret), "a token is in the store");
  } finally {
    await reset();
  }
});
