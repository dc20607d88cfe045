// The time of requests: those who are done leave the others alone, whoever is left is told in the order of coming.
import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { Fault } from "@/core/fault.ts";
import { RequestDeadlines } from "@/transport/http/deadline.ts";
import { Exchange } from "@/transport/http/exchange.ts";
import { pause } from "../wait.ts";

function exchange(): Exchange {
  return new Exchange(new Request("http://localhost/"), "127.0.0.1", false);
}

/** When a request is done: at once, before the timer is set, while it runs, or never. */
const lasting = fc.constantFrom(0, 1, 2, 3, Infinity);

Deno.test("of requests that come and go in any order each is answered, and those that last are ended in turn", async () => {
  const many = fc.array(fc.record({ lasts: lasting, fails: fc.boolean(), isApart: fc.boolean() }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(many, async (requests) => {
      // Much longer than any of them lasts: the machine may stand still for a moment.
      const deadlines = new RequestDeadlines(150);
      const ended: number[] = [];
      const outcomes = [];
      for (const [index, { lasts, fails, isApart }] of requests.entries()) {
        const { promise, resolve, reject } = Promise.withResolvers<Response>();
        const done = (): void => fails ? reject(new Error(`${index}`)) : resolve(new Response(null));
        if (lasts === 0) done();
        else if (lasts < Infinity) setTimeout(done, lasts);
        const one = exchange();
        outcomes.push(
          deadlines.run(one, promise).then((response) => response.status, (error) => {
            if (!(error instanceof Fault)) return error.message;
            ended.push(index);
            assert.ok(one.isAborted);
            // What comes too late is heard by nobody, and harms nobody.
            done();
            return error.code;
          }),
        );
        if (isApart) await pause(1);
      }
      const expected = requests.map(({ lasts, fails }, index) =>
        lasts === Infinity ? "unavailable" : fails ? `${index}` : 200
      );
      assert.deepEqual(await Promise.all(outcomes), expected);
      assert.deepEqual(ended, ended.toSorted((a, b) => a - b));
    }),
    { numRuns: 25 },
  );
});
