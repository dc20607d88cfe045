// What people try because other applications have it.
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { createTemporaryFolder } from "../temporary_folder.ts";
import { allEnded, eventually, WAIT_MS } from "../wait.ts";
import { openTarget } from "./target.ts";
import { message } from "./web_round.ts";
import { assertNoReports, holdEffects, openClient, sees, signIn, untilGone, visit, write } from "./web_page.ts";

/** Not a secure page, as that of a gateway in a local network. */
const LOCAL = "gateway.test";
/** More than a page of messages, each of another day. */
const DAYS = 80;
/** Of the calendar. */
const HOUR_PX = 46;
const DOCUMENTS = "/v1/collaboration/documents";

/** Pastes something of these types; returns whether the page took it instead of the browser. */
async function pasteIn(
  page: Page,
  into: string,
  texts: Record<string, string>,
  [bytes, name]: readonly [readonly number[], string] | [] = [],
): Promise<boolean> {
  return await page.evaluate(`(() => {
    const clipboardData = new DataTransfer();
    for (const [type, text] of ${JSON.stringify(Object.entries(texts))}) clipboardData.setData(type, text);
    const bytes = ${JSON.stringify(bytes ?? null)};
    const name = ${JSON.stringify(name ?? null)};
    if (bytes) clipboardData.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
    const event = new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData });
    document.querySelector(${JSON.stringify(into)}).dispatchEvent(event);
    return event.defaultPrevented;
  })()`);
}

/** Pastes a picture as the browser does, without a clipboard of the machine. */
async function pastePicture(page: Page, into: string, name: string): Promise<void> {
  const bytes = [...await page.screenshot({ clip: { x: 0, y: 0, width: 40, height: 20 } })];
  await pasteIn(page, into, {}, [bytes, name]);
}

browserTest("what people are used to works as elsewhere", async (t) => {
  await using folder = await createTemporaryFolder();
  const environment = {
    SVC_DATABASE_URL: `sqlite:${folder.path}/gateway.db`,
    SVC_DATA_DIR: folder.path,
    SVC_PUSH_CONTACT: "mailto:ops@example.com",
  };
  await using target = await openTarget({ isOwn: true, environment });
  const ada = await target.createPrincipal({ sub: "ada", name: "Ada", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob", name: "Bob" });
  const post = (token: string, path: string, body: unknown) => target.call(token, "POST", path, body);
  const contentOf = async (id: string): Promise<string> =>
    (await target.call(ada, "GET", `${DOCUMENTS}/${id}/content?format=markdown`)).text;
  const { id: roomId } = await post(ada, "/v1/rooms", { name: "team", memberIds: ["bob"] });
  const browser = await launchBrowser(`--host-resolver-rules=MAP ${LOCAL} 127.0.0.1`);
  try {
    const page = await signIn(browser, target, ada);
    const composerOf = ".chat .composer textarea";
    const composer = page.locator(composerOf);
    await t.step("in a local network, without https, messages are sent and links copied", async () => {
      const local = await openClient(browser, target.baseUrl.replace("127.0.0.1", LOCAL));
      assert.equal(await local.evaluate("isSecureContext"), false);
      await local.getByLabel("Access token").fill(bob);
      await local.getByRole("button", { name: "Sign in" }).click();
      await local.getByRole("link", { name: /team/ }).click();
      await write(local, "From the next room");
      await sees(local, "From the next room");
      await untilGone(local.locator(".unsent"));
      await message(local, "From the next room").hover();
      await message(local, "From the next room").getByRole("button", { name: "More" }).click();
      // It is there for some seconds only.
      const isCopied = local.getByText("Link copied").waitFor();
      await allEnded([isCopied, local.getByRole("menuitem", { name: "Copy link" }).click()]);
      await local.locator(".chat .composer textarea").press("Control+v");
      await eventually(async () =>
        assert.match(await local.locator(".chat .composer textarea").inputValue(), /^http:.+\?message=msg_/)
      );
      await local.context().close();
    });
    await t.step("earlier versions of a message are a click away", async () => {
      const { id } = await post(bob, "/v1/messages", { roomId, text: "At **five**" });
      await target.call(bob, "PATCH", `/v1/messages/${id}`, { text: "At six" });
      await page.getByRole("link", { name: /team/ }).click();
      await message(page, "At six").getByRole("button", { name: "(edited)" }).click();
      const versions = page.getByRole("dialog", { name: "Edit history" }).locator("li");
      await versions.locator("strong", { hasText: "five" }).waitFor();
      assert.match(await versions.first().innerText(), /\(now\)\s+At six/);
      await target.call(bob, "PATCH", `/v1/messages/${id}`, { text: "At seven" });
      await versions.getByText("At seven").waitFor();
      await page.keyboard.press("Escape");
    });
    await t.step("what is inserted in a line leaves the cursor behind it", async () => {
      await composer.fill("Ask  about it");
      await composer.press("Home");
      for (let n = 0; n < "Ask ".length; n++) await composer.press("ArrowRight");
      await composer.pressSequentially("@bo");
      await page.getByRole("option", { name: /Bob/ }).waitFor();
      await composer.press("Enter");
      await composer.pressSequentially("now");
      assert.equal(await composer.inputValue(), "Ask @bob now about it");
    });
    await t.step("what is inserted or formatted can be undone", async () => {
      await composer.press("Control+a");
      await composer.pressSequentially("Ask @bo");
      await page.getByRole("option", { name: /Bob/ }).waitFor();
      await composer.press("Enter");
      assert.equal(await composer.inputValue(), "Ask @bob ");
      await composer.press("Control+a");
      await composer.press("Control+b");
      assert.equal(await composer.inputValue(), "**Ask @bob **");
      await composer.press("Control+z");
      assert.equal(await composer.inputValue(), "Ask @bob ");
      await composer.press("Control+z");
      assert.equal(await composer.inputValue(), "Ask @bo");
    });
    await t.step("an address that is pasted on a word becomes its link, and a spreadsheet stays text", async () => {
      await composer.fill("the plan");
      await composer.press("Home");
      for (let n = 0; n < "the".length; n++) await composer.press("Shift+ArrowRight");
      const files = [[1], "cells.png"] as const;
      assert.equal(await pasteIn(page, composerOf, { "text/plain": "https://example.com/plan" }), true);
      assert.equal(await composer.inputValue(), "[the](https://example.com/plan) plan");
      assert.equal(await pasteIn(page, composerOf, { "text/plain": "1 2", "text/html": "<b>1</b>" }, files), false);
      assert.equal(await page.locator(".attachments").count(), 0);
      await composer.fill("");
      await pastePicture(page, composerOf, "cells.png");
      const attachment = page.locator(".chat .attachments .ready", { hasText: "cells.png" });
      await attachment.locator("img[src]").waitFor();
      await attachment.getByRole("button", { name: "Remove cells.png" }).click();
    });
    await t.step("Enter ends a line of code, and sends once the block has ended", async () => {
      await composer.fill("```");
      await composer.press("Enter");
      await composer.pressSequentially("const x = 1;");
      await composer.press("Enter");
      await composer.pressSequentially("```");
      await composer.press("Enter");
      await page.locator(".chat .message pre", { hasText: "const x = 1;" }).waitFor();
      assert.equal(await composer.inputValue(), "");
      await page.locator(`.chat .message[data-id^="msg_"] pre`, { hasText: "const x = 1;" }).waitFor();
      await page.evaluate(`Object.defineProperty(navigator, "clipboard", {
        configurable: true,
        value: { writeText: async (text) => void (globalThis.copied = text) },
      })`);
      await page.getByRole("button", { name: "Copy code" }).click();
      await eventually(async () => assert.equal(await page.evaluate("globalThis.copied"), "const x = 1;"));
    });
    await t.step("a new line continues a list, and ends it after an empty item", async () => {
      await composer.pressSequentially("1. one");
      await composer.press("Shift+Enter");
      await composer.pressSequentially("two");
      await composer.press("Shift+Enter");
      assert.equal(await composer.inputValue(), "1. one\n2. two\n3. ");
      await composer.press("Shift+Enter");
      await composer.press("Shift+Enter");
      assert.equal(await composer.inputValue(), "1. one\n2. two\n\n");
      await composer.fill("");
    });
    await t.step("an own message is edited, and deleted without any text, if its author wants that", async () => {
      await composer.press("ArrowUp");
      const editor = page.getByLabel("Edit message");
      await page.locator(".edit textarea:focus").waitFor();
      await editor.fill("```\nconst x = 2;");
      await editor.press("Enter");
      assert.equal(await editor.inputValue(), "```\nconst x = 2;\n", "it ends a line of code here as well");
      await editor.fill("");
      await editor.press("Enter");
      await page.getByRole("dialog", { name: "Delete this message?" }).getByRole("button", { name: "Cancel" }).click();
      await page.locator(".chat .message pre", { hasText: "const x = 1;" }).waitFor();
    });
    await t.step("a link to a message is followed in the same tab", async () => {
      const { id } = await post(bob, "/v1/messages", { roomId, text: "The place" });
      const { id: other } = await post(ada, "/v1/rooms", { name: "elsewhere", memberIds: ["bob"] });
      const text = `[See there](${target.baseUrl}/#/rooms/${roomId}?message=${id})`;
      await post(bob, "/v1/messages", { roomId: other, text });
      await visit(page, `rooms/${other}`);
      await page.getByRole("link", { name: "See there" }).click();
      await page.locator(`.marked[data-id="${id}"]`).waitFor();
      assert.equal(page.context().pages().length, 1);
      await page.goBack();
      await page.getByRole("link", { name: "See there" }).waitFor();
    });
    await t.step("who comes back to an open room sees what is new", async () => {
      await visit(page, `rooms/${roomId}`);
      await sees(page, "The place");
      await page.locator(".room.open:not(.unread)").waitFor();
      // The page sends later how far it has read, and what comes until then may be counted with that.
      await eventually(async () => {
        const { items } = await target.call(ada, "GET", "/v1/collaboration/unreads");
        const { unreadCount } = items.find((one: { roomId: string }) => one.roomId === roomId) ?? { unreadCount: 0 };
        assert.equal(unreadCount, 0);
      });
      await page.evaluate("document.hasFocus = () => false");
      await post(bob, "/v1/messages", { roomId, text: "While you were away" });
      await page.locator(".unread-line + article", { hasText: "While you were away" }).waitFor();
      await page.evaluate("document.hasFocus = () => true");
      await page.evaluate("void dispatchEvent(new Event('focus'))");
      await page.locator(".room.open:not(.unread)").waitFor();
      assert.equal(await page.locator(".unread-line").count(), 1);
    });
    await t.step("the calendar has months, with what is on each day", async () => {
      const events = "/v1/collaboration/calendar/events";
      let talk = { id: "" };
      for (let hour = 10; hour < 14; hour++) {
        const start = { dateTime: `2027-02-10T${hour}:00:00`, timeZone: "UTC" };
        talk = await post(ada, events, { roomId, title: `Talk at ${hour}`, start });
      }
      // A link to an event leaves the month as it is.
      await visit(page, `calendar?at=2027-02-10&view=month&event=${talk.id}`);
      await page.getByRole("dialog").getByText("Talk at 13").waitFor();
      await page.keyboard.press("Escape");
      await page.locator(".month").waitFor();
      await post(ada, events, { roomId, title: "Fair", start: { date: "2027-02-27" }, end: { date: "2027-03-03" } });
      await visit(page, `rooms/${roomId}/calendar?at=2027-02-10`);
      await page.getByRole("button", { name: /Talk at 13/ }).waitFor();
      await page.getByRole("button", { name: "Month", exact: true }).click();
      await page.getByRole("heading", { name: "February 2027" }).waitFor();
      const day = (name: string) => page.locator(".month").getByRole("region", { name });
      await day("February 28, 2027").getByRole("button", { name: "Fair" }).waitFor();
      assert.equal(await page.locator(".month section").count(), 28);
      await page.getByRole("button", { name: "Next month" }).click();
      await day("March 2, 2027").getByRole("button", { name: "Fair" }).waitFor();
      await page.getByRole("button", { name: "Previous month" }).click();
      const more = day("February 10, 2027").getByRole("button", { name: "2 more" });
      await more.waitFor();
      // What was read for the month between may still be shown for a moment.
      const talks = day("February 10, 2027").getByRole("button", { name: /Talk/ });
      await eventually(async () => assert.equal(await talks.count(), 2));
      await holdEffects(page);
      await more.click();
      await page.locator(".week").waitFor();
      assert.notEqual(
        await page.evaluate("document.querySelector('.week').scrollTop"),
        0,
        "nothing moves once it is seen",
      );
      await page.evaluate("release()");
      await page.locator(".week").getByRole("button", { name: /Talk at 13/ }).waitFor();
    });
    await t.step("an event is dragged to another time and day by those who may change it", async () => {
      const talk = page.locator(".week").getByRole("button", { name: /Talk at 13/ });
      const dayOf = (of: Page, name: string) => of.locator(".week").getByRole("region", { name });
      /** By two hours and a quarter, to the next day. */
      const drag = async (of: Page): Promise<void> => {
        await of.locator(".week").getByRole("button", { name: /Talk at 13/ }).hover();
        const from = await dayOf(of, "10 Wed").boundingBox();
        const to = await dayOf(of, "11 Thu").boundingBox();
        const box = await of.locator(".week").getByRole("button", { name: /Talk at 13/ }).boundingBox();
        assert.ok(from !== null && to !== null && box !== null);
        const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
        await of.mouse.down();
        await of.mouse.move(x + to.x - from.x, y + 2.25 * HOUR_PX, { steps: 3 });
        await of.mouse.up();
      };
      const startOf = async (): Promise<string> => {
        const query = `roomId=${roomId}&from=2027-02-08T00:00:00Z&to=2027-02-15T00:00:00Z&expand=true`;
        const { items } = await target.call(ada, "GET", `/v1/collaboration/calendar/events?${query}`);
        return items.find(({ title }: { title: string }) => title === "Talk at 13").startAt;
      };
      const other = await signIn(browser, target, bob);
      await visit(other, new URL(page.url()).hash.slice(2));
      await drag(other);
      assert.equal(Date.parse(await startOf()), Date.UTC(2027, 1, 10, 13), "it is Ada's");
      await drag(page);
      await dayOf(page, "11 Thu").getByRole("button", { name: /Talk at 13/ }).waitFor();
      assert.equal(Date.parse(await startOf()), Date.UTC(2027, 1, 11, 15, 15));
      assert.equal(await page.getByRole("dialog").count(), 0);
      await dayOf(other, "11 Thu").getByRole("button", { name: /Talk at 13/ }).waitFor();
      await other.close();
      await talk.click();
      await page.getByRole("dialog", { name: "Talk at 13" }).getByRole("button", { name: "Close" }).click();
    });
    await t.step("Escape closes what is beside the conversation, and leaves the search", async () => {
      await visit(page, `rooms/${roomId}`);
      await composer.fill("Half a message");
      await page.getByRole("button", { name: "2 members" }).click();
      await page.locator(".pane").getByRole("button", { name: "Close" }).focus();
      await page.keyboard.press("Escape");
      await untilGone(page.locator(".pane"));
      await page.locator(`${composerOf}:focus`).waitFor();
      await page.keyboard.press("Control+k");
      await page.locator(".search-form input:focus").waitFor();
      await page.locator(".sidebar .room", { hasText: "team" }).getByRole("img", { name: "draft" }).waitFor();
      await page.keyboard.type("no such thing");
      await page.keyboard.press("Escape");
      await eventually(async () => assert.equal(await page.getByLabel("Search", { exact: true }).inputValue(), ""));
      await page.keyboard.press("Escape");
      await page.locator(`${composerOf}:focus`).waitFor();
      assert.equal(await composer.inputValue(), "Half a message");
      await composer.fill("");
    });
    await t.step("each day of a long conversation is found by its date", async () => {
      const { id } = await post(ada, "/v1/rooms", { name: "long" });
      const ids: string[] = [];
      for (let day = 0; day < DAYS; day++) {
        ids.push((await post(ada, "/v1/messages", { roomId: id, text: `Day ${day}` })).id);
      }
      const dateOf = (day: number): string => new Date(Date.UTC(2024, 0, 5 + 3 * day, 12)).toISOString();
      using database = new DatabaseSync(`${folder.path}/gateway.db`, { timeout: WAIT_MS });
      const update = database.prepare("update message set created_at = ? where id = ?");
      for (const [day, one] of ids.entries()) update.run(dateOf(day), one);
      await visit(page, `rooms/${id}`);
      // The last day, one in the middle, one that nothing was written on, and one before all.
      for (
        const [date, day] of [[dateOf(DAYS - 1), DAYS - 1], [dateOf(31), 31], ["2024-02-12", 13], [
          "2023-01-01",
          0,
        ]] as const
      ) {
        await page.getByRole("button", { name: "Room menu" }).click();
        await page.getByRole("menuitem", { name: "Go to a date" }).click();
        await page.getByLabel("Day").fill(date.slice(0, 10));
        await page.getByRole("button", { name: "Go", exact: true }).click();
        await page.locator(`.marked[data-id="${ids[day]}"]`).waitFor();
      }
    });
    await t.step("half a comment is there after its pane was closed, and after the page was left", async () => {
      const { id } = await post(ada, DOCUMENTS, { roomId, title: "Plan" });
      await visit(page, `documents/${id}`);
      const comment = page.getByLabel("Comment", { exact: true });
      await page.getByRole("button", { name: "Comments" }).click();
      await comment.fill("Half a comm");
      await page.locator(".pane").getByRole("button", { name: "Close" }).click();
      await page.getByRole("button", { name: "Comments" }).click();
      assert.equal(await comment.inputValue(), "Half a comm");
      await page.reload();
      await page.getByRole("button", { name: "Comments" }).click();
      assert.equal(await comment.inputValue(), "Half a comm");
      await comment.fill("A comment");
      await comment.press("Enter");
      await page.locator(".comment", { hasText: "A comment" }).waitFor();
      await eventually(async () => assert.equal(await comment.inputValue(), ""));
    });
    await t.step(
      "a picture that is pasted in a line of Markdown is named there, and shown in the preview",
      async () => {
        const text = "Before after";
        const { id } = await post(ada, DOCUMENTS, { roomId, title: "Pictures", text });
        await visit(page, `documents/${id}`);
        await page.locator(".cm-line", { hasText: text }).click();
        await page.keyboard.press("Home");
        for (let n = 0; n < "Before".length; n++) await page.keyboard.press("ArrowRight");
        await pastePicture(page, ".cm-content", "a [b].png");
        const named = /^Before!\[a \\\[b\\\]\.png\]\(\/v1\/collaboration\/files\/file_\w+\/content\) after$/;
        await eventually(async () => assert.match(await contentOf(id), named));
        await page.getByRole("button", { name: "Preview" }).click();
        await page.locator(".preview").getByRole("img", { name: "a [b].png" }).waitFor();
        assert.equal(await page.locator(".preview img").evaluate((image) => image.getAttribute("src")?.[0]), "h");
      },
    );
    await t.step("a picture that is pasted in a line of formatted text is below it", async () => {
      const { id } = await post(ada, DOCUMENTS, { roomId, title: "Rich", kind: "rich", text: "One line\n\nAnother" });
      await visit(page, `documents/${id}`);
      await page.locator(".ProseMirror p", { hasText: "One line" }).dblclick({ position: { x: 4, y: 8 } });
      await page.keyboard.press("ArrowRight");
      // The editor has read where the cursor is once it has drawn a frame.
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      await pastePicture(page, ".ProseMirror", "below.png");
      await page.getByRole("img", { name: "below.png" }).waitFor();
      await page.keyboard.type("!");
      await eventually(async () => assert.match(await contentOf(id), /^One! line\n\n!\[below\.png\]\(.+\)\n\nAnother/));
    });
    await t.step("who has asked for it is notified while no page of the client is open", async () => {
      await visit(page, "profile");
      // No push service can be reached, and this browser shows no notifications.
      await page.evaluate(`(() => {
        Notification.requestPermission = () => Promise.resolve("granted");
        PushManager.prototype.subscribe = ({ applicationServerKey }) => Promise.resolve({
          toJSON: () => ({
            endpoint: "https://fcm.googleapis.com/fcm/send/ada",
            keys: { p256dh: applicationServerKey, auth: "BTBZMqHH6r4Tts7J_aSIgg" },
          }),
        });
      })()`);
      await page.getByLabel("In this browser, also while").check();
      await eventually(async () => {
        const { items } = await target.call(ada, "GET", "/v1/collaboration/push-subscriptions");
        assert.deepEqual(items.map(({ service }: { service: string }) => service), ["fcm.googleapis.com"]);
      });
      await visit(page, "inbox");
      await visit(page, "profile");
      await page.getByText("Chrome on Linux").waitFor();
      const [worker] = page.context().serviceWorkers();
      await worker?.evaluate(`
        registration.showNotification = (title, { body, data }) => Promise.resolve(self.shown = { title, body, data });
        clients.matchAll = () => Promise.resolve([]);
        clients.openWindow = ({ href }) => Promise.resolve(self.opened = href);
      `);
      const notification = {
        id: "ntf_1",
        kind: "mention",
        actor: null,
        roomId,
        messageId: "msg_1",
        preview: "**Look** &amp; see",
      };
      const data = { notification: { ...notification, resource: null, data: {} }, actorName: "Bob", moreCount: 2 };
      const happened = (type: string, fields: string): Promise<unknown> | undefined =>
        worker?.evaluate(
          `new Promise((resolve, reject) => dispatchEvent(Object.assign(new Event("${type}"), ${fields}, {
          waitUntil: (work) => work.then(resolve, reject),
        })))`,
        );
      await happened("push", `{ data: { json: () => (${JSON.stringify(data)}) } }`);
      const { title, body } = await worker?.evaluate("shown") as { title: string; body: string };
      assert.deepEqual([title, body], ["Bob mentioned you, and 2 more", "Look & see"]);
      await happened("notificationclick", "{ notification: { data: shown.data, close() {} } }");
      assert.equal(await worker?.evaluate("opened"), `${target.baseUrl}/#/rooms/${roomId}?message=msg_1`);
    });
    await t.step("who signs out in one tab is signed out in the others, and nobody else is", async () => {
      const second = await page.context().newPage();
      await second.goto(`${target.baseUrl}/#/profile`);
      await visit(page, `rooms/${roomId}`);
      await composer.waitFor();
      const other = await page.context().newPage();
      // Asks nobody for a session, as after somebody has signed out.
      await other.addInitScript("sessionStorage.setItem('gateway.reason', '')");
      await other.goto(target.baseUrl);
      await other.getByLabel("Access token").fill(bob);
      await other.getByRole("button", { name: "Sign in" }).click();
      await other.locator(".link-state.connected").waitFor();
      await second.getByRole("button", { name: "Sign out" }).click();
      for (const tab of [second, page]) await tab.getByText("You are signed out.").waitFor();
      await other.bringToFront();
      await other.getByRole("link", { name: /team/ }).click();
      await write(other, "Still here");
      await sees(other, "Still here");
    });
    await assertNoReports(page);
  } finally {
    await browser.close();
    await target.process?.stop();
  }
});
