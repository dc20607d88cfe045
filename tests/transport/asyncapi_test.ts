// `/asyncapi.json`: valid, complete and linked.
import assert from "node:assert/strict";
import { Ajv } from "npm:ajv@8.20.0";
import addFormats from "npm:ajv-formats@3.0.1";
import { DISCONNECT } from "@/transport/shared/disconnect.ts";
import { ERRORS } from "@/transport/ws/protocol.ts";
import { WS_LIMITS } from "@/transport/shared/socket_limits.ts";
import { openGateway } from "../harness.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { slowTest } from "../tier.ts";

const CHECK = `
import { Parser } from "npm:@asyncapi/parser@3.6.3";
const { document, diagnostics } = await new Parser().parse(await new Response(Deno.stdin.readable).text());
const faults = diagnostics.filter(({ severity }) => severity === 0).map(({ path, message }) => path.join("/") + ": " + message);
console.log(JSON.stringify({ isValid: document !== undefined, faults }));
`;

slowTest("/asyncapi.json is valid for the AsyncAPI parser", async () => {
  await using gateway = await openGateway();
  const { body } = await gateway.withToken(undefined).get("/asyncapi.json");
  for (const message of Object.values<{ payload: unknown }>(body.components.messages)) {
    assert.equal(typeof message.payload, "object");
    // Its payloads take the parser ten times as long as the rest, and have their own test.
    message.payload = {};
  }
  await using folder = await createTemporaryFolder();
  // In a separate process: the parser has more dependencies than the gateway.
  await Deno.writeTextFile(`${folder.path}/check.ts`, CHECK);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--quiet", "--no-lock", "--no-config", `${folder.path}/check.ts`],
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
});

Deno.test("/asyncapi.json has valid JSON Schemas as payloads, without dangling references", async () => {
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

Deno.test("/asyncapi.json has every operation, channel and declared event, and /docs links it", async () => {
  await using gateway = await openGateway();
  const { app } = gateway;
  const anybody = gateway.withToken(undefined);
  const { body } = await anybody.get("/asyncapi.json");
  for (const name of app.operations.keys()) {
    const { action, channel } = body.operations[name];
    assert.deepEqual([action, channel.$ref], ["receive", `#/channels/rpc.${name.split(".")[0]}`], name);
  }
  // A parser copies a channel to each reference to it.
  for (const [name, { address, messages }] of Object.entries<{ address: string; messages: object }>(body.channels)) {
    assert.ok(address !== "/ws" || Object.keys(messages).length <= 40, `${name} is small enough to be copied`);
  }
  for (const { prefix } of app.modules.flatMap((module) => module.channels ?? [])) {
    assert.equal(body.channels[prefix].address, `${prefix}:{${prefix}Id}`);
  }
  for (const { type, streams = ["room"] } of app.modules.flatMap((module) => module.events ?? [])) {
    for (const stream of streams) assert.ok(body.channels[stream].messages[type] !== undefined, `${type} on ${stream}`);
  }
  assert.match((await anybody.get("/docs")).body, /href="asyncapi\.json"/);
  for (const { prefix, notices = {} } of app.modules.flatMap((module) => module.channels ?? [])) {
    for (const type of Object.keys(notices)) {
      assert.ok(body.channels[prefix].messages[type] !== undefined, `${type} on ${prefix}`);
      assert.equal(body.channels[prefix].messages[`${type}.publish`], undefined, `${type} is not for clients`);
    }
  }
  assert.ok(body.channels.room.messages["member.read"] !== undefined);
});

Deno.test("/asyncapi.json describes each operation and names the model of each object in its messages", async () => {
  await using gateway = await openGateway();
  const { body } = await gateway.withToken(undefined).get("/asyncapi.json");
  for (const [name, { summary, description }] of Object.entries<Record<string, string>>(body.operations)) {
    assert.ok(summary && description, name);
  }
  const { messages, schemas } = body.components;
  const models = new Map<string, string>();
  const nameParts = (part: unknown, at: string): void => {
    if (typeof part !== "object" || part === null) return;
    const { title, type, properties, enum: values } = part as Record<string, unknown>;
    if (typeof type === "string" ? type === "object" : properties !== undefined || Array.isArray(values)) {
      assert.equal(typeof title, "string", at);
      const other = models.get(String(title));
      assert.ok(other === undefined || other === JSON.stringify(part), `${title} is one model`);
      models.set(String(title), JSON.stringify(part));
    }
    for (const [keyword, inner] of Object.entries(part)) nameParts(inner, `${at}/${keyword}`);
  };
  for (const [name, { payload }] of Object.entries<{ payload: unknown }>(messages)) nameParts(payload, name);
  for (const [name, schema] of Object.entries<object>(schemas)) nameParts({ title: name, ...schema }, name);
});

Deno.test("/asyncapi.json lists each close code, error code and active limit, and how to retry", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "on" });
  const { body } = await gateway.withToken(undefined).get("/asyncapi.json");
  const codes = (table: object) => Object.values<{ code: number }>(table as never).map(({ code }) => code).sort();
  assert.deepEqual(codes(body["x-close-codes"]), codes(DISCONNECT));
  assert.deepEqual(codes(body["x-error-codes"]), codes(ERRORS));
  assert.deepEqual(codes(body["x-unsubscribe-codes"]), [2000, 2500]);
  for (const { code, reconnect, description } of body["x-close-codes"]) {
    assert.equal(reconnect, code % 1000 < 500 && code !== 1009, `${code}`);
    assert.ok(description.length > 20, `${code}`);
  }
  const refusal = body["x-error-codes"].find(({ code }: { code: number }) => code === 111);
  assert.deepEqual([refusal.message, refusal.temporary], ["too many requests", true]);
  const limits = new Map(body["x-limits"].map(({ name, value }: { name: string; value: unknown }) => [name, value]));
  assert.equal(limits.get("subscriptionsMax"), 1000);
  assert.deepEqual(limits.get("rate"), WS_LIMITS.rate);
  assert.match(body.info.description, /60 commands at once and 20 a second.* error 111.*doubled.*3013/s);
  const kinds = gateway.app.modules.flatMap((module) => module.channels ?? []);
  for (const { prefix, presenceMax } of kinds) assert.equal(body.channels[prefix]["x-presence-max"], presenceMax);
});

Deno.test("/asyncapi.json says if there is no rate limit", async () => {
  await using gateway = await openGateway({ SVC_RATE_LIMIT: "off" });
  const { body } = await gateway.withToken(undefined).get("/asyncapi.json");
  assert.ok(!body["x-limits"].some(({ name }: { name: string }) => name === "rate"));
  assert.match(body.info.description, /Commands are not rate-limited here/);
});
