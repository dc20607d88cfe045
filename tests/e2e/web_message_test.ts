// Around messages: what a reply replies to, where the focus is after a deletion, and the older part of the inbox.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { message } from "./web_round.ts";
import { assertNoReports, sees, signIn, write } from "./web_page.ts";

/** More than the client reads at first, of messages and of notifications. */
const MANY = 75;

/** Evaluated again and again from here: the policy of the page lets it evaluate no text itself. */
async function becomesTrue(page: Page, expression: string): Promise<void> {
  await eventually(async () => assert.equal(await page.evaluate(expression), true, expression));
}

async function confirmDelete(page: Page, text: string): Promise<void> {
  await message(page, text).hover();
  await message(page, text).getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await message(page, text).waitFor({ state: "detached" });
}

browserTest("a reply quotes what its reader may see, focus stays in place, and the inbox has more", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const [ada, bob, carol] = await Promise.all(
    ["ada", "bob", "carol"].map((sub) => target.token({ sub, name: sub, role: sub === "ada" ? "owner" : "member" })),
  );
  assert.ok(ada !== undefined && bob !== undefined && carol !== undefined);
  for (const token of [ada, bob, carol]) await target.call(token, "GET", "/v1/collaboration/me");
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
  await send(bob, "I agree", { replyToId: first.id });
  const browser = await launchBrowser();
  try {
    const page = await signIn(browser, target, ada);
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
      await other.close();
    });
    await t.step("after a deletion, the next message has the focus, or the composer", async () => {
      for (const text of ["One of mine", "Another of mine"]) {
        await write(page, text);
        await sees(page, text);
      }
      await page.locator(".unsent").waitFor({ state: "detached" });
      await confirmDelete(page, "One of mine");
      await becomesTrue(page, "document.activeElement?.matches('article.message')");
      assert.match(await page.locator("article.message:focus").innerText(), /Another of mine/);
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
      await page.goto(`${target.baseUrl}/#/profile`);
      const entry = (name: string) => page.locator("li", { hasText: name });
      await entry("one").getByRole("button", { name: "Revoke" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
      await entry("one").waitFor({ state: "detached" });
      await becomesTrue(page, "document.activeElement.textContent === 'Revoke'");
      assert.equal(await entry("two").locator(":focus").count(), 1);
    });
    await t.step("the inbox shows older notifications on demand", async () => {
      await page.getByRole("link", { name: /Inbox/ }).first().click();
      const entries = page.locator("li.notification");
      await eventually(async () => assert.equal(await entries.count(), 50));
      await page.getByRole("button", { name: "Show more" }).click();
      await eventually(async () => assert.equal(await entries.count(), MANY));
      await page.getByRole("button", { name: "Show more" }).waitFor({ state: "detached" });
      const focused =
        "[...document.querySelectorAll('li.notification')].findIndex((one) => one.matches(':focus-within'))";
      await becomesTrue(page, `${focused} === 50`);
      // They stay while what is new comes in.
      await send(bob, "one more", { mentions: { principalIds: ["ada"], room: false } });
      await eventually(async () => assert.equal(await entries.count(), MANY + 1));
    });
    await t.step("Escape leaves a thread, back to its message", async () => {
      await page.goto(`${target.baseUrl}/#/rooms/${roomId}`);
      await message(page, "I agree").focus();
      await page.keyboard.press("Enter");
      await page.locator(".pane textarea[aria-label='Reply in thread']:focus").waitFor();
      await page.keyboard.press("Escape");
      await page.locator(".pane").waitFor({ state: "detached" });
      await becomesTrue(page, "document.activeElement.textContent.includes('I agree')");
    });
    await t.step("a conversation of several begins with those who are added", async () => {
      await page.getByRole("button", { name: "New", exact: true }).click();
      await page.getByRole("menuitem", { name: "New direct message" }).click();
      const dialog = page.getByRole("dialog");
      for (const name of ["bob", "carol"]) {
        await dialog.locator("li", { hasText: name }).getByRole("button", { name: "Add" }).click();
      }
      await dialog.getByRole("button", { name: "Open" }).click();
      await page.getByRole("heading", { name: "bob, carol" }).first().waitFor();
    });
    await t.step("a message that is too long is edited, and of many rooms the direct ones stay in reach", async () => {
      await Promise.all(Array.from({ length: 30 }, (_, n) => post(ada, "/v1/rooms", { name: `Room ${n}` })));
      const direct = await post(carol, "/v1/rooms", { kind: "direct", memberIds: ["ada"] });
      await page.goto(`${target.baseUrl}/#/rooms/${direct.id}`);
      const composer = page.locator(".chat .composer textarea");
      await composer.fill("long ".repeat(13_000));
      await composer.press("Enter");
      await page.locator(".unsent").getByRole("button", { name: "Edit" }).click();
      await page.locator(".unsent").waitFor({ state: "detached" });
      assert.match(await composer.inputValue(), /^long long/);
      await composer.fill("");
      const all = page.getByRole("button", { name: "Show all 31" });
      assert.ok(await page.locator(".sidebar .room").count() < 31);
      await all.click();
      await eventually(async () => assert.equal(await page.locator(".sidebar .room").count(), 33));
    });
    await assertNoReports(page);
  } finally {
    await browser.close();
  }
});
