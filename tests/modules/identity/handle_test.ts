// Handles of new principals: like their names, unique, and of nothing that others may not know.
import assert from "node:assert/strict";
import { testOnEngines, testOnPostgres } from "../../engines.ts";
import { type Harness, openGateway } from "../../harness.ts";
import { allEnded } from "../../wait.ts";
import { createCallers, createRoom, ok, sendMessage } from "../fixtures.ts";

const BASE = "/v1/collaboration";

async function handleOf(gateway: Harness, sub: string, name?: string, role: "guest" | "member" = "member") {
  const caller = await gateway.as(sub, { role, ...name === undefined ? {} : { name } });
  return ok(await caller.get(`${BASE}/me`)).principal.handle;
}

testOnEngines("a first token with a name gives its principal a handle like it", async (environment) => {
  await using gateway = await openGateway(environment);
  const names = {
    "Ada Lovelace": "ada-lovelace",
    "Jörg Müller-Łęcki": "jorg-muller-lecki",
    "Søren Groß": "soren-gross",
    "Elif Yılmaz": "elif-yilmaz",
    "grace@example.org": "grace",
    "All": "all-2",
    "Анна": null,
    [`${"x".repeat(31)} y`]: "x".repeat(31),
  };
  for (const [n, [name, handle]] of Object.entries(names).entries()) {
    assert.equal(await handleOf(gateway, `248289761${n}`, name), handle);
  }
  assert.equal(await handleOf(gateway, "bob"), null, "its id is the mention");
  assert.equal(await handleOf(gateway, "alan.turing@example.org"), "alan-turing");
  assert.equal(await handleOf(gateway, "other", "Bob"), "bob-2", "an id reads like a handle");
  for (const suffix of ["-2", "-3", "-4", "-5"]) {
    assert.equal(await handleOf(gateway, `ada${suffix}`, "Ada Lovelace"), `ada-lovelace${suffix}`);
  }
  assert.match(await handleOf(gateway, "ada-6", "Ada Lovelace"), /^ada-lovelace-[0-9a-f]{6}$/);
  assert.equal(await handleOf(gateway, "2482897610", "Ada King"), "ada-lovelace", "it stays when the name changes");
});

testOnEngines("principals of the same name that arrive at once have different handles", async (environment) => {
  await using gateway = await openGateway(environment);
  const handles = await allEnded(Array.from({ length: 8 }, (_, n) => handleOf(gateway, `p${n}`, "Ada Lovelace")));
  assert.equal(new Set(handles).size, 8);
  for (const handle of handles) assert.match(handle, /^ada-lovelace(-[2-5]|-[0-9a-f]{6})?$/);
});

testOnPostgres("they have different handles also if they arrive at two nodes", async (environment) => {
  await using one = await openGateway(environment);
  await using other = await openGateway(environment);
  const handles = await allEnded(
    Array.from({ length: 12 }, (_, n) => handleOf(n % 2 === 0 ? one : other, `p${n}`, "Ada Lovelace")),
  );
  assert.equal(new Set(handles).size, 12);
  assert.ok(!handles.includes(null));
});

testOnEngines("the handle of a guest does not reveal who exists", async (environment) => {
  await using gateway = await openGateway(environment);
  for (const name of ["Ada", "Bob"]) {
    if (name === "Ada") await handleOf(gateway, "first", name);
    assert.match(
      await handleOf(gateway, `guest-${name}`, name, "guest"),
      new RegExp(`^${name.toLowerCase()}-[0-9a-f]{6}$`),
    );
  }
});

Deno.test("an agent without a handle gets one, and is mentioned by it", async () => {
  await using gateway = await openGateway();
  const { alice } = await createCallers(gateway, "alice");
  const create = async (body: Record<string, unknown>) =>
    ok(await alice.post(`${BASE}/principals`, { kind: "agent", ...body }));
  const deploy = await create({ displayName: "Deploy bot" });
  const helper = ok(
    await (await gateway.as("root", { role: "admin" })).post(`${BASE}/principals`, {
      id: "helper",
      kind: "agent",
      displayName: "Helper",
    }),
  );
  assert.deepEqual([deploy.handle, helper.handle], ["deploy-bot", "helper"]);
  assert.equal((await create({ displayName: "Deploy bot" })).handle, "deploy-bot-2");
  const agent = ok(await alice.post(`${BASE}/agents`, { displayName: "Deploy bot" }));
  assert.equal(agent.handle, "deploy-bot-3");
  const roomId = await createRoom(alice, [deploy.id]);
  const { mentions } = await sendMessage(alice, roomId, "@deploy-bot", { parseMentions: true });
  assert.deepEqual(mentions.principalIds, [deploy.id]);
});
