// Mentions in the browser client: who is offered, who is mentioned, and what is marked as a mention.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, signIn, untilGone, visit } from "./web_page.ts";
import { message } from "./web_round.ts";

/** Types into the composer until these are offered. */
async function typeFor(page: Page, text: string, offered: readonly string[]): Promise<void> {
  await page.locator(".composer textarea").pressSequentially(text);
  await eventually(async () =>
    assert.deepEqual((await page.locator(".completion li b").allInnerTexts()).toSorted(), offered)
  );
}

async function send(page: Page, text: string): Promise<void> {
  await page.locator(".composer textarea").pressSequentially(text);
  // While somebody is offered, Enter picks.
  await untilGone(page.locator(".completion"));
  await page.keyboard.press("Enter");
}

browserTest("the client offers members, mentions those who are picked, and marks nobody else", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: "Ada Lovelace", role: "owner" });
  const bob = await target.createPrincipal({ sub: "bob" });
  await target.createPrincipal({ sub: "248289761001", name: "Анна" });
  const carol = await target.createPrincipal({ sub: "carol", name: "Carol Jones" });
  await target.createPrincipal({ sub: "dan", name: "Dan" });
  for (const [id, kind, displayName] of [["poller", "service", "Poller"], ["helper", "agent", "Helper"]]) {
    await target.call(ada, "POST", "/v1/collaboration/principals", { id, kind, displayName });
  }
  const { id: groupId } = await target.call(ada, "POST", "/v1/collaboration/groups", { name: "Design" });
  await target.call(ada, "POST", `/v1/collaboration/groups/${groupId}/members`, {
    principalIds: ["248289761001", "carol"],
  });
  const memberIds = ["bob", "248289761001", "poller", "helper"];
  const { id: roomId } = await target.call(ada, "POST", "/v1/rooms", { name: "team", memberIds });
  const mentionedIn = async (): Promise<string[]> => {
    const { items } = await target.call(ada, "GET", `/v1/messages?roomId=${roomId}&limit=1`);
    return items[0].mentions.principalIds;
  };
  const browser = await launchBrowser();
  try {
    const page = await signIn(browser, target, ada);
    await page.getByRole("link", { name: /team/ }).first().click();
    const marked = (text: string): Promise<string[]> => message(page, text).locator(".mention").allInnerTexts();
    await t.step("services are not offered", async () => {
      await typeFor(page, "@", ["Ada Lovelace", "Design", "Everybody in this room", "Helper", "bob", "Анна"]);
    });
    await t.step("a person is found by each of the names", async () => {
      await typeFor(page, "lov", ["Ada Lovelace"]);
      for (const _ of "lov") await page.keyboard.press("Backspace");
    });
    await t.step("a group is offered, and its members in the room are mentioned", async () => {
      await typeFor(page, "des", ["Design"]);
      await page.keyboard.press("Tab");
      await send(page, "look");
      await eventually(async () => assert.deepEqual(await mentionedIn(), ["248289761001"]));
      await eventually(async () => assert.deepEqual(await marked("look"), ["@design"]));
      await target.call(ada, "POST", "/v1/collaboration/groups", { name: "Night" });
      await send(page, "@night now");
      await message(page, "@night now").getByText("Nobody was notified by @night").waitFor();
      await page.locator(".composer textarea").pressSequentially("@");
    });
    await t.step("a member without a handle is mentioned, and an unknown name is not marked", async () => {
      await typeFor(page, "bo", ["bob"]);
      await page.keyboard.press("Tab");
      await send(page, "knows, not @nobody");
      await eventually(async () => assert.deepEqual(await marked("knows, not"), ["@bob"]));
      assert.deepEqual(await mentionedIn(), ["bob"]);
      await eventually(async () => {
        const { items } = await target.call(bob, "GET", "/v1/collaboration/notifications?kind=mention");
        assert.equal(items.length, 1);
      });
    });
    await t.step("an id that says little is shown as the name", async () => {
      await typeFor(page, "@Ан", ["Анна"]);
      await page.keyboard.press("Tab");
      await send(page, "and **@helper**: `@bob`, \\@bob");
      await eventually(async () => assert.deepEqual(await marked("and @helper"), ["@Анна", "@helper"]));
      assert.deepEqual(await mentionedIn(), ["248289761001", "helper"]);
    });
    await t.step("a name may follow a word of a script without spaces", async () => {
      await typeFor(page, "请@bo", ["bob"]);
      await page.keyboard.press("Tab");
      await send(page, "看看");
      await eventually(async () => assert.deepEqual(await marked("看看"), ["@bob"]));
      assert.deepEqual(await mentionedIn(), ["bob"]);
    });
    await t.step("everybody is marked if everybody is mentioned", async () => {
      await send(page, "Lunch, @all?");
      await eventually(async () => assert.deepEqual(await marked("Lunch"), ["@all"]));
    });
    await t.step("its author sees that somebody who is named is not in the room, and adds them", async () => {
      let lookups = 0;
      const other = await signIn(browser, target, bob);
      await other.getByRole("link", { name: /team/ }).first().click();
      page.on("request", (request) => lookups += Number(/principals\?q=/.test(request.url())));
      await send(page, "Welcome @Carol-Jones and @bob: `@dan`, dan@example.org");
      const absent = message(page, "Welcome").locator(".absent");
      await absent.getByText("Carol Jones is not in this room and was not notified.").waitFor();
      await message(other, "Welcome").waitFor();
      assert.equal(await other.locator(".absent").count(), 0);
      await other.close();
      assert.equal(await absent.count(), 1);
      assert.equal(lookups, 1);
      await absent.getByRole("button", { name: "Add to the room" }).click();
      await untilGone(absent);
      await eventually(async () => assert.deepEqual(await marked("Welcome"), ["@carol-jones", "@bob"]));
      await eventually(async () => {
        const { items } = await target.call(carol, "GET", "/v1/collaboration/notifications?kind=mention");
        assert.equal(items.length, 1);
      });
    });
    await t.step("what is said about it can be dismissed", async () => {
      await send(page, "And @dan");
      const absent = message(page, "And @dan").locator(".absent");
      await absent.getByRole("button", { name: "Dismiss" }).click();
      await untilGone(absent);
    });
    await t.step("who types faster than the page is drawn picks what all of it means", async () => {
      await typeFor(page, "@b", ["bob"]);
      // Two keys before the next frame.
      const text = await page.evaluate(`(async () => {
        const box = document.querySelector(".composer textarea");
        document.execCommand("insertText", false, "o");
        await new Promise((done) => setTimeout(done));
        box.dispatchEvent(new KeyboardEvent("keydown", { key: "Tab", bubbles: true, cancelable: true }));
        return box.value;
      })()`);
      assert.equal(text, "@bob ");
    });
    await t.step("a group's members are found by name, and are not offered to be added", async () => {
      await visit(page, "admin/groups");
      const dialog = page.getByRole("dialog", { name: "Design" });
      await page.getByRole("listitem").filter({ hasText: "Design" }).getByRole("button", { name: "Members" }).click();
      await dialog.getByRole("button", { name: "Remove Анна" }).waitFor();
      await dialog.getByLabel("Find members, and people to add").fill("CAROL");
      await untilGone(dialog.getByRole("button", { name: "Remove Анна" }));
      await dialog.getByRole("button", { name: "Remove Carol Jones" }).click();
      await dialog.getByRole("button", { name: "Add Carol Jones" }).click();
      await dialog.getByRole("button", { name: "Remove Carol Jones" }).waitFor();
      assert.equal(await dialog.getByRole("button", { name: "Add Carol Jones" }).count(), 0);
    });
    await assertNoReports(page);
  } finally {
    await browser.close();
  }
});
