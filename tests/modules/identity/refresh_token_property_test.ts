// Refresh tokens in any order, at any time, concurrently and on several gateways: at most one is valid.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { configure, type LogRecord, reset } from "@logtape/logtape";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type ApiResponse, type Harness, openGateway } from "../../harness.ts";
import { outcomeOf, SECOND, TokenFamily, type TokenPair } from "./refresh_token_fixture.ts";

/** Number of these refresh tokens that are valid, according to the stored hashes. */
async function countValid(gateway: Harness, family: TokenFamily, pairs: readonly TokenPair[]): Promise<number> {
  const row = await gateway.app.store.db.selectFrom("token_family").select("hash").where("token_id", "=", family.id)
    .executeTakeFirstOrThrow();
  const hashes = await Promise.all(pairs.map(async ({ refreshToken }) => {
    const secret = new TextEncoder().encode(refreshToken.split(".")[1]);
    return new Uint8Array(await crypto.subtle.digest("SHA-256", secret)).toHex();
  }));
  return hashes.filter((hash) => hash === row.hash).length;
}

async function assertOneLineageSurvives(gateways: readonly [Harness, ...Harness[]], runs: number): Promise<void> {
  const [gateway] = gateways;
  const use = (family: TokenFamily, at: number, refreshToken: string): Promise<ApiResponse> =>
    family.onGateway(gateways[at % gateways.length] ?? gateway).refresh(refreshToken);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 }), async (rounds) => {
      const family = await TokenFamily.logIn(gateway);
      let { refreshToken } = family.initial;
      let rest: TokenPair[] = [];
      for (const copies of rounds) {
        const answers = await Promise.all(Array.from({ length: copies }, (_, at) => use(family, at, refreshToken)));
        assert.deepEqual(answers.map(outcomeOf), answers.map(() => "200"));
        const pairs: TokenPair[] = answers.map(({ body }) => body);
        assert.equal(new Set(pairs.map((pair) => pair.refreshToken)).size, copies);
        assert.equal(await countValid(gateway, family, pairs), 1);
        const survivors = await Promise.all(
          pairs.map(async (pair) => await countValid(gateway, family, [pair]) === 1 ? [pair] : []),
        );
        refreshToken = survivors.flat()[0]?.refreshToken ?? "";
        rest = pairs.filter((pair) => pair.refreshToken !== refreshToken);
      }
      assert.equal(outcomeOf(await family.refresh(refreshToken)), "200");
      if (rest[0] === undefined) return await family.logOut();
      assert.equal(outcomeOf(await family.refresh(rest[0].refreshToken)), "401 token_revoked");
      assert.equal(outcomeOf(await family.refresh(refreshToken)), "401 unauthenticated");
    }),
    { numRuns: runs },
  );
}

/** A successor used while the rotation that made it is repeated: whichever comes second comes with an old token. */
async function assertSingleWinner(gateways: readonly [Harness, ...Harness[]], runs: number): Promise<void> {
  const [gateway, other = gateway] = gateways;
  for (let run = 0; run < runs; run++) {
    const family = await TokenFamily.logIn(gateway);
    const next = await family.rotate();
    const answers = await Promise.all([
      family.refresh(next.refreshToken),
      family.onGateway(other).refresh(family.initial.refreshToken),
    ]);
    assert.deepEqual(answers.map(outcomeOf).sort(), ["200", "401 token_revoked"]);
    const { body } = answers.find(({ status }) => status === 200) ?? {};
    assert.equal(outcomeOf(await family.refresh(body.refreshToken)), "401 unauthenticated");
    assert.equal(await family.accessOutcome(body), "401 token_revoked");
  }
}

testOnEngines("of concurrent refreshes with one token, exactly one succeeds in the end", async (environment) => {
  await using gateway = await openGateway(environment);
  await assertOneLineageSurvives([gateway], 25);
  await assertSingleWinner([gateway], 10);
});

testOnPostgres("the same on two gateways that share a database", async (environment) => {
  await using one = await openGateway(environment);
  await using two = await openGateway(environment);
  await assertOneLineageSurvives([one, two], 25);
  await assertSingleWinner([one, two], 20);
});

/** What the family should do, as the contract says it: a list of tokens handed out, of which `good` is the place of the good one. */
class Model {
  validIndex = 0;
  previousIndex = -1;
  rotatedAt = 0;
  count = 1;
  hasEnded = false;

  use(at: number, now: number): string {
    if (this.hasEnded) return "401 unauthenticated";
    const isRepeat = at === this.previousIndex && now - this.rotatedAt <= 30 * SECOND;
    if (at !== this.validIndex && !isRepeat) {
      this.hasEnded = true;
      return "401 token_revoked";
    }
    if (!isRepeat) [this.previousIndex, this.rotatedAt] = [at, now];
    this.validIndex = this.count++;
    return "200";
  }
}

Deno.test("for any sequence of uses, the gateway follows the contract, and logs no token", async () => {
  const records: LogRecord[] = [];
  await configure({
    reset: true,
    sinks: { memory: (record) => records.push(record) },
    loggers: [
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["memory"] },
      { category: ["gateway"], lowestLevel: "trace", sinks: ["memory"] },
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
        const family = await TokenFamily.logIn(gateway);
        const model = new Model();
        const pairs = [family.initial];
        for (const { back, wait } of steps) {
          gateway.clock.advance(wait * SECOND);
          const at = Math.max(0, pairs.length - 1 - back);
          const answer = await family.refresh(pairs[at]?.refreshToken ?? "");
          assert.equal(outcomeOf(answer), model.use(at, gateway.clock.now()));
          if (answer.status === 200) pairs.push(answer.body);
          assert.equal(
            await family.accessOutcome(pairs[0] ?? family.initial),
            model.hasEnded ? "401 token_revoked" : "200",
          );
        }
        handedOut.push(...pairs.flatMap(({ refreshToken, accessToken }) => [...refreshToken.split("."), accessToken]));
        await family.logOut();
      }),
      { numRuns: 60 },
    );
    const text = JSON.stringify(records);
    assert.ok(records.some(({ message }) => String(message).includes("reused")));
    for (const secret of handedOut) assert.ok(!text.includes(secret), "a token is in the log");
    const { db } = gateway.app.store;
    const stored = JSON.stringify([
      await db.selectFrom("api_token").selectAll().execute(),
      await db.selectFrom("token_family").selectAll().execute(),
      await db.selectFrom("event").selectAll().execute(),
    ]);
    for (const secret of handedOut) assert.ok(!stored.includes(secret), "a token is in the store");
  } finally {
    await reset();
  }
});
