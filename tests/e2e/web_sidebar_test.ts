// What the list of rooms says: what is unread, and what is written and not sent yet.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { message } from "./web_round.ts";
import { assertNoReports, holdTimers, sees, signIn, unreadRooms, untilGone, visit, write } from "./web_page.ts";

/** After so long, a page sends how far a room was read. */
const READ_DELAY_MS = 800;

/** Ids that more than one element has. */
function repeatedIds(page: Page): Promise<unknown> {
  return page.evaluate(`(() => {
    const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
    return ids.filter((id, at) => ids.indexOf(id) < at);
  })()`);
}

browserTest("the list of rooms says what is unread and what is unfinished", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.token({ sub: "ada", name: "Ada", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: "Bob" });
  const post = (path: string, body: unknown, by = bob) => target.call(by, "POST", path, body);
  const [plans, garden] = [
    await post("/v1/rooms", { name: "Plans", memberIds: ["bob"] }, ada),
    await post("/v1/rooms", { name: "Garden", memberIds: ["bob"] }, ada),
  ];
  const question = await post("/v1/messages", { roomId: plans.id, text: "The question" });
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, ada);
  const room = (name: string) => page.locator(".sidebar .room", { hasText: name });
  const composer = page.locator(".chat .composer textarea");
  const reply = page.locator(".pane .composer textarea");

  await t.step("a thread is closed to the message that it is about, and is not there twice", async () => {
    await room("Plans").click();
    await sees(page, "The question");
    await message(page, "The question").hover();
    await message(page, "The question").getByRole("button", { name: "Reply in thread" }).click();
    await reply.waitFor();
    await page.locator(".pane .thread-root", { hasText: "The question" }).waitFor();
    assert.deepEqual(await repeatedIds(page), []);
    const follow = page.locator(".pane").getByRole("button", { name: "Follow", exact: true });
    const unfollow = page.locator(".pane").getByRole("button", { name: "Unfollow" });
    await follow.click();
    await unfollow.waitFor();
    await target.call(ada, "DELETE", `/v1/threads/${question.id}/follow`);
    await follow.click();
    await unfollow.waitFor();
    await reply.fill("Half a reply");
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
    await page.locator(".chat .message:focus", { hasText: "The question" }).waitFor();
  });

  await t.step("what is written in a thread is known in its room, and in the list of rooms", async () => {
    await page.getByRole("link", { name: "Draft in a thread: Half a reply" }).waitFor();
    await room("Garden").click();
    await page.getByRole("heading", { name: "# Garden" }).waitFor();
    await room("Plans").getByRole("img", { name: "draft" }).waitFor();
    assert.equal(await room("Garden").getByRole("img", { name: "draft" }).count(), 0);
    await page.reload();
    await room("Plans").getByRole("img", { name: "draft" }).waitFor();
    await room("Plans").click();
    await page.getByRole("link", { name: "Draft in a thread: Half a reply" }).click();
    await eventually(async () => assert.equal(await reply.inputValue(), "Half a reply"));
    await untilGone(page.getByRole("link", { name: /^Draft in a thread/ }));
  });

  await t.step("what the next message replies to stays, also after a reload, and a reply in a thread", async () => {
    await message(page, "The question").first().hover();
    await page.locator(".chat").getByRole("button", { name: "Reply", exact: true }).click();
    await page.getByRole("button", { name: "Do not reply" }).waitFor();
    await composer.fill("For all");
    await page.reload();
    await page.getByRole("button", { name: "Do not reply" }).waitFor();
    await eventually(async () => assert.equal(await composer.inputValue(), "For all"));
    await write(page, "A whole reply", ".pane");
    await sees(page, "A whole reply", ".pane");
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
    await composer.press("Enter");
    for (const displayName of ["Robert", "Bob"]) {
      await target.call(bob, "PATCH", "/v1/collaboration/me", { displayName });
      await message(page, "For all").getByText(`in reply to ${displayName}`).waitFor();
    }
    await room("Garden").click();
    await page.getByRole("heading", { name: "# Garden" }).waitFor();
    assert.equal(await page.locator(".sidebar .draft").count(), 0);
  });

  await t.step("a reply that is sent later is still one, and the next message is not", async () => {
    await room("Plans").click();
    await message(page, "The question").first().hover();
    await page.locator(".chat").getByRole("button", { name: "Reply", exact: true }).click();
    await composer.fill("In an hour");
    await page.getByRole("button", { name: "Send later" }).click();
    await page.getByRole("menuitem", { name: "Send later…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Schedule" }).click();
    await untilGone(page.getByRole("dialog"));
    const { items } = await target.call(ada, "GET", `/v1/messages/scheduled?roomId=${plans.id}`);
    assert.deepEqual(
      items.map(({ message: { text, replyToId } }: { message: Record<string, unknown> }) => [text, replyToId]),
      [["In an hour", question.id]],
    );
    assert.equal(await page.getByRole("button", { name: "Do not reply" }).count(), 0);
    await room("Garden").click();
    await page.getByRole("heading", { name: "# Garden" }).waitFor();
  });

  await t.step(
    "a room is a favorite, or muted, as long as a person wants, and notifies of the same after that",
    async () => {
      const choose = async (item: string): Promise<void> => {
        await page.getByRole("button", { name: "Room menu" }).click();
        await page.getByRole("menuitem", { name: item, exact: true }).click();
      };
      const favorites = page.locator(".sidebar").getByRole("heading", { name: "Favorites" });
      await room("Garden").click();
      await page.getByRole("heading", { name: "# Garden" }).waitFor();
      await choose("Add to favorites");
      await favorites.waitFor();
      await room("Plans").click();
      await page.getByRole("heading", { name: "# Plans" }).waitFor();
      await choose("Add to favorites");
      await eventually(async () =>
        assert.deepEqual(await page.locator(".sidebar .room").allInnerTexts(), ["Garden", "Plans"])
      );
      await choose("Remove from favorites");
      await room("Garden").click();
      await page.getByRole("heading", { name: "# Garden" }).waitFor();
      await choose("Remove from favorites");
      await untilGone(favorites);
      const path = `/v1/rooms/${garden.id}/settings`;
      await target.call(ada, "PATCH", path, { level: "mentions" });
      await choose("Mute");
      await page.locator(".sidebar .room.muted", { hasText: "Garden" }).waitFor();
      await choose("Unmute");
      await untilGone(page.locator(".sidebar .room.muted"));
      const { mySettings: { level, mutedUntil } } = await target.call(ada, "GET", `/v1/rooms/${garden.id}`);
      assert.deepEqual([level, mutedUntil], ["mentions", null]);
    },
  );

  await t.step("what arrives while a room is being marked as read is unread", async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const path = `**/v1/rooms/${garden.id}/read`;
    const held = page.waitForRequest(path);
    await page.route(path, async (route) => {
      const response = await route.fetch();
      await released;
      await route.fulfill({ response });
    });
    await post("/v1/messages", { roomId: garden.id, text: "Water them" });
    await sees(page, "Water them");
    await held;
    await visit(page, "inbox");
    // Once the position is stored: the next message is not a part of it.
    await eventually(async () => {
      const { items } = await target.call(ada, "GET", "/v1/collaboration/unreads");
      const { unreadCount } = items.find(({ roomId }: { roomId: string }) => roomId === garden.id);
      assert.equal(unreadCount, 0);
    });
    await post("/v1/messages", { roomId: garden.id, text: "Again" });
    await page.locator(".sidebar .room.unread", { hasText: "Garden" }).waitFor();
    const isReadAgain = page.waitForResponse(new RegExp(`/rooms/${garden.id}\\?`));
    release();
    await isReadAgain;
    await page.locator(".sidebar .room.unread", { hasText: "Garden" }).waitFor();
    await page.unroute(path);
  });

  await t.step("a message is marked as unread, and stays so on all devices until the room is left", async () => {
    const other = await signIn(browser, target, ada);
    await holdTimers(other, READ_DELAY_MS);
    let reads = 0;
    other.on("request", (request) => void (request.url().endsWith(`/${garden.id}/read`) && reads++));
    for (const one of [other, page]) {
      await visit(one, `rooms/${garden.id}`);
      await sees(one, "Again");
    }
    await eventually(async () => assert.deepEqual(await unreadRooms(target, ada), []));
    await message(page, "Water them").focus();
    await page.keyboard.press("u");
    for (const one of [page, other]) {
      await one.locator(".sidebar .room.unread", { hasText: "Garden" }).waitFor();
      await one.locator(".unread-line + article", { hasText: "Water them" }).waitFor();
    }
    // How far the other device was to say that it had read.
    await other.evaluate("release()");
    assert.equal(reads, 0);
    assert.deepEqual(await unreadRooms(target, ada), [garden.id]);
    await other.close();
    await visit(page, "inbox");
    await visit(page, `rooms/${garden.id}`);
    await untilGone(page.locator(".sidebar .room.unread", { hasText: "Garden" }));
  });

  const threadsUnread = page.locator(".sidebar .places a", { hasText: "Threads" }).getByRole("img", {
    name: "unread",
  });

  await t.step("threads are listed and replied to in place, and are marked while replies are unread", async () => {
    // More than a page, so that the thread is on the next one.
    let newest = question;
    for (let n = 1; n <= 20; n++) {
      newest = await target.call(ada, "POST", "/v1/messages", { roomId: garden.id, text: `Topic ${n}` });
      await post("/v1/messages", { roomId: garden.id, text: "A reply", threadId: newest.id });
    }
    await visit(page, "threads");
    await page.getByRole("button", { name: "Show more" }).click();
    const thread = page.locator(".threads > li", { hasText: "The question" });
    await thread.getByRole("button", { name: "Reply", exact: true }).click();
    await thread.locator("textarea:focus").fill("From the list");
    // What changes elsewhere leaves it on the screen.
    await post("/v1/messages", { roomId: garden.id, text: "Elsewhere", threadId: newest.id });
    await page.locator(".threads").getByText("Elsewhere").waitFor();
    assert.equal(await thread.locator("textarea:focus").count(), 1);
    await post("/v1/messages", { roomId: plans.id, text: "Meanwhile", threadId: question.id });
    await thread.getByText("Meanwhile").waitFor();
    await threadsUnread.waitFor();
    await thread.locator("textarea:focus").press("Enter");
    await thread.locator(".message:not(.unsent)", { hasText: "From the list" }).waitFor();
    await page.keyboard.press("Escape");
    await thread.locator("button:focus", { hasText: "Reply" }).waitFor();
    await page.getByRole("main").getByRole("link", { name: "Unread" }).click();
    await thread.getByText("1 new").waitFor();
  });

  await t.step("all rooms are marked as read at once, if a person wants that", async () => {
    await post("/v1/messages", { roomId: plans.id, text: "@ada look", parseMentions: true });
    await room("Plans").locator(".badge").waitFor();
    // A dialog stays that is opened between a key that leaves a place, and the report of the browser about that.
    await page.evaluate(`(async () => {
        const isReported = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
        dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
        document.querySelector("[aria-label='Mark all rooms as read']").click();
        await isReported;
      })()`);
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await room("Plans").locator(".badge").waitFor();
    const readAll = page.getByRole("button", { name: "Mark all rooms as read" });
    await readAll.click();
    await page.getByRole("dialog").getByRole("button", { name: "Mark as read" }).click();
    await eventually(async () => assert.equal(await page.locator(".sidebar .room.unread").count(), 0));
    await untilGone(readAll);
    await untilGone(threadsUnread);
    assert.deepEqual(await unreadRooms(target, ada), []);
    await eventually(async () => assert.equal(await page.title(), "Search"));
  });
  await t.step("a place that is loaded late does not replace the one that was opened since", async () => {
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>();
    await page.route("**/people-page.ts", (route) => isReleased.then(() => route.continue()));
    const isRequested = page.waitForRequest("**/people-page.ts");
    await visit(page, "people");
    const url = (await isRequested).url();
    await visit(page, "documents");
    const shown = page.getByRole("heading", { name: "Documents" });
    await shown.waitFor();
    release();
    await page.evaluate(`import(${JSON.stringify(url)}).then(() => {})`);
    assert.equal(await shown.count(), 1);
    await page.unroute("**/people-page.ts");
  });
  await assertNoReports(page);
});
