// Two people in two browsers, with the network cut and the gateway restarted in between. In the end both screens and the API agree.
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { PNG } from "../modules/file/file_images.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { addGardener, modelSettings, serveModel } from "./web_model.ts";
import { meet, message, textOf, workTogether } from "./web_round.ts";
import { assertNoReports, messagesOn, sees, signIn, write } from "./web_page.ts";

/** How often they go on working; a longer run takes as many as it is given. */
const ROUNDS = Number(Deno.env.get("TWO_PEOPLE_ROUNDS") ?? 1);

function idsOn(page: Page): Promise<string[]> {
  return page.locator(".chat .message[data-id]").evaluateAll((all) =>
    (all as unknown as { dataset: { id: string } }[]).map(({ dataset }) => dataset.id)
  );
}

browserTest("two people work together in two browsers, through a cut network and a restart", async (t) => {
  await using model = serveModel();
  await using target = await openTarget({ isOwn: true, environment: modelSettings(model) });
  const tokens = {
    ada: await target.createPrincipal({ sub: "ada", name: "Ada", role: "owner", ttlSeconds: 36_000 }),
    bob: await target.createPrincipal({ sub: "bob", name: "Bob", ttlSeconds: 36_000 }),
  };
  const room = await target.call(tokens.ada, "POST", "/v1/rooms", { name: "Launch", memberIds: ["bob"] });
  await addGardener(target, tokens.ada, room.id);
  await using browser = await launchBrowser(
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--autoplay-policy=no-user-gesture-required",
  );
  const [ada, bob] = await Promise.all([signIn(browser, target, tokens.ada), signIn(browser, target, tokens.bob)]);
  for (const page of [ada, bob]) await page.getByRole("link", { name: /Launch/ }).click();

  await t.step("messages, mentions with completion, and typing", async () => {
    await write(ada, "Hello **Bob**");
    await sees(bob, "Hello Bob");
    // The first may have been read, the second is an event, as typing is: from now on they arrive.
    await write(ada, "Are you there?");
    await sees(bob, "Are you there?");
    const isShown = bob.getByText("Ada is typing…").waitFor();
    await ada.locator(".composer textarea").pressSequentially("Look @bo");
    await ada.locator(".completion li").first().waitFor();
    await isShown;
    await ada.keyboard.press("Tab");
    await ada.keyboard.press("Enter");
    await sees(bob, "Look @bob");
    await bob.locator(".message.mentions-me", { hasText: "Look @bob" }).waitFor();
  });

  await t.step("a reaction, an edit, a pin and a thread", async () => {
    await message(bob, "Hello Bob").hover();
    await message(bob, "Hello Bob").getByRole("button", { name: "React with 👍" }).click();
    await message(ada, "Hello Bob").getByRole("button", { name: "👍, 1 reaction" }).waitFor();
    await ada.locator(".composer textarea").press("ArrowUp");
    await ada.getByLabel("Edit message").fill("Look here, @bob");
    await ada.keyboard.press("Enter");
    await sees(bob, "Look here, @bob");
    await message(bob, "Hello Bob").hover();
    await message(bob, "Hello Bob").getByRole("button", { name: "Reply in thread" }).click();
    await write(bob, "In the thread", ".pane");
    await message(ada, "Hello Bob").getByRole("button", { name: /1 reply/ }).click();
    await sees(ada, "In the thread", ".pane");
    assert.ok(
      !(await messagesOn(ada)).some((text) => text.includes("In the thread")),
      "replies are in threads only",
    );
    for (const page of [ada, bob]) await page.locator(".pane").getByRole("button", { name: "Close" }).click();
  });

  await t.step("a picture is attached, and shown to the other", async () => {
    await ada.locator(".chat input[type=file]").setInputFiles({
      name: "dot.png",
      mimeType: "image/png",
      buffer: Buffer.from(PNG),
    });
    await ada.locator(".attachments .ready").waitFor();
    await write(ada, "A picture");
    const picture = message(bob, "A picture").getByRole("img", { name: "dot.png" });
    await eventually(async () =>
      assert.ok(await picture.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth > 0))
    );
  });

  await t.step("a task moves on both boards, by keyboard", async () => {
    // Bob's board is read before the task exists, and arrives after it.
    const [isRead, isCreated] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await bob.route(/\/v1\/collaboration\/tasks\?/, async (route) => {
      const response = await route.fetch();
      isRead.resolve();
      await isCreated.promise;
      await route.fulfill({ response });
    });
    for (const page of [ada, bob]) await page.getByRole("link", { name: "Tasks" }).last().click();
    await isRead.promise;
    await ada.getByLabel("New task").fill("Write notes");
    await ada.keyboard.press("Enter");
    await ada.getByRole("button", { name: /Write notes/ }).waitFor();
    isCreated.resolve();
    await bob.getByLabel("To do").getByRole("button", { name: /Write notes/ }).focus();
    await bob.keyboard.press("Alt+ArrowRight");
    await ada.getByLabel("In progress").getByRole("button", { name: /Write notes/ }).waitFor();
  });

  await t.step("both edit one document, with each other's cursors", async () => {
    await ada.getByRole("link", { name: "Documents" }).last().click();
    await ada.getByRole("button", { name: "New document" }).click();
    await ada.getByLabel("Title").fill("Plan");
    await ada.getByRole("button", { name: "Create" }).click();
    await ada.locator(".cm-content").click();
    await ada.locator(".cm-focused").waitFor();
    await ada.keyboard.type("# Plan\n\n");
    await bob.getByRole("link", { name: "Documents" }).last().click();
    await bob.getByRole("link", { name: "Plan" }).click();
    // Until he has it, he would write in an empty one.
    await bob.locator(".cm-line", { hasText: "# Plan" }).waitFor();
    await bob.locator(".cm-line").last().click();
    await bob.locator(".cm-focused").waitFor();
    await Promise.all([
      ada.keyboard.type("Ada was here. ", { delay: 10 }),
      bob.keyboard.type("Bob, too. ", { delay: 14 }),
    ]);
    await ada.locator(".remote-caret", { hasText: "Bob" }).waitFor();
    const id = ada.url().split("/").at(-1) ?? "";
    await eventually(async () => {
      const { text } = await target.call(tokens.ada, "GET", `/v1/collaboration/documents/${id}/content`);
      assert.equal(text.length, "# Plan\n\nAda was here. Bob, too. ".length);
      for (const page of [ada, bob]) {
        const shown = await textOf(page);
        assert.equal(shown, text);
      }
    });
  });

  await t.step("both see each other in a call", () => meet(ada, bob, "Launch"));

  await t.step("what is written without a network is sent once, when it is back", async () => {
    for (const page of [ada, bob]) await page.getByRole("link", { name: /Launch/ }).first().click();
    await ada.context().setOffline(true);
    await target.process?.stop("SIGKILL");
    await write(ada, "Written offline");
    await message(ada, "Written offline").getByText("sending…").waitFor();
    await ada.getByText("Reconnecting…").waitFor();
    await target.process?.start();
    await ada.context().setOffline(false);
    await sees(bob, "Written offline");
    await eventually(async () => assert.equal(await ada.locator(".unsent").count(), 0));
  });

  await t.step("they go on, round after round", async () => {
    for (let round = 1; round <= ROUNDS; round++) {
      await workTogether(round, { target, ada, bob, room: "Launch", title: "Plan" });
    }
  });

  await t.step("both screens agree with the API", async () => {
    await write(bob, "The end");
    await sees(ada, "The end");
    const { items } = await target.call(tokens.ada, "GET", `/v1/messages?roomId=${room.id}&limit=100`);
    const ids = items.filter(({ threadId }: { threadId: string | null }) => threadId === null)
      .map(({ id }: { id: string }) => id);
    for (const page of [ada, bob]) {
      await eventually(async () => {
        // A long conversation is compared as far as both have it.
        const shown = await idsOn(page);
        assert.ok(shown.length >= Math.min(ids.length, 5));
        assert.deepEqual(shown.slice(-ids.length), ids.slice(-shown.length));
      });
      await assertNoReports(page);
    }
  });
});
