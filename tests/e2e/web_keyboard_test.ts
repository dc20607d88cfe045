// The main paths by keyboard alone: no step uses a pointer.
import assert from "node:assert/strict";
import type { Page } from "npm:playwright-core@1.65.1";
import { browserTest, launchBrowser } from "../browser.ts";
import { openTarget } from "./target.ts";
import { openClient, sees, untilGone } from "./web_page.ts";

const TABS_MAX = 80;

/** Presses Tab until the focus is on what has this name. */
async function tabTo(page: Page, name: RegExp, key = "Tab"): Promise<void> {
  const seen: string[] = [];
  for (let n = 0; n < TABS_MAX; n++) {
    await page.keyboard.press(key);
    const focused = await page.evaluate(() => {
      type Focused = { getAttribute(name: string): string | null; textContent: string; tagName: string };
      const element = (globalThis as unknown as { document: { activeElement: Focused } }).document.activeElement;
      return element.getAttribute("aria-label") ?? `${element.textContent}${element.getAttribute("placeholder") ?? ""}`;
    });
    if (name.test(focused.trim())) return;
    seen.push(focused.trim().slice(0, 40));
  }
  assert.fail(`the focus never reached ${name}: ${seen.join(" | ")}`);
}

browserTest("keyboard alone signs in, creates a room, writes, reacts, searches and moves a task", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const token = await target.token({ sub: "ada", name: "Ada", role: "owner" });
  await using browser = await launchBrowser();
  const page = await openClient(browser, target.baseUrl);
  await t.step("sign in", async () => {
    await page.locator("textarea[name=token]:focus").waitFor();
    await page.keyboard.type(token);
    await tabTo(page, /^Sign in$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Create your first room" }).waitFor();
  });
  await t.step("create a room and write", async () => {
    // The proposed name is selected once the form has been rendered.
    await page.locator(".welcome input:focus").waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".composer textarea").waitFor();
    await page.locator(".composer textarea:focus").waitFor();
    await page.keyboard.type("By keyboard");
    await page.keyboard.press("Enter");
    await sees(page, "By keyboard");
    await untilGone(page.locator(".unsent"));
  });
  await t.step("react to a message with its toolbar", async () => {
    await tabTo(page, /^Messages$/, "Shift+Tab");
    await page.keyboard.press("ArrowUp");
    await page.locator("article.message:focus").waitFor();
    await tabTo(page, /^React with 👍$/);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "👍, 1 reaction" }).waitFor();
    await tabTo(page, /^Add a reaction$/);
    await page.keyboard.press("Enter");
    const field = page.locator(":focus[aria-label='Find an emoji']");
    await field.waitFor();
    for (const key of ["ArrowDown", "ArrowRight", "ArrowDown"]) await page.keyboard.press(key);
    // The second row, below the second one of the first.
    await page.locator(".emoji .grid button:nth-child(10):focus").waitFor();
    for (const key of ["ArrowUp", "ArrowUp"]) await page.keyboard.press(key);
    await field.waitFor();
    await page.keyboard.type("rocket");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "🚀, 1 reaction" }).waitFor();
  });
  await t.step("open a menu, move in it, and close it", async () => {
    await tabTo(page, /^More$/);
    await page.keyboard.press("Enter");
    await page.getByRole("menu").waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Escape");
    await untilGone(page.getByRole("menu"));
    await page.locator(":focus[aria-label='More']").waitFor();
  });
  await t.step("all keys are listed", async () => {
    await page.keyboard.press("Control+/");
    await page.getByRole("dialog").getByText("Room before or after this one").waitFor();
    await page.keyboard.press("Escape");
    await untilGone(page.getByRole("dialog"));
  });
  await t.step("search and jump to the place", async () => {
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox", { name: "Search" }).waitFor();
    await page.locator(".search-form input:focus").waitFor();
    await page.keyboard.type("By keyboard");
    // Of the whole text, as soon as that has been searched.
    await page.keyboard.press("Enter");
    await page.locator("article.message.marked").waitFor();
    await page.keyboard.press("Control+k");
    await page.locator(".search-form input:focus").waitFor();
    await page.keyboard.type("By keyboard");
    // Until the whole text is searched, a list for its beginning may still be replaced.
    await page.locator(".cards mark", { hasText: "keyboard" }).first().waitFor();
    await page.keyboard.press("ArrowDown");
    await page.locator(".cards a:focus").waitFor();
    await page.keyboard.press("Enter");
    await page.locator("article.message.marked").waitFor();
  });
  await t.step("create a task and move it", async () => {
    await tabTo(page, /^Tasks$/, "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.getByLabel("New task").waitFor();
    await tabTo(page, /^New task$/);
    await page.keyboard.type("Water the plants");
    await page.keyboard.press("Enter");
    await page.getByLabel("To do").getByRole("button", { name: /Water the plants/ }).waitFor();
    await tabTo(page, /^Water the plants/);
    await page.keyboard.press("Alt+ArrowRight");
    await page.getByLabel("In progress").getByRole("button", { name: /Water the plants/ }).waitFor();
  });
});
