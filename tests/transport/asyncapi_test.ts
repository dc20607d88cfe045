// `/asyncapi.json`: valid for its own parser, whole, and linked.
import assert from "node:assert/strict";
import { Ajv } from "npm:ajv@8.20.0";
import addFormats from "npm:ajv-formats@3.0.1";
import { openGateway } from "../harness.ts";

const CHECK = `
import { Parser } from "npm:@asyncapi/parser@3.6.3";
const { document, diagnostics } = await new Parser().parse(await new Response(Deno.stdin.readable).text());
const faults = diagnostics.filter(({ severity }) => severity === 0).map(({ path, message }) => path.join("/") + ": " + message);
console.log(JSON.stringify({ isValid: document !== undefined, faults }));
`;

Deno.test("/asyncapi.json is valid for the AsyncAPI parser", async () => {
  await using gateway = await openGateway();
  const { body } = await gateway.withToken(undefined).get("/asyncapi.json");
  for (const message of Object.values<{ payload: unknown }>(body.components.messages)) {
    assert.equal(typeof message.payload, "object");
    // What it is made of takes the parser ten times as long as the rest, and has a test of its own.
    message.payload = {};
  }
  const folder = await Deno.makeTempDir();
  try {
    // In a process of its own: the parser brings more packages than the gateway has.
    await Deno.writeTextFile(`${folder}/check.ts`, CHECK);
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--allow-all", "--quiet", "--no-lock", "--no-config", `${folder}/check.ts`],
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(
      new TextEncoder().encode(JSON.stringify({ ...body, components: { ...body.components, schemas: {} } })),
    );
    await writer.close();
    const { stdout } = await child.output();
    assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), { isValid: true, faults: [] });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("/asyncapi.json has payloads that are JSON Schemas, which name nothing that is not there", async () => {
  await using gateway = await openGateway();
  const { body } = await gateway.withToken(undefined).get("/asyncapi.json");
  const ajv = new Ajv({ allowUnionTypes: true });
  (addFormats as unknown as (ajv: Ajv) => void)(ajv);
  ajv.addVocabulary(["components"]);
  ajv.addSchema({ $id: "asyncapi", components: body.components } as never);
  for (const name of Object.keys(body.components.messages)) {
    ajv.compile({ $ref: `asyncapi#/components/messages/${name}/payload` });
  }
});

Deno.test("/asyncapi.json holds every operation, channel and declared event, and /docs links it", async () => {
  await using gateway = await openGateway();
  const { app } = gateway;
  const anybody = gateway.withToken(undefined);
  const { body } = await anybody.get("/asyncapi.json");
  for (const name of app.operations.keys()) assert.equal(body.operations[name]?.action, "receive", name);
  for (const { prefix } of app.modules.flatMap((module) => module.channels ?? [])) {
    assert.equal(body.channels[prefix].address, `${prefix}:{${prefix}Id}`);
  }
  for (const { type, streams = ["room"] } of app.modules.flatMap((module) => module.events ?? [])) {
    for (const stream of streams) assert.ok(body.channels[stream].messages[type] !== undefined, `${type} on ${stream}`);
  }
  assert.match((await anybody.get("/docs")).body, /href="asyncapi\.json"/);
});
