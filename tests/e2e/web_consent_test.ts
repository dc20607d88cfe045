// An application asks for access: who signs in knows which one, and what is ticked is what it gets.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { openTarget } from "./target.ts";
import { authorizationAddress } from "./web_authorization.ts";
import { assertNoReports, openClient } from "./web_page.ts";

browserTest("an application is named before signing in, and gets exactly what is ticked", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const token = await target.token({ sub: "ada", name: "Ada" });
  const browser = await launchBrowser();
  const scopes = ["message.read", "message.write", "command.write", "task.read", "task.write", "webhook.manage"];
  try {
    const page = await openClient(browser, await authorizationAddress(target, "Desk Assistant", scopes));
    await t.step("the page where it is signed in names it", async () => {
      await page.getByText("Desk Assistant asks for access. Sign in").waitFor();
      await page.getByLabel("Access token").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { name: "Desk Assistant asks for access" }).waitFor();
    });
    await t.step("what it asks for is grouped by area, and all of it is granted at first", async () => {
      const rows = await page.locator("tbody th").allInnerTexts();
      assert.deepEqual(rows, ["Messages", "Tasks", "Webhooks and plugins"]);
      assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 5);
      const names = (await page.locator("details code").textContent() ?? "").split(" ");
      assert.deepEqual(names.toSorted(), scopes.toSorted());
    });
    await t.step("nothing is granted that is not ticked", async () => {
      for (const name of ["Write: Messages", "Manage: Webhooks and plugins"]) {
        await page.getByRole("checkbox", { name }).uncheck();
      }
      // The application itself is not here.
      await page.route("http://127.0.0.1:7777/**", (route) => route.fulfill({ body: "Back" }));
      const decided = page.waitForRequest((request) => request.url().endsWith("/decision"));
      await assertNoReports(page);
      await page.getByRole("button", { name: "Allow" }).click();
      const { scopes: granted } = (await decided).postDataJSON();
      assert.deepEqual(granted.toSorted(), ["message.read", "task.read", "task.write"]);
      await page.waitForURL(/^http:\/\/127\.0\.0\.1:7777\/callback\?code=/);
    });
    await t.step("on a small screen, all that an application can ask for leaves the buttons in reach", async () => {
      await page.setViewportSize({ width: 360, height: 640 });
      await page.goto(await authorizationAddress(target, "Desk Assistant"));
      const allow = page.getByRole("button", { name: "Allow" });
      await allow.waitFor();
      const { y = 0, height = 0 } = await allow.boundingBox() ?? {};
      assert.ok(height > 0 && y + height <= 640, `${y} ${height}`);
      for (const box of await page.getByRole("checkbox").all()) await box.uncheck();
      assert.ok(await allow.isDisabled());
    });
  } finally {
    await browser.close();
  }
});
