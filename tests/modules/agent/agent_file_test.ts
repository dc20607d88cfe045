// Images and texts that agents read: of the message that asks and of the newest before it, as all who asked may at that moment.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { estimateTokens } from "@/core/text/tokens.ts";
import type { ModelImage, ModelMessage } from "@/ports/model.ts";
import { testOnEngines } from "../../engines.ts";
import type { Caller } from "../../harness.ts";
import { GIF, JPEG, jpegWithMetadata, PNG, png, SECRET_LOCATION } from "../file/file_images.ts";
import { FILES, upload } from "../file/file_harness.ts";
import { ok, sendMessage } from "../fixtures.ts";
import { AgentFixture, callTools } from "./agent_fixture.ts";

async function uploadImage({ gateway }: AgentFixture, who: Caller, name: string, bytes = JPEG): Promise<string> {
  return ok(await upload(gateway, who, { name }, bytes)).id;
}

function imagesOf(messages: readonly ModelMessage[] = []): ModelImage[] {
  return messages.flatMap((message) => message.role === "user" ? message.images ?? [] : []);
}

/** What the last message of a prompt says before each of its images, and the names of these. */
function shownIn({ models }: AgentFixture): [text: string, name: string][] {
  const last = models.calls.at(-1)?.request.messages.findLast(({ role }) => role === "user");
  assert.ok(last?.role === "user");
  return (last.images ?? []).map(({ at, name }) => [last.text.slice(0, at).split("\n\n").at(-1) ?? "", name]);
}

testOnEngines("an agent sees the images of the message that asks, and none of their metadata", async (environment) => {
  await using fixture = await AgentFixture.open(undefined, { environment, agent: { tools: ["room.read"] } });
  const { bob, gateway, models } = fixture;
  fixture.answer(async ({ number }) => {
    if (number > 1) return "A red square";
    ok(await bob.delete(`${FILES}/${fileIds.at(-1)}`));
    return callTools(["room_read", {}]);
  });
  const fileIds = [
    await uploadImage(fixture, bob, "photo.jpg", jpegWithMetadata(JPEG, 6)),
    ok(await upload(gateway, bob, { name: "notes.txt" }, "Nothing")).id,
    await uploadImage(fixture, bob, "film.gif", GIF),
    await uploadImage(fixture, bob, "deleted meanwhile"),
  ];
  await fixture.mention(bob, "What is wrong here?", { fileIds });
  const run = await fixture.settled();
  const said =
    "[bob] What is wrong here?\n(file: photo.jpg)\n(file: notes.txt)\n(file: film.gif)\n(file: deleted meanwhile)\n" +
    "[Content of the file notes.txt]\nNothing\n[End of the file notes.txt]";
  assert.deepEqual(shownIn(fixture), [[said, "photo.jpg"], [said, "film.gif"]]);
  // Each step reads them again: what is stored of a run names the message only.
  assert.deepEqual(models.calls.map(({ request }) => imagesOf(request.messages).length), [3, 2]);
  for (const { contentType, base64 } of imagesOf(models.calls[0]?.request.messages)) {
    const bytes = Buffer.from(base64, "base64");
    assert.deepEqual([contentType, bytes.subarray(0, 2).toString("hex")], ["image/jpeg", "ffd8"]);
    assert.equal(bytes.includes(SECRET_LOCATION), false);
    assert.equal(bytes.includes("Exif"), false);
    const { db } = gateway.app.store;
    const rows = [
      await db.selectFrom("agent_run").selectAll().execute(),
      await db.selectFrom("agent_step").selectAll().execute(),
    ];
    assert.equal(JSON.stringify([rows, run]).includes(base64), false);
  }
});

Deno.test("of earlier messages an agent sees the newest images, and none that was deleted or that is not one", async () => {
  await using fixture = await AgentFixture.open();
  const { bob, roomId } = fixture;
  const ids: string[] = [];
  for (const name of ["one", "two", "three", "four", "five", "six"]) {
    ids.push(await uploadImage(fixture, bob, name));
    await sendMessage(bob, roomId, name, { fileIds: ids.slice(-1) });
  }
  ok(await bob.delete(`${FILES}/${ids[4]}`));
  const broken = await uploadImage(fixture, bob, "broken", PNG.slice(0, 60));
  await fixture.mention(bob, "Which is best?", { fileIds: [broken] });
  await fixture.settled();
  assert.deepEqual(shownIn(fixture).map(([, name]) => name), ["three", "four", "six"]);
  const text = JSON.stringify(fixture.models.calls[0]?.request.messages);
  assert.match(text, /\(file: broken\)\\n\(the image broken is not shown: it cannot be decoded\)/);
});

Deno.test("a model reads of images that it takes none of, or that are too large for it", async () => {
  const environment = { SVC_AI_MODEL: "small, tiny context=3000, blind images=0" };
  await using fixture = await AgentFixture.open(() => "Well", { environment });
  const { alice, bob, agentId, models } = fixture;
  // Transparency is lost.
  const fileIds = [await uploadImage(fixture, bob, "photo", png(1600, 400, [0, 200, 0, 128]))];
  const ask = async (model: string, count: number): Promise<string> => {
    ok(await alice.patch(`/v1/collaboration/agents/${agentId}`, { model }));
    await fixture.mention(bob, model, { fileIds });
    await fixture.settled("succeeded", count);
    return JSON.stringify(models.calls.at(-1)?.request.messages);
  };
  await ask("small", 1);
  const [{ contentType, width, height } = {}] = imagesOf(models.calls[0]?.request.messages);
  assert.deepEqual([contentType, width, height], ["image/jpeg", 1568, 392]);
  assert.match(await ask("tiny", 2), /the image photo is not shown: there are too many, or they are too large/);
  assert.match(await ask("blind", 3), /the image photo is not shown: the model takes none/);
  assert.deepEqual(models.calls.slice(1).flatMap(({ request }) => imagesOf(request.messages)), []);
});

Deno.test("an agent sees no images for those whose tokens may not read files", async () => {
  await using fixture = await AgentFixture.open();
  const { bob, gateway } = fixture;
  const fileIds = [await uploadImage(fixture, bob, "photo")];
  const weak = await gateway.as("bob", { scope: "message.read message.write room.read" });
  await fixture.mention(bob, "What is this?", { fileIds });
  await fixture.settled();
  assert.deepEqual(shownIn(fixture).map(([, name]) => name), ["photo"]);
  await fixture.mention(weak, "And now?");
  await fixture.settled("succeeded", 2);
  assert.deepEqual(imagesOf(fixture.models.calls.at(-1)?.request.messages), []);
});

Deno.test("an agent reads the beginning of text files, and nothing of other ones", async () => {
  await using fixture = await AgentFixture.open(() => "Well", { environment: { SVC_AI_MODEL: "tiny context=4000" } });
  const { bob, gateway } = fixture;
  const row = "one,two,three\n";
  const uploads = [
    upload(gateway, bob, { name: "table.csv" }, row.repeat(10_000), { "content-type": "text/csv" }),
    upload(gateway, bob, { name: "late.md" }, "# Late"),
    upload(gateway, bob, { name: "wide.txt" }, new Uint8Array([0xff, 0xfe, 0x41, 0])),
    upload(gateway, bob, { name: "binary" }, new Uint8Array([1, 2, 3])),
  ];
  const fileIds = (await Promise.all(uploads)).map((response) => ok(response).id);
  await fixture.mention(bob, "What do they say?", { fileIds });
  await fixture.settled();
  const { request } = fixture.models.calls[0] ?? {};
  const text = request?.messages.findLast((message) => message.role === "user")?.text ?? "";
  assert.match(
    text,
    /\n\[Content of the file table\.csv\]\none,two,three\none,[^\[]*… \(cut\)\n\[End of the file table\.csv\]/,
  );
  const tokens = estimateTokens(text);
  assert.ok(tokens > 1000 && tokens < 1300, `${tokens} tokens`);
  assert.doesNotMatch(text, /Content of the file (?:wide|binary)/);
  // What the files take is missing for the response.
  assert.ok((request?.maxOutputTokens ?? Infinity) <= 1000);
});
