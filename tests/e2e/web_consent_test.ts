// An application asks for access: who signs in knows which one, and what is ticked is what it gets.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { FakeProvider } from "../identity_provider.ts";
import { openTarget } from "./target.ts";
import { authorizationAddress } from "./web_authorization.ts";
import { assertNoReports, openClient, visit } from "./web_page.ts";

browserTest("an application is named before signing in, and gets exactly what is ticked", async (t) => {
  await using provider = new FakeProvider();
  await using target = await openTarget({
    isOwn: true,
    environment: {
      SVC_OIDC_ISSUER: provider.issuer,
      SVC_OIDC_CLIENT_ID: provider.clientId,
      SVC_OIDC_CLIENT_SECRET: provider.clientSecret,
      SVC_OIDC_NAME: "Team Login",
    },
  });
  await using browser = await launchBrowser();
  const scopes = ["message.read", "message.write", "command.write", "task.read", "task.write", "webhook.manage"];
  const page = await openClient(browser, await authorizationAddress(target, "Desk Assistant", scopes));
  await t.step(
    "the page where it is signed in names it, and comes back to it from the identity provider",
    async () => {
      await page.getByText("Desk Assistant asks for access. Sign in").waitFor();
      provider.deny = "access_denied";
      await page.getByRole("link", { name: "Sign in with Team Login" }).click();
      await page.getByRole("alert").getByText("Team Login does not let you in here.").waitFor();
      provider.reset();
      await page.getByText("Desk Assistant asks for access. Sign in").waitFor();
      await page.getByRole("link", { name: "Sign in with Team Login" }).click();
      await page.getByRole("heading", { name: "Desk Assistant asks for access" }).waitFor();
    },
  );
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
  await t.step("who signs out here is signed out at the identity provider, and comes back", async () => {
    await visit(page, "profile");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("status").getByText("You are signed out.").waitFor();
    await page.getByRole("link", { name: "Sign in with Team Login" }).waitFor();
    assert.equal(provider.ended, 1);
  });
  await t.step("the code of who signs in again, with no place to come back to, stays in no address", async () => {
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.getByRole("link", { name: "Sign in with Team Login" }).click();
    await page.getByText("No rooms yet.").waitFor();
    assert.ok(!page.url().includes("code="), page.url());
  });
});
