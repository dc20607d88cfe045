// What a person must not lose or be misled by: drafts, fields that others change meanwhile, unread counts, long threads, sessions.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { message } from "./web_round.ts";
import {
  assertNoReports,
  messagesOn,
  openClient,
  sees,
  signIn,
  unreadRooms,
  untilGone,
  visit,
  write,
} from "./web_page.ts";

/** More than one page of messages. */
const REPLIES = 70;
const UNREAD = 120;

async function enterToken(page: Page, token: string): Promise<void> {
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

browserTest("the page keeps what a person has written, and shows what is the case", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const tokens = {
    ada: await target.token({ sub: "ada", name: "Ada", role: "owner" }),
    bob: await target.createPrincipal({ sub: "bob", name: "Bob" }),
  };
  const post = (path: string, body: unknown, by = tokens.bob) => target.call(by, "POST", path, body);
  /** Until the gateway knows that Ada has read everything. */
  const isAllRead = () => eventually(async () => assert.deepEqual(await unreadRooms(target, tokens.ada), []));
  const room = await post("/v1/rooms", { name: "Plans", memberIds: ["bob"] }, tokens.ada);
  const root = await post("/v1/messages", { roomId: room.id, text: "The question" });
  await using browser = await launchBrowser();
  await t.step("a token that is not accepted is refused where it was entered", async () => {
    const page = await openClient(browser, target.baseUrl);
    await enterToken(page, "nonsense");
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Access token").waitFor();
    await page.close();
  });
  const ada = await signIn(browser, target, tokens.ada);
  const composer = ada.locator(".chat .composer textarea");
  await ada.getByRole("link", { name: /Plans/ }).click();
  await sees(ada, "The question");

  await t.step("a draft is there after a reload, and the focus is in it", async () => {
    await composer.fill("Half a thought");
    await ada.reload();
    await ada.locator(".chat .composer textarea:focus").waitFor();
    await eventually(async () => assert.equal(await composer.inputValue(), "Half a thought"));
  });

  await t.step("a session that expires while the page is open says so, and the draft is there after it", async () => {
    const bob = await signIn(browser, target, tokens.bob);
    await visit(bob, `rooms/${room.id}`);
    await bob.locator(".chat .composer textarea").fill("Half a sentence");
    let ttl = 1;
    await bob.routeWebSocket(/\/ws$/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((message) => socket.send(String(message).replace(/"ttl":\d+/, `"ttl":${ttl}`)));
    });
    await bob.reload();
    await bob.getByText("Your session has ended.").waitFor();
    ttl = 3600;
    await enterToken(bob, tokens.bob);
    await bob.locator(".link-state.connected").waitFor();
    await eventually(async () =>
      assert.equal(await bob.locator(".chat .composer textarea").inputValue(), "Half a sentence")
    );
    await bob.close();
  });

  await t.step("many replies leave a room with its messages, and read", async () => {
    for (let n = 1; n <= REPLIES; n++) {
      await post("/v1/messages", { roomId: room.id, threadId: root.id, text: `Reply ${n}` });
    }
    await message(ada, "The question").getByRole("button", { name: `${REPLIES} replies` }).waitFor();
    await ada.locator(".room.open:not(.unread)").waitFor();
    await ada.reload();
    await sees(ada, "The question");
    await isAllRead();
  });

  await t.step("the address of a reply opens its thread", async () => {
    const { items } = await target.call(tokens.ada, "GET", `/v1/messages?roomId=${room.id}&limit=1`);
    await visit(ada, `rooms/${room.id}?message=${items[0].id}`);
    await ada.locator(".pane .message.marked", { hasText: `Reply ${REPLIES}` }).waitFor();
    await ada.locator(".pane").getByRole("button", { name: "Close" }).click();
    await eventually(async () => assert.deepEqual(await messagesOn(ada), ["The question"]));
  });

  await t.step(
    "who was away finds the first unread message, and the newest ones when coming back later",
    async () => {
      const away = await post("/v1/rooms", { name: "Away", memberIds: ["ada"] });
      for (let n = 0; n < UNREAD; n += 20) {
        await Promise.all(
          Array.from({ length: 20 }, () => post("/v1/messages", { roomId: away.id, text: "Unread" })),
        );
      }
      const { items: [first] } = await target.call(
        tokens.bob,
        "GET",
        `/v1/messages?roomId=${away.id}&after=0&limit=1`,
      );
      const last = await post("/v1/messages", { roomId: away.id, text: "The latest news" });
      await ada.locator(".sidebar .room.unread", { hasText: "Away" }).waitFor();
      await ada.getByRole("link", { name: "Away" }).click();
      await ada.locator(`[data-id="${last.id}"]`).waitFor();
      await ada.getByRole("button", { name: "First unread" }).click();
      await ada.locator(`.marked[data-id="${first.id}"]`).waitFor();
      await untilGone(ada.getByRole("button", { name: "First unread" }));
      await ada.reload();
      await ada.locator(`.marked[data-id="${first.id}"]`).waitFor();
      assert.equal(await ada.locator(`[data-id="${last.id}"]`).count(), 0, "it is further away than a page");
      await ada.getByRole("link", { name: "Plans" }).click();
      await sees(ada, "The question");
      await ada.getByRole("link", { name: "Away" }).click();
      await sees(ada, "The latest news");
      // Only what has been on the screen for a moment is read.
      await isAllRead();
    },
  );

  await t.step("a mention that is deleted is no longer unread, and a room is found by its name", async () => {
    await visit(ada, "search");
    await ada.locator("[aria-label=Rooms] a", { hasText: "Plans" }).waitFor();
    const mention = await post("/v1/messages", { roomId: room.id, text: "@ada look", parseMentions: true });
    const plans = ada.locator(".sidebar .room", { hasText: "Plans" });
    await plans.locator(".badge").waitFor();
    await eventually(async () => assert.equal(await ada.title(), "(1) Search"));
    await target.call(tokens.bob, "DELETE", `/v1/messages/${mention.id}`);
    await untilGone(plans.locator(".badge"));
    await eventually(async () => assert.equal(await ada.title(), "Search"));
    await ada.getByRole("searchbox", { name: "Search" }).fill("plan");
    await ada.locator(".cards a", { hasText: "Plans" }).waitFor();
    await ada.keyboard.press("Enter");
    await sees(ada, "The question");
    // So is a person, whom one may write to then.
    await target.createPrincipal({ sub: "zoe", name: "Zoe" });
    await visit(ada, "search?q=zoe");
    await ada.getByRole("list", { name: "People" }).getByText("Zoe").waitFor();
    await ada.getByRole("searchbox", { name: "Search" }).press("Enter");
    await ada.getByLabel("Message Zoe").waitFor();
  });

  await t.step("who writes far above the end sees that", async () => {
    const { items } = await target.call(
      tokens.ada,
      "GET",
      `/v1/messages?roomId=${room.id}&threadId=${root.id}&limit=200`,
    );
    await visit(ada, `rooms/${room.id}?thread=${root.id}&reply=${items[0].id}`);
    await ada.locator(".pane .message.marked").waitFor();
    await write(ada, "The last reply", ".pane");
    const isOnScreen = (): boolean => {
      type Row = { textContent: string; getBoundingClientRect(): { top: number; bottom: number } };
      const page = globalThis as unknown as {
        document: { querySelectorAll(q: string): Iterable<Row> };
        innerHeight: number;
      };
      const row = [...page.document.querySelectorAll(".pane article[data-id]")]
        .find(({ textContent }) => textContent.includes("The last reply"));
      const { top, bottom } = row?.getBoundingClientRect() ?? { top: -1, bottom: 0 };
      return top >= 0 && bottom <= page.innerHeight;
    };
    await eventually(async () => assert.ok(await ada.evaluate(isOnScreen)));
    await ada.locator(".pane").getByRole("button", { name: "Close" }).click();
  });

  await t.step("an editor has the focus, and gives it back", async () => {
    await write(ada, "First words");
    await message(ada, "First words").hover();
    await message(ada, "First words").getByRole("button", { name: "More" }).click();
    await ada.getByRole("menuitem", { name: "Edit" }).click();
    await ada.locator(".edit textarea:focus").waitFor();
    await ada.keyboard.type(", and more");
    await ada.keyboard.press("Enter");
    await sees(ada, "First words, and more");
    await ada.locator(".message :focus").waitFor();
  });

  await t.step(
    "what is typed in a task stays while others change it, and is saved when the dialog is closed",
    async () => {
      const task = await post("/v1/collaboration/tasks", { roomId: room.id, title: "Water the plants" });
      await visit(ada, `rooms/${room.id}/tasks?task=${task.id}`);
      const description = ada.getByLabel("Description");
      await description.click();
      await ada.keyboard.type("Every ");
      await target.call(tokens.bob, "PATCH", `/v1/collaboration/tasks/${task.id}`, { priority: "high" });
      await eventually(async () => assert.equal(await ada.getByLabel("Priority").inputValue(), "high"));
      await ada.keyboard.type("day");
      assert.equal(await description.inputValue(), "Every day");
      const name = "Water the plants in front of the house and those behind it, also at the weekend and on holidays";
      const field = ada.getByLabel("Title", { exact: true });
      await field.fill(name);
      await field.press("Enter");
      const isWhole = await field.evaluate((element) => {
        const { scrollWidth, clientWidth, scrollHeight, clientHeight } = element as unknown as Record<string, number>;
        return scrollWidth === clientWidth && scrollHeight === clientHeight;
      });
      assert.ok(isWhole, "the whole title is seen");
      await ada.keyboard.press("Escape");
      await untilGone(ada.locator("dialog"));
      await eventually(async () => {
        const saved = await target.call(tokens.bob, "GET", `/v1/collaboration/tasks/${task.id}`);
        assert.deepEqual([saved.title, saved.description, saved.priority], [name, "Every day", "high"]);
      });
      const title = ada.getByLabel("New task");
      await ada.route("**/collaboration/tasks", (route) => route.abort());
      await title.fill("Feed the cat");
      // Until it says so, it is being sent. It says so for some seconds only.
      const isRefused = ada.getByText("The gateway cannot be reached").first().waitFor();
      await allEnded([isRefused, title.press("Enter")]);
      await ada.unroute("**/collaboration/tasks");
      assert.equal(await title.inputValue(), "Feed the cat", "it was not created");
      await title.press("Enter");
      await ada.getByRole("button", { name: /Feed the cat/ }).waitFor();
      await eventually(async () => assert.equal(await title.inputValue(), ""));
      await target.call(tokens.bob, "PATCH", `/v1/collaboration/tasks/${task.id}`, { assigneeIds: ["bob"] });
      await ada.getByLabel("Assignee").selectOption("Bob");
      await untilGone(ada.getByRole("button", { name: /Feed the cat/ }));
      await ada.getByRole("button", { name: /Water the plants/ }).waitFor();
    },
  );

  await t.step("a link to a task or a document that does not exist says so", async () => {
    await visit(ada, "tasks/task_0123456789abcdef0123456789abcdef");
    await ada.getByText(/No such task/).waitFor();
    await untilGone(ada.locator("dialog"));
    await visit(ada, "documents/doc_0123456789abcdef0123456789abcdef");
    await ada.getByText("This document is not available.").waitFor();
  });

  await t.step("going back leaves a dialog", async () => {
    await visit(ada, "inbox");
    await visit(ada, "people");
    await ada.getByRole("button", { name: "New", exact: true }).click();
    await ada.getByRole("menuitem", { name: "New room" }).click();
    await ada.locator("dialog input:focus").waitFor();
    await ada.goBack();
    await untilGone(ada.locator("dialog"));
    await ada.getByRole("heading", { name: "Inbox" }).waitFor();
  });

  await t.step("a page that is opened while the gateway is down loads everything once it is back", async () => {
    await visit(ada, `rooms/${room.id}`);
    await sees(ada, "First words");
    const isRefused = ["me", "sync"].map((name) =>
      ada.waitForEvent("requestfailed", (one) => one.url().includes(name))
    );
    await ada.route("**/v1/**", (route) => route.abort());
    await ada.reload();
    await Promise.all(isRefused);
    await ada.unroute("**/v1/**");
    await sees(ada, "First words");
    await ada.locator(".sidebar .me", { hasText: "Ada" }).waitFor();
  });

  await t.step("what was read without a network is sent when it is back", async () => {
    const isRefused = ada.waitForEvent("requestfailed", (request) => request.url().endsWith("/read"));
    await ada.route("**/rooms/*/read", (route) => route.abort());
    await post("/v1/messages", { roomId: room.id, text: "Read offline" });
    await sees(ada, "Read offline");
    await isRefused;
    await ada.unroute("**/rooms/*/read");
    await ada.context().setOffline(true);
    await ada.locator(".link-state:not(.connected)").waitFor();
    await ada.context().setOffline(false);
    await isAllRead();
  });

  await t.step("what was read is also sent if the network was back before the call failed", async () => {
    const { promise: isBack, resolve: letFail } = Promise.withResolvers<void>();
    const isSent = ada.waitForRequest("**/rooms/*/read");
    await ada.route("**/rooms/*/read", (route) => isBack.then(() => route.abort()));
    await post("/v1/messages", { roomId: room.id, text: "Read while it broke off" });
    await isSent;
    await ada.context().setOffline(true);
    await ada.locator(".link-state:not(.connected)").waitFor();
    await ada.context().setOffline(false);
    await ada.locator(".link-state.connected").waitFor();
    const isRefused = ada.waitForEvent("requestfailed", (request) => request.url().endsWith("/read"));
    letFail();
    await isRefused;
    await ada.unroute("**/rooms/*/read");
    await isAllRead();
  });

  await t.step("events are at their hour when clocks change, and keep their time zone", async () => {
    const path = "/v1/collaboration/calendar/events";
    const timeZone = "America/New_York";
    const { id } = await post(path, {
      roomId: room.id,
      title: "Breakfast",
      start: { dateTime: "2026-10-18T05:00:00", timeZone },
      rrule: "FREQ=WEEKLY",
    }, tokens.ada);
    const settings = await ada.context().newCDPSession(ada);
    await settings.send("Emulation.setTimezoneOverride", { timezoneId: "Europe/Berlin" });
    await visit(ada, `rooms/${room.id}/calendar?at=2026-10-25`);
    await ada.reload();
    const event = ada.getByRole("button", { name: /breakfast/i });
    // The hours may still be scrolled between the two looks.
    await eventually(async () => {
      const ten = await ada.locator(".hours span").nth(10).boundingBox();
      const drawn = await event.boundingBox();
      assert.ok(
        Math.abs((drawn?.y ?? NaN) - (ten?.y ?? NaN)) < 10,
        "10:00 in Berlin, where that night had an hour more",
      );
    });
    /** Changes a field of the series, and waits until the week shows that: it is what is clicked next. */
    const edit = async (label: string, value: string, shown: RegExp): Promise<unknown> => {
      await event.click();
      await ada.getByRole("button", { name: "Edit", exact: true }).click();
      await ada.getByLabel(label, { exact: true }).fill(value);
      await ada.getByLabel("Change").selectOption("the whole series");
      await ada.getByRole("button", { name: "Save" }).click();
      await untilGone(ada.locator("dialog"));
      await event.getByText(shown).waitFor();
      const { title, start, rrule } = await target.call(tokens.ada, "GET", `${path}/${id}`);
      return { title, start, rrule };
    };
    const start = { dateTime: "2026-10-18T05:00:00", timeZone };
    assert.deepEqual(await edit("Title", "Early breakfast", /Early/), {
      title: "Early breakfast",
      start,
      rrule: "FREQ=WEEKLY",
    });
    const later = { ...start, dateTime: "2026-10-18T06:30:00" };
    assert.deepEqual(await edit("Start", "2026-10-25T11:30", /11:30/), {
      title: "Early breakfast",
      start: later,
      rrule: "FREQ=WEEKLY",
    });
    await event.click();
    await ada.getByRole("button", { name: "Edit", exact: true }).click();
    await ada.getByLabel("Change").selectOption("the whole series");
    await ada.getByRole("checkbox", { name: /^Bob/ }).check();
    await ada.getByLabel("Until").fill("2026-11-08");
    await ada.getByRole("button", { name: "Save" }).click();
    await untilGone(ada.locator("dialog"));
    const { attendees, rrule } = await target.call(tokens.ada, "GET", `${path}/${id}`);
    assert.equal(rrule, "FREQ=WEEKLY;UNTIL=20261108T235959");
    await visit(ada, `rooms/${room.id}/calendar?at=2026-11-08`);
    await event.click();
    await ada.getByText(/^Repeats every week, until .*Nov 8/).waitFor();
    await ada.getByText("Organized by Ada").waitFor();
    await ada.getByRole("button", { name: "Edit", exact: true }).click();
    await ada.getByLabel("Change").selectOption("the whole series");
    assert.equal(await ada.getByLabel("Until").inputValue(), "2026-11-08");
    await visit(ada, `rooms/${room.id}`);
    assert.deepEqual(attendees.map((one: { principalId: string }) => one.principalId), ["bob"]);
    await settings.send("Emulation.setTimezoneOverride", { timezoneId: "" });
  });

  await t.step("a public room is live before one joins it, and says why it is left", async () => {
    const open = await post("/v1/rooms", { name: "Open", visibility: "public" });
    await visit(ada, `rooms/${open.id}`);
    await ada.getByRole("button", { name: "Join" }).waitFor();
    await post("/v1/messages", { roomId: open.id, text: "Come in" });
    await sees(ada, "Come in");
    await ada.getByRole("button", { name: "Join" }).click();
    await ada.locator(".chat .composer textarea").waitFor();
    // It is there for some seconds only.
    const isSaid = ada.getByText("Open: this room was deleted").waitFor();
    await allEnded([isSaid, target.call(tokens.bob, "DELETE", `/v1/rooms/${open.id}`)]);
  });

  await t.step("a link opens in a new tab without signing in, until one has signed out", async () => {
    const tab = await ada.context().newPage();
    await tab.goto(`${target.baseUrl}/#/rooms/${room.id}`);
    await sees(tab, "First words");
    await tab.close();
  });

  await t.step("the next person who signs in finds nothing of the previous one", async () => {
    await visit(ada, `rooms/${room.id}`);
    await ada.route("**/v1/messages", (route) => route.abort());
    await write(ada, "Never sent");
    await ada.locator(".unsent").waitFor();
    await composer.fill("Not for Bob");
    await visit(ada, "profile");
    await ada.getByRole("button", { name: "Sign out" }).click();
    const warning = ada.getByRole("dialog", { name: "Sign out?" });
    await warning.getByText(/1 message could not be sent yet.+ 1 draft would be lost/).waitFor();
    await warning.getByRole("button", { name: "Sign out" }).click();
    await ada.getByText("You are signed out.").waitFor();
    await ada.unroute("**/v1/messages");
    assert.deepEqual(await ada.evaluate("Object.keys(sessionStorage)"), ["gateway.reason"]);
    const tab = await ada.context().newPage();
    await tab.goto(target.baseUrl);
    await tab.getByLabel("Access token").waitFor();
    await tab.close();
    await enterToken(ada, tokens.bob);
    await ada.locator(".sidebar .me", { hasText: "Bob" }).waitFor();
    await visit(ada, `rooms/${room.id}`);
    await sees(ada, "First words");
    assert.equal(await composer.inputValue(), "");
    await assertNoReports(ada);
  });
});
