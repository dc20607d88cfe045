// A newcomer: the printed address, a room, a message. Then a second person joins by invitation.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, openClient, sees, signInAddress, visit, write } from "./web_page.ts";

browserTest("whoever opens the printed address writes the first message", async (t) => {
  await using target = await openTarget({ isOwn: true, environment: { SVC_RATE_LIMIT: "on" } });
  const address = await signInAddress(target);
  await using browser = await launchBrowser();
  const owner = await openClient(browser, address);
  await t.step("the owner creates a room and writes in it", async () => {
    await owner.getByLabel("Name of your team").fill("Gardeners");
    await owner.getByRole("button", { name: "Create room" }).click();
    await owner.getByRole("heading", { name: "Gardeners" }).waitFor();
    await write(owner, "Hello, team");
    await sees(owner, "Hello, team");
    assert.doesNotMatch(owner.url(), /code/, "the code is removed from the address");
  });
  await t.step("the page opens again from what the browser has stored", async () => {
    const url = owner.url();
    await owner.goto("about:blank");
    await owner.goto(url);
    await sees(owner, "Hello, team");
    await owner.reload();
    await sees(owner, "Hello, team");
  });
  await t.step("the address works once", async () => {
    // In a page that is open already.
    const other = await openClient(browser, target.baseUrl);
    await other.getByLabel("Access token").waitFor();
    await other.evaluate(`location.hash = ${JSON.stringify(new URL(address).hash)}`);
    await other.getByRole("alert").waitFor();
    assert.doesNotMatch(other.url(), /code/);
    await other.close();
  });
  await t.step("a person who was invited joins, and both see each other's messages", async () => {
    const token = await owner.evaluate("sessionStorage.getItem('gateway.token')") as string;
    const { path } = await target.call(token, "POST", "/v1/collaboration/invitations", { name: "Bob" });
    const bob = await openClient(browser, `${target.baseUrl}/${path}`);
    await bob.getByLabel("Name").fill("Bob");
    await bob.getByRole("button", { name: "Join" }).click();
    await bob.getByRole("button", { name: "Browse rooms" }).click();
    await bob.getByRole("button", { name: "Join" }).click();
    await sees(bob, "Hello, team");
    await write(bob, "Hi, **Owner**");
    await sees(owner, "Hi, Owner");
    await assertNoReports(bob);
    // The next day, there is no other way back.
    const context = bob.context();
    await bob.close();
    const later = await context.newPage();
    await later.goto(target.baseUrl);
    await later.locator(".sidebar").getByText("Bob", { exact: true }).waitFor();
    // Who opens the address of the invitation again is still signed in, also if the code is refused.
    await later.evaluate(`location.hash = ${JSON.stringify(`#${path.split("#")[1]}`)}`);
    await later.getByLabel("Name").fill("Bob again");
    await later.getByRole("button", { name: "Join" }).click();
    await later.getByRole("alert").waitFor();
    await later.getByRole("button", { name: "Continue" }).click();
    await later.locator(".sidebar").getByText("Bob", { exact: true }).waitFor();
    await visit(later, "profile");
    await later.getByLabel("Stay signed in on this device").uncheck();
    await later.close();
    const stranger = await context.newPage();
    await stranger.goto(target.baseUrl);
    await stranger.evaluate("localStorage.setItem('gateway.kept', JSON.stringify(['token', 'team bob']))");
    await stranger.getByLabel("Access token").fill(token);
    await stranger.getByRole("button", { name: "Sign in" }).click();
    await stranger.locator(".sidebar").getByText("Owner", { exact: true }).waitFor();
    assert.equal(await stranger.evaluate("localStorage.getItem('gateway.kept')"), null);
    await context.close();
  });
  await t.step("signing out revokes the token", async () => {
    const token = await owner.evaluate("sessionStorage.getItem('gateway.token')") as string;
    // A tab whose session has ended still has what was written in it.
    const tab = await owner.context().newPage();
    await tab.goto(target.baseUrl);
    await tab.locator(".link-state.connected").waitFor();
    await tab.evaluate("sessionStorage.removeItem('gateway.token')");
    await tab.reload();
    await tab.getByLabel("Access token").waitFor();
    // The connections of a revoked token end before the page knows that it is revoked.
    await owner.route("**/auth/logout", async (route) => {
      const response = await route.fetch();
      await owner.getByLabel("Access token").waitFor();
      await route.fulfill({ response });
    });
    // What is not sent yet would be asked about. The page was left while the first message was sent.
    const isSent = async () => assert.equal(await owner.evaluate("sessionStorage.getItem('gateway.unsent')"), "[]");
    await eventually(isSent);
    await visit(owner, "profile");
    await owner.getByRole("button", { name: "Sign out" }).click();
    for (const page of [owner, tab]) {
      await page.getByText("You are signed out.").waitFor();
      assert.deepEqual(await page.evaluate("Object.keys(sessionStorage)"), ["gateway.reason"]);
    }
    await assert.rejects(target.call(token, "GET", "/v1/collaboration/me"), /401/);
    await assertNoReports(owner);
  });
});
