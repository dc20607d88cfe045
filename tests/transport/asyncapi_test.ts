// `/asyncapi.json`: valid for its own parser, whole, and linked.
import assert from "node:assert/strict";
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
    await writer.write(new TextEncoder().encode(JSON.stringify(body)));
    await writer.close();
    const { stdout } = await child.output();
    assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), { isValid: true, faults: [] });
  } finally {
    await Deno.remove(folder, { recursive: true });
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
