// Compiled schemas judge as the plain ones do: every input of every operation, and every body of a command, both ways.
import assert from "node:assert/strict";
import { z } from "@zod/zod";
import fc from "npm:fast-check@4.10.2";
import { COMMAND_SCHEMAS } from "@/transport/ws/protocol.ts";
import { openGateway } from "../harness.ts";
import { slowTest } from "../tier.ts";

type Fields = Record<string, unknown>;

/** What no schema, or hardly any, was written for. */
const ODD_VALUES: readonly string[] = [
  ..."null true false 0 -0 1 -1 1.5 1e-7 9007199254740991 9007199254740993 1e308 1e400".split(" "),
  ...`"" "\\u0020" "x" "0" "true" "é" "\\ud83d\\ude00" "a\\nb" "room_1" "constructor" "__proto__"`.split(" "),
  ...`"2026-02-30" "2026-01-05T10:00:00Z" "2026-01-05T10:00:00.123+02:00" "https://example.com/a?b#c"`.split(" "),
  ...`[] [null] [[]] [1,"1",1] {} {"a":1} {"a":{"b":[{"c":null}]}} {"length":1} {"toString":1,"0":1}`.split(" "),
  ...`{"__proto__":1} {"__proto__":{"id":"x"}} {"constructor":{"prototype":1}}`.split(" "),
  ...["x".repeat(300), "😀".repeat(70), Array(300).fill("x")].map((value) => JSON.stringify(value)),
];
const ODD_KEYS = ["surprise", "__proto__", "constructor", "toString", "", "0", "id", "roomId", "length"];

/** Every value that can be had by putting `part` somewhere into `value`, or by taking something away where it is absent. */
function changesOf(value: unknown, part: unknown, name: string): unknown[] {
  const changes: unknown[] = [part];
  if (Array.isArray(value)) {
    changes.push([...value, part], [...value, ...value], []);
    value.forEach((one, at) => {
      for (const changed of changesOf(one, part, name)) changes.push(value.with(at, changed));
    });
  } else if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value);
    changes.push(objectOf([...fields, [name, part]]), objectOf(fields.toReversed()));
    fields.forEach(([key, one], at) => {
      changes.push(objectOf(fields.toSpliced(at, 1)));
      for (const changed of changesOf(one, part, name)) changes.push(objectOf(fields.with(at, [key, changed])));
    });
  }
  return changes;
}

/** The JSON of a value and of everything in it. */
function partsOf(value: unknown): string[] {
  const inner = typeof value === "object" && value !== null ? Object.values(value).flatMap(partsOf) : [];
  return [JSON.stringify(value), ...inner];
}

/** As `JSON.parse` makes it: any name is a field of its own. */
function objectOf(fields: readonly (readonly [string, unknown])[]): Fields {
  return Object.fromEntries(fields);
}

/** All fields that the schema knows, with values that have a chance to fit, since examples do not name all of them. */
function nameEvery(schema: z.ZodType, example: Fields, part: unknown): Fields[] {
  const shape = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  return shape.map((name) => objectOf([...Object.entries(example).filter(([key]) => key !== name), [name, part]]));
}

/** Throws unless both schemas say the same of the input, and leave it alone. */
function assertSameResult(name: string, plain: z.ZodType, compiled: z.ZodType, input: unknown): void {
  const text = JSON.stringify(input);
  const expected = plain.safeParse(input);
  assert.equal(JSON.stringify(input), text, `${name}: the plain schema changed its input`);
  const received = compiled.safeParse(input);
  assert.equal(JSON.stringify(input), text, `${name}: the compiled schema changed its input`);
  const what = `${name}: ${text?.slice(0, 500)}`;
  assert.equal(received.success, expected.success, what);
  if (expected.success) {
    assert.deepEqual(received.data, expected.data, what);
    assert.equal(JSON.stringify(received.data), JSON.stringify(expected.data), what);
    assert.deepEqual(sharedOf(compiled, input), sharedOf(plain, input), what);
  } else assert.deepEqual(received.error?.issues, expected.error.issues, what);
}

/** Where two parses of one input, and the input, are the same object. */
function sharedOf(schema: z.ZodType, input: unknown): string[] {
  const places: string[] = [];
  const look = (left: unknown, right: unknown, own: unknown, path: string): void => {
    if (typeof left !== "object" || left === null || typeof right !== "object" || right === null) return;
    if (left === right) places.push(`${path}${left === own ? " of the input" : ""}`);
    for (const [key, part] of Object.entries(left)) {
      look(part, (right as Fields)[key], (own as Fields | undefined)?.[key], `${path}/${key}`);
    }
  };
  look(schema.parse(input), schema.parse(input), input, "");
  return places;
}

function checkAll(schemas: readonly { name: string; schema: z.ZodType; example: Fields }[], numRuns: number): void {
  const pairs = schemas.map(({ name, schema, example }) => ({ name, schema, example, compiled: z.compile(schema) }));
  for (const { name, schema, compiled, example } of pairs) {
    assert.ok(compiled !== schema, `${name}: not compiled, so nothing is compared`);
    for (const input of [example, {}, undefined, null, [], "", 0]) assertSameResult(name, schema, compiled, input);
  }
  const parts = new Set([...ODD_VALUES, ...pairs.flatMap(({ example }) => partsOf(example))]);
  const somePart = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...parts) },
    { weight: 1, arbitrary: fc.json({ maxDepth: 3 }) },
  ).map((text): unknown => JSON.parse(text));
  fc.assert(
    fc.property(somePart, fc.constantFrom(...ODD_KEYS), (part, strange) => {
      for (const { name, schema, compiled, example } of pairs) {
        for (const input of changesOf(example, part, strange)) assertSameResult(name, schema, compiled, input);
        for (const input of nameEvery(schema, example, part)) assertSameResult(name, schema, compiled, input);
      }
    }),
    { numRuns },
  );
}

slowTest("a compiled input of an operation says what the plain one says", async () => {
  await using gateway = await openGateway();
  const schemas = [...gateway.app.operations.values()].map((operation) => ({
    name: operation.name,
    schema: operation.input,
    example: { ...operation.example as Fields | undefined },
  }));
  checkAll(schemas, 12);
});

Deno.test("a compiled body of a command says what the plain one says", () => {
  const recovery = { recover: true, offset: 5, epoch: "e" };
  const examples: Partial<Record<keyof typeof COMMAND_SCHEMAS, Fields>> = {
    connect: { token: "t", subs: { "room:1": recovery, "": {} } },
    subscribe: { channel: "room:1", ...recovery, flag: 1, join_leave: true, type: 0 },
    publish: { channel: "room:1", data: { type: "typing", data: {} } },
    history: { channel: "room:1", limit: 10, since: { offset: 1, epoch: "" }, reverse: true },
    rpc: { method: "room.get", data: { id: "room_1" } },
  };
  const schemas = Object.entries(COMMAND_SCHEMAS).map(([name, schema]) => ({
    name,
    schema,
    example: examples[name as keyof typeof COMMAND_SCHEMAS] ?? { channel: "room:1", token: "t" },
  }));
  checkAll(schemas, 100);
});
