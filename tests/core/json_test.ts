// JSON as a schema: what `z.json()` takes, and nothing that would be stored as something else.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import fc from "npm:fast-check@4.10.2";
import { boundedRecord, Json } from "@/core/json.ts";

Deno.test("Json takes what z.json() takes of anything parsed", () => {
  const plain = z.json();
  const compiled = z.compile(z.record(z.string(), Json));
  const huge = fc.constantFrom("1e400", "-1e400", "1e308", "0", "{}", '"1e400"');
  const text = fc.tuple(fc.json({ maxDepth: 4 }), huge).chain(([json, number]) =>
    fc.constantFrom(json, number, `[${number},${json}]`, `{"a":${json},"b":[[{"c":${number}}]]}`)
  );
  fc.assert(fc.property(text, (json) => {
    const value = JSON.parse(json);
    assert.equal(Json.safeParse(value).success, plain.safeParse(value).success, json);
    assert.equal(compiled.safeParse({ value }).success, plain.safeParse(value).success, json);
  }));
});

Deno.test("Json says the same as what it was parsed from", () => {
  fc.assert(fc.property(fc.json(), (json) => {
    assert.equal(JSON.stringify(Json.parse(JSON.parse(json))), JSON.stringify(JSON.parse(json)));
  }));
  for (const text of ["1e400", '{"a":{"b":[1,-1e400]}}']) {
    assert.equal(Json.safeParse(JSON.parse(text)).success, false, text);
  }
});

Deno.test("the entries of a record are counted before any is parsed", () => {
  let parsed = 0;
  const value = z.string().refine(() => ++parsed > 0);
  const Headers = boundedRecord(z.string().min(2), value, 2, "headers");
  assert.equal(
    Headers.safeParse({ aa: "1", bb: "2", cc: "3" }).error?.issues[0]?.message,
    "expected at most 2 headers",
  );
  assert.equal(parsed, 0);
  assert.deepEqual(Headers.parse({ aa: "1", bb: "2" }), { aa: "1", bb: "2" });
  for (const input of [undefined, null, "aa", ["aa"], { a: "1" }, { aa: 1 }]) {
    assert.equal(Headers.safeParse(input).success, false, JSON.stringify(input));
  }
});
