// Around messages: what a reply replies to, where the focus is after a deletion, and the older part of the inbox.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { message } from "./web_round.ts";
import {
  assertNoReports,
  holdEffects,
  holdTimers,
  messagesOn,
  sees,
  signIn,
  untilGone,
  visit,
  write,
} from "./web_page.ts";

/** More than the client reads at first, of messages and of notifications. */
const MANY = 75;

/** Evaluated again and again from here: the policy of the page lets it evaluate no text itself. */
async function becomesTrue(page: Page, expression: string): Promise<void> {
  await eventually(async () => assert.equal(await page.evaluate(expression), true, expression));
}

/** Drops a file; returns whether the browser was prevented from opening it. */
async function drop(page: Page, selector: string, name = "dropped.txt", type = ""): Promise<boolean> {
  return await page.evaluate(`(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["text"], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} }));
    const events = ["dragover", "drop"].map((type) => new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
    for (const event of events) document.querySelector(${JSON.stringify(selector)}).dispatchEvent(event);
    return events.every(({ defaultPrevented }) => defaultPrevented);
  })()`);
}

async function confirmDelete(page: Page, text: string): Promise<void> {
  await message(page, text).hover();
  await message(page, text).getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await untilGone(page.getByRole("dialog"));
  await untilGone(message(page, text));
}

browserTest("a reply quotes what its reader may see, focus stays in place, and the inbox has more", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: "ada", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: "bob" });
  const carol = await target.createPrincipal({ sub: "carol", name: "carol" });
  const post = (token: string, path: string, body: unknown) => target.call(token, "POST", path, body);
  const { id: roomId } = await post(ada, "/v1/rooms", {
    name: "team",
    memberIds: ["bob"],
    historyVisibility: "joined",
  });
  const send = (token: string, text: string, more = {}) => post(token, "/v1/messages", { roomId, text, ...more });
  const first = await send(bob, "The  **plan**\nis <b>old</b>");
  await target.call(ada, "PUT", `/v1/rooms/${roomId}/members/carol`);
  for (let n = 0; n < MANY; n++) await send(bob, `note ${n}`, { mentions: { principalIds: ["ada"], room: false } });
  const agreed = await send(bob, "I agree", { replyToId: first.id });
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, ada);
  const composer = page.locator(".chat .composer textarea");
  const quote = (of: Page) => message(of, "I agree").locator(".reply-line");
  await t.step("a reply quotes one line, and what becomes of it", async () => {
    await page.getByRole("link", { name: /team/ }).first().click();
    await sees(page, "I agree");
    await quote(page).getByText("in reply to bob: The plan is <b>old</b>", { exact: true }).waitFor();
    const { height = 0 } = await quote(page).boundingBox() ?? {};
    assert.ok(height > 0 && height < 32, `${height}`);
    await target.call(bob, "PATCH", `/v1/messages/${first.id}`, { text: "The plan is new" });
    await quote(page).getByText("in reply to bob: The plan is new").waitFor();
    await target.call(bob, "DELETE", `/v1/messages/${first.id}`);
    await quote(page).getByText("in reply to bob: a deleted message").waitFor();
  });
  await t.step("a reply quotes nothing that its reader may not see", async () => {
    const other = await signIn(browser, target, carol);
    const read = other.waitForResponse((response) => response.url().includes(`/v1/messages/${first.id}`));
    await other.getByRole("link", { name: /team/ }).first().click();
    await sees(other, "I agree");
    assert.equal((await read).status(), 404);
    assert.equal(await quote(other).innerText(), "in reply to a message");
    await message(other, "I agree").hover();
    await message(other, "I agree").getByRole("button", { name: "More" }).click();
    await other.getByRole("menuitem", { name: "Copy link" }).waitFor();
    assert.equal(await other.getByRole("menuitem", { name: "Pin" }).count(), 0, "only moderators may pin");
    await other.close();
  });
  await t.step("who reacted is said on demand, also of those who come later", async () => {
    const react = (token: string) => target.call(token, "PUT", `/v1/messages/${agreed.id}/reactions/:shipit:`);
    await holdEffects(page);
    await react(bob);
    const reaction = message(page, "I agree").getByRole("button", { name: /^:shipit:, / });
    await reaction.hover();
    await page.locator('.reactions [title="bob"]').waitFor();
    await page.evaluate("release()");
    assert.equal(await reaction.getAttribute("title"), "bob", "what the frame was for removes nothing");
    await reaction.click();
    await message(page, "I agree").getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Reactions" }).click();
    const dialog = page.getByRole("dialog", { name: "Reactions" });
    await eventually(async () =>
      assert.deepEqual(await dialog.locator("li span[dir]").allInnerTexts(), ["bob", "ada"])
    );
    await react(carol);
    await dialog.locator("li", { hasText: "carol" }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
  });
  await t.step("a message is saved by a key, with a reminder, until it is done", async () => {
    await message(page, "I agree").focus();
    await page.keyboard.press("s");
    await page.getByText("Saved. It is listed in Later").waitFor();
    await visit(page, "later");
    const saved = page.locator(".cards > li", { hasText: "I agree" });
    await saved.getByRole("button", { name: "Remind me" }).click();
    const dialog = page.getByRole("dialog", { name: "Reminder" });
    await dialog.locator("select").selectOption("Tomorrow morning");
    assert.match(await dialog.locator("input").inputValue(), /T09:00$/);
    await dialog.getByRole("button", { name: "Remind me" }).click();
    await saved.getByText("at 9:00").waitFor();
    await saved.getByRole("button", { name: "Done", exact: true }).click();
    await page.getByText("Nothing is saved.").waitFor();
    await page.getByRole("link", { name: "Done", exact: true }).click();
    await saved.getByRole("button", { name: "Not done" }).click();
    await page.getByText("Nothing is done yet.").waitFor();
    await page.getByRole("link", { name: "To do" }).click();
    await saved.getByRole("link").click();
    await page.locator(".message.marked", { hasText: "I agree" }).waitFor();
  });
  await t.step("a message is forwarded as a link, which shows it only to those who may read it", async () => {
    const { id: secretId } = await post(ada, "/v1/rooms", { name: "secret" });
    const topic = "See https://example.org/a";
    const { id: besideId } = await post(ada, "/v1/rooms", { name: "beside", memberIds: ["carol"], topic });
    const source = await post(ada, "/v1/messages", { roomId: secretId, text: "Only for a few" });
    await visit(page, `rooms/${secretId}`);
    await eventually(async () =>
      assert.match(await page.locator(".beginning").innerText(), /the beginning\. Add members/)
    );
    await message(page, "a few").hover();
    await message(page, "a few").getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Forward" }).click();
    const dialog = page.getByRole("dialog", { name: "Forward" });
    assert.notEqual(await dialog.locator("option").first().innerText(), "# secret", "another room than its own");
    await dialog.locator("select").selectOption({ label: "# beside" });
    await dialog.locator("textarea").fill("Look\n\nשלום.");
    await dialog.getByRole("button", { name: "Forward" }).click();
    const linked = page.locator("a.linked");
    await linked.getByText("Only for a few").waitFor();
    await page.locator(".page-head").getByRole("link", { name: "https://example.org/a" }).waitFor();
    const distance = await page.evaluate(`(() => {
        const [, paragraph] = document.querySelectorAll(".chat .text p");
        const range = document.createRange();
        range.selectNodeContents(paragraph);
        return paragraph.getBoundingClientRect().right - range.getBoundingClientRect().right;
      })()`);
    assert.ok(Number(distance) < 2, "a paragraph from right to left begins at the right");
    const other = await signIn(browser, target, carol);
    const read = other.waitForResponse((response) => response.url().includes(`/v1/messages/${source.id}`));
    await visit(other, `rooms/${besideId}`);
    await sees(other, "Look");
    assert.equal((await read).status(), 404);
    assert.equal(await other.locator("a.linked").count(), 0);
    await other.close();
    await target.call(ada, "PATCH", `/v1/messages/${source.id}`, { text: "For nobody" });
    await linked.getByText("For nobody").waitFor();
    await target.call(ada, "DELETE", `/v1/messages/${source.id}`);
    await untilGone(linked);
    await visit(page, `rooms/${roomId}`);
    await sees(page, "I agree");
    for (const id of [secretId, besideId]) await target.call(ada, "DELETE", `/v1/rooms/${id}`);
  });
  await t.step("after a deletion, the next message has the focus, or the composer", async () => {
    for (const text of ["One of mine", "Another of mine"]) {
      await write(page, text);
      await sees(page, text);
    }
    await untilGone(page.locator(".unsent"));
    await confirmDelete(page, "One of mine");
    // Until the deleted one is removed, that one may have it.
    await page.locator("article.message:focus", { hasText: "Another of mine" }).waitFor();
    await confirmDelete(page, "Another of mine");
    await becomesTrue(page, "document.activeElement?.matches('.composer textarea')");
  });
  await t.step("cancelled, the focus is where it was", async () => {
    await message(page, "I agree").hover();
    await message(page, "I agree").getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await becomesTrue(page, "document.activeElement?.ariaLabel === 'More'");
  });
  await t.step("what is removed from a list leaves the focus to what was next to it", async () => {
    for (const name of ["one", "two"]) await post(ada, "/v1/collaboration/tokens", { name, scopes: ["room.read"] });
    await visit(page, "profile");
    await page.getByLabel("Status").fill("Half a status");
    await page.locator("input[type=file]").setInputFiles({
      name: "me.png",
      mimeType: "image/png",
      buffer: await page.screenshot({ clip: { x: 0, y: 0, width: 40, height: 40 } }),
    });
    await page.locator(".large-avatar img").waitFor();
    assert.equal(await page.getByLabel("Status").inputValue(), "Half a status", "a new picture leaves the rest");
    const entry = (name: string) => page.locator("li", { hasText: name });
    await entry("one").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await untilGone(entry("one"));
    await becomesTrue(page, "document.activeElement.textContent === 'Revoke'");
    await entry("two").locator(":focus").waitFor();
  });
  await t.step("an application that acts for its user is in the profile", async () => {
    const used = { scopes: ["message.read"], createdAt: new Date().toISOString(), lastUsedAt: null };
    const items = [{ id: "grant_1", clientName: "Desk Assistant", clientHost: "desk.example", ...used }];
    await page.route("**/oauth/applications", (route) => route.fulfill({ json: { items } }));
    await page.reload();
    await page.locator("li", { hasText: "Desk Assistant of desk.example" }).getByRole("button", { name: "Revoke" })
      .waitFor();
    await page.unroute("**/oauth/applications");
  });
  await t.step("a status still ends when it was to end, after the name was changed", async () => {
    const until = "2100-01-01T00:00:00.000Z";
    const path = "/v1/collaboration/me";
    await target.call(ada, "PATCH", path, { status: { text: "On holiday", emoji: "🏖️", until } });
    await page.reload();
    await visit(page, "profile");
    await page.getByLabel("Name", { exact: true }).fill("Ada L.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved").waitFor();
    const { principal } = await target.call(ada, "GET", path);
    assert.deepEqual([principal.displayName, principal.status?.until], ["Ada L.", until]);
    await target.call(ada, "PATCH", path, { displayName: "ada", status: null });
  });
  await t.step("a token is created for a script, and shown once", async () => {
    await page.getByRole("button", { name: "New token" }).click();
    // The profile has a name as well.
    await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("three");
    await page.getByLabel("Scopes").fill("room.read, principal.read");
    await page.getByRole("button", { name: "Create" }).click();
    const token = await page.getByRole("textbox", { name: "Token" }).inputValue();
    const { scopes } = await target.call(token, "GET", "/v1/collaboration/me");
    assert.deepEqual(scopes.toSorted(), ["principal.read", "room.read"]);
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    await page.locator("li", { hasText: "three" }).getByRole("button", { name: "Revoke" }).waitFor();
  });
  await t.step("dates are written, and pages colored, as it was chosen for this browser", async () => {
    const choose = async (locale: string, firstDay: string, colors: string): Promise<void> => {
      await visit(page, "profile");
      await page.getByLabel("Language of dates").selectOption(locale);
      await page.getByLabel("A week begins on").selectOption(firstDay);
      await page.getByLabel("Colors").selectOption(colors);
      await allEnded([page.waitForEvent("load"), page.getByRole("button", { name: "Apply" }).click()]);
    };
    await choose("de", "0", "dark");
    await becomesTrue(page, "getComputedStyle(document.body).backgroundColor === 'rgb(23, 24, 27)'");
    await visit(page, "calendar");
    await page.locator(".day-column h3", { hasText: /^So/ }).waitFor();
    assert.match(await page.locator(".day-column h3").first().innerText(), /^So/);
    assert.ok((await page.locator(".hours span").allInnerTexts()).includes("14:00"));
    await choose("", "1", "");
  });
  await t.step("the inbox shows older notifications on demand", async () => {
    await page.getByRole("link", { name: /Inbox/ }).first().click();
    const entries = page.locator("li.notification");
    await eventually(async () => assert.equal(await entries.count(), 50));
    await page.getByRole("button", { name: "Show more" }).click();
    await eventually(async () => assert.equal(await entries.count(), MANY));
    await untilGone(page.getByRole("button", { name: "Show more" }));
    const focused =
      "[...document.querySelectorAll('li.notification')].findIndex((one) => one.matches(':focus-within'))";
    await becomesTrue(page, `${focused} === 50`);
    // They stay while new messages arrive.
    await send(bob, "one more", { mentions: { principalIds: ["ada"], room: false } });
    await eventually(async () => assert.equal(await entries.count(), MANY + 1));
  });
  await t.step("who has asked for it is notified by the system while another window is in front", async () => {
    await visit(page, "profile");
    await page.evaluate(`(() => {
        globalThis.shown = [];
        globalThis.Notification = class {
          static permission = "granted";
          static requestPermission = () => Promise.resolve("granted");
          constructor(title, { body }) { globalThis.shown.push(title + ": " + body); }
        };
        document.hasFocus = () => false;
      })()`);
    const mention = { mentions: { principalIds: ["ada"], room: false } };
    await page.getByLabel("In this browser, also while").check();
    await send(bob, "Look **here**", mention);
    const isShown = "globalThis.shown.join() === 'bob mentioned you: Look here'";
    await becomesTrue(page, isShown);
    await page.getByLabel("In this browser, also while").uncheck();
    await becomesTrue(page, "localStorage.length === 0");
    await send(bob, "And here", mention);
    await page.locator(".places .badge").waitFor();
  });
  await t.step("a day of a conversation is found by its date", async () => {
    await visit(page, `rooms/${roomId}`);
    await sees(page, "I agree");
    await page.getByRole("button", { name: "Room menu" }).click();
    await page.getByRole("menuitem", { name: "Go to a date" }).click();
    await page.getByLabel("Day").fill("2020-01-01");
    await page.getByRole("button", { name: "Go", exact: true }).click();
    await page.locator(`.marked[data-id="${first.id}"]`).waitFor();
    await page.locator(".day button").first().click();
    await page.getByRole("dialog", { name: "Go to a date" }).getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Latest" }).click();
    const isAtEnd = `(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight < 2)` +
      `(document.querySelector(".chat .messages"))`;
    await becomesTrue(page, isAtEnd);
    // What appears below makes the list lower, while an event of an earlier scrolling is on its way.
    await page.evaluate(`(() => {
        const list = document.querySelector(".chat .messages");
        list.style.bottom = "200px";
        list.dispatchEvent(new Event("scroll"));
      })()`);
    await becomesTrue(page, isAtEnd);
    await untilGone(page.getByRole("button", { name: "Latest" }));
    await page.evaluate('document.querySelector(".chat .messages").style.bottom = ""');
  });
  await t.step("Escape leaves a thread, back to its message", async () => {
    await visit(page, `rooms/${roomId}`);
    await message(page, "I agree").focus();
    await page.keyboard.press("Enter");
    await page.locator(".pane textarea[aria-label='Reply in thread']:focus").waitFor();
    await page.keyboard.press("Escape");
    await untilGone(page.locator(".pane"));
    await becomesTrue(page, "document.activeElement.textContent.includes('I agree')");
  });
  const editor = page.getByLabel("Edit message");
  /** Sends a message, and writes another text in its editor. */
  const edit = async (before: string, after: string): Promise<void> => {
    await write(page, before);
    await untilGone(page.locator(".unsent"));
    await composer.press("ArrowUp");
    // With the focus it gets a cursor, which would end a selection.
    await page.locator(".edit textarea:focus").waitFor();
    await editor.fill(after);
  };
  await t.step("an edit is as it was left, also after another room was open", async () => {
    await edit("Words to change", "Changed");
    await editor.selectText();
    await page.keyboard.press("Control+b");
    assert.equal(await editor.inputValue(), "**Changed**");
    await visit(page, "inbox");
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    await visit(page, `rooms/${roomId}`);
    assert.equal(await editor.inputValue(), "**Changed**");
    await editor.press("Enter");
    await message(page, "Changed").locator("strong", { hasText: "Changed" }).waitFor();
  });
  await t.step("an edit is saved once, although Enter is pressed twice", async () => {
    await edit("Words to change once", "Changed once");
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let saves = 0;
    await page.route("**/v1/messages/msg_*", async (route) => {
      saves++;
      await released;
      await route.continue();
    });
    await editor.press("Enter");
    await editor.press("Enter");
    release();
    await sees(page, "Changed once");
    await untilGone(editor);
    assert.equal(saves, 1);
    await page.unroute("**/v1/messages/msg_*");
  });
  await t.step("a message that is changed before the response to its sending is there stays as it is", async () => {
    await page.route("**/v1/messages", async (route) => {
      const response = await route.fetch();
      const { id, text } = await response.json();
      if (text === "Too early") {
        await target.call(ada, "PATCH", `/v1/messages/${id}`, { text: "Just in time" });
        await sees(page, "Just in time");
      }
      await route.fulfill({ response });
    });
    await write(page, "Too early");
    await write(page, "The next one");
    // It is sent once the response for the first one is there.
    await page.locator(`.chat .message[data-id^="msg_"]`, { hasText: "The next one" }).waitFor();
    assert.ok((await messagesOn(page)).some((text) => text.includes("Just in time")));
    await page.unroute("**/v1/messages");
  });
  await t.step("names of emoji are completed, also for screen readers", async () => {
    await composer.pressSequentially("Done :par");
    await page.getByRole("option", { name: /^party / }).waitFor();
    const current = await composer.getAttribute("aria-activedescendant");
    assert.equal(await page.locator(`#${current}`).getAttribute("aria-selected"), "true");
    await page.keyboard.press("Enter");
    await eventually(async () => assert.equal(await composer.inputValue(), "Done 🎉 "));
    for (const name of [":heart:", ":+1:", ":white_check_mark:"]) await composer.pressSequentially(name);
    await eventually(async () => assert.equal(await composer.inputValue(), "Done 🎉 ❤️ 👍 ✅ "));
  });
  await t.step("a room is linked by its name", async () => {
    const { name } = await target.call(ada, "GET", `/v1/rooms/${roomId}`);
    await composer.fill("");
    await composer.pressSequentially(`see #${name.slice(0, 3).toLowerCase()}`);
    await page.getByRole("option", { name: `#${name}` }).waitFor();
    await page.keyboard.press("Enter");
    await eventually(async () =>
      assert.equal(await composer.inputValue(), `see [#${name}](${target.baseUrl}/#/rooms/${roomId}) `)
    );
    await composer.fill("");
  });
  await t.step(
    "a command that the room does not have is given back, and sent where a space precedes it",
    async () => {
      // The notice stays until it was seen.
      await holdTimers(page, 6000);
      const reads: string[] = [];
      page.on("request", (request) => void (request.url().includes("/commands?") && reads.push(request.url())));
      await write(page, "/deplyo hush");
      await page.locator(".notices").getByText("This room has no command /deplyo").waitFor();
      await page.evaluate("release()");
      await eventually(async () => assert.equal(await composer.inputValue(), "/deplyo hush"));
      assert.equal(reads.length, 1);
      await write(page, "/usr/bin is a path");
      await write(page, " /deplyo is misspelled");
      await sees(page, "/deplyo is misspelled");
      const sent = (await messagesOn(page)).filter((text) => text.startsWith("/"));
      assert.deepEqual(sent, ["/usr/bin is a path", "/deplyo is misspelled"]);
    },
  );
  await t.step("files dropped beside the conversation leave the page as it is; a thread takes them", async () => {
    await message(page, "I agree").focus();
    await page.keyboard.press("Enter");
    await page.locator(".pane .composer").waitFor();
    // Without this the browser opens the file.
    assert.equal(await drop(page, ".sidebar"), true);
    assert.equal(await drop(page, ".pane"), true);
    await page.locator(".pane .attachments .ready", { hasText: "dropped.txt" }).waitFor();
    assert.equal(await page.locator(".attachments span").count(), 1);
    await page.reload();
    await page.locator(".pane .attachments .ready").getByRole("button", { name: "Remove dropped.txt" }).click();
  });
  await t.step("a file is uploaded although its extension says something else than its content", async () => {
    // Browsers take TypeScript for a video, and other programs name files as they like.
    for (const [name, type] of [["code.ts", "video/mp2t"], ["table.pdf", "application/pdf"]] as const) {
      await drop(page, ".chat", name, type);
      const attachment = page.locator(".chat .attachments .ready", { hasText: name });
      await attachment.getByRole("button", { name: `Remove ${name}` }).click();
      await untilGone(attachment);
    }
  });
  await t.step("a file that could not be uploaded is uploaded again, and its progress is shown", async () => {
    const isRefused = page.waitForEvent("requestfailed", (request) => request.url().includes("/collaboration/files"));
    await page.route("**/collaboration/files?*", (route) => route.abort());
    await drop(page, ".chat");
    await isRefused;
    await page.unroute("**/collaboration/files?*");
    const leave = "dispatchEvent(new Event('beforeunload', { cancelable: true }))";
    await page.route("**/collaboration/files?*", async (route) => {
      await page.getByRole("progressbar", { name: "Uploading dropped.txt" }).waitFor();
      // Who leaves the page is asked first.
      assert.equal(await page.evaluate(leave), false);
      await route.continue();
    });
    await page.locator(".chat .attachments .failed").getByRole("button", { name: "Try again" }).click();
    await page.locator(".chat .attachments .ready").waitFor();
    assert.equal(await page.evaluate(leave), true);
    await page.unroute("**/collaboration/files?*");
    await composer.press("Enter");
    await page.getByRole("button", { name: "Room menu" }).click();
    await page.getByRole("menuitem", { name: "Files" }).click();
    await page.locator(".pane .file-card", { hasText: "dropped.txt" }).waitFor();
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
  });
  await t.step("what could not be read without a connection is read with the next one", async () => {
    await visit(page, "inbox");
    await page.context().setOffline(true);
    await page.locator(".link-state:not(.connected)").waitFor();
    await visit(page, `rooms/${roomId}?thread=${first.id}`);
    await page.locator(".pane").getByText("The messages could not be read.").waitFor();
    await page.context().setOffline(false);
    await untilGone(page.locator(".pane").getByText("The messages could not be read."));
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
  });
  await t.step("a pane that could not be loaded is loaded on demand", async () => {
    await page.route("**/room-members.ts", (route) => route.abort());
    await page.getByRole("button", { name: "members" }).click();
    await page.getByText("Members could not be loaded.").waitFor();
    await page.unroute("**/room-members.ts");
    await page.locator(".pane").getByRole("button", { name: "Try again" }).click();
    await page.locator(".pane li", { hasText: "carol" }).waitFor();
    await page.locator(".pane").getByRole("button", { name: "Close" }).click();
  });
  await t.step("a conversation of several begins with those who are added", async () => {
    await page.getByRole("button", { name: "New", exact: true }).click();
    await page.getByRole("menuitem", { name: "New direct message" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("somebody else");
    await dialog.getByText("No person has this name.").waitFor();
    await dialog.getByLabel("Name").fill("");
    for (const name of ["bob", "carol"]) {
      await dialog.locator("li", { hasText: name }).getByRole("button", { name: "Add" }).click();
    }
    await dialog.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "bob, carol" }).first().waitFor();
  });
  await t.step(
    "a message that is too long is edited, and of many rooms what is new for the caller comes first",
    async () => {
      await Promise.all(Array.from({ length: 30 }, (_, n) => post(ada, "/v1/rooms", { name: `Room ${n}` })));
      const direct = await post(carol, "/v1/rooms", { kind: "direct", memberIds: ["ada"] });
      await post(carol, "/v1/messages", { roomId: direct.id, text: "How are you?" });
      const first = page.locator(".sidebar .rooms > :is(h2, a)").first();
      await first.getByText("New for you").waitFor();
      await visit(page, `rooms/${direct.id}`);
      await message(page, "How are you?").hover();
      await message(page, "How are you?").getByRole("button", { name: "Reply", exact: true }).click();
      await composer.fill("long ".repeat(13_000));
      await composer.press("Enter");
      await page.locator(".unsent").getByRole("button", { name: "Edit" }).waitFor();
      // It is not among those that are sent once the connection is back.
      await page.context().setOffline(true);
      await page.locator(".banner").getByText("Reconnecting…", { exact: true }).waitFor();
      await page.context().setOffline(false);
      await page.locator(".unsent").getByRole("button", { name: "Edit" }).click();
      await untilGone(page.locator(".unsent"));
      await eventually(async () => assert.match(await composer.inputValue(), /^long long/));
      await page.locator(".reply-bar", { hasText: /in reply to carol: How are you/i }).getByRole("button").click();
      await composer.fill("");
      const all = page.getByRole("button", { name: "Show all 31" });
      assert.ok(await page.locator(".sidebar .room").count() < 31);
      await all.click();
      await eventually(async () => assert.equal(await page.locator(".sidebar .room").count(), 33));
      // The open room stays where it was when it was opened.
      assert.equal(await first.innerText(), "New for you");
      // What is typed next belongs to the room below, also before the browser reports the new address, which no microtask is.
      const opened = await page.evaluate<string>(`(async () => {
        dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", altKey: true }));
        for (let turn = 0; turn < 100; turn++) await null;
        return document.querySelector(".sidebar .room.open").getAttribute("href");
      })()`);
      assert.match(opened, /^#\/rooms\//);
      assert.notEqual(opened, `#/rooms/${direct.id}`);
      assert.notEqual(await composer.getAttribute("aria-label"), "Message carol");
    },
  );
  await t.step("of many rooms, one is opened by a part of its name and Enter", async () => {
    const filter = page.getByRole("searchbox", { name: "Find a room" });
    await filter.fill("oom 17");
    await eventually(async () => assert.equal(await page.locator(".sidebar .room").count(), 1));
    await filter.press("Enter");
    await page.getByRole("heading", { name: "Room 17" }).first().waitFor();
    assert.equal(await filter.inputValue(), "");
  });
  await t.step("a message whose response broke off is sent again, and is there once", async () => {
    await page.evaluate(() => {
      const { json } = Response.prototype;
      Response.prototype.json = function () {
        if (!this.url.endsWith("/v1/messages")) return json.call(this);
        Response.prototype.json = json;
        return Promise.reject(new TypeError("Failed to fetch"));
      };
    });
    await write(page, "Only once");
    await sees(page, "Only once");
    await becomesTrue(page, "sessionStorage.getItem('gateway.unsent') === '[]'");
    assert.equal((await messagesOn(page)).filter((text) => text === "Only once").length, 1);
  });
  await assertNoReports(page);
});
