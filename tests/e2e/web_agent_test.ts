// An agent on the screen: its words while it writes them, its question for an approval, and the button that stops it.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually } from "../wait.ts";
import { addGardener, modelSettings, serveModel } from "./web_model.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, sees, signIn, untilGone, visit, write } from "./web_page.ts";

browserTest("an agent streams its answer, asks for an approval, and can be stopped", async (t) => {
  let mayFinish = false;
  await using model = serveModel(() => mayFinish);
  await using target = await openTarget({ isOwn: true, environment: modelSettings(model) });
  const token = await target.token({ sub: "ada", name: "Ada", role: "owner", ttlSeconds: 36_000 });
  const post = (path: string, body: unknown) => target.call(token, "POST", path, body);
  const room = await post("/v1/rooms", { name: "Garden" });
  await addGardener(target, token, room.id);
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, token);
  await page.getByRole("link", { name: /Garden/ }).click();
  await t.step("its words are on the screen before it has finished", async () => {
    await write(page, "@gardener hello");
    await page.locator(".run .text", { hasText: "I will" }).waitFor();
    mayFinish = true;
    await sees(page, "I will look after it now.");
    await untilGone(page.locator(".run"));
  });
  await t.step("it asks before it creates a task, and continues once that is approved", async () => {
    await write(page, "@gardener please create a task");
    await page.locator(".approval", { hasText: "Water the plants" }).waitFor();
    await page.locator(".run .text", { hasText: "I will" }).waitFor();
    // What was written before is not published again.
    await page.reload();
    await page.locator(".approval", { hasText: "Water the plants" }).waitFor();
    await page.locator(".run .text", { hasText: "I will" }).waitFor();
    await page.getByRole("button", { name: "Approve" }).focus();
    await page.keyboard.press("Enter");
    await page.locator(".chat .composer textarea:focus").waitFor();
    await sees(page, "The task is on your board.");
    await eventually(async () => {
      const { items } = await target.call(token, "GET", `/v1/collaboration/tasks?roomId=${room.id}`);
      assert.deepEqual(items.map(({ title }: { title: string }) => title), ["Water the plants"]);
    });
  });
  await t.step("who will read what it writes is said, and in which room", async () => {
    await target.createPrincipal({ sub: "eve", name: "Eve Moneypenny" });
    await write(page, "@gardener please invite Eve");
    const approval = page.locator(".approval");
    await approval.getByText("Will be read by Eve Moneypenny").waitFor();
    assert.deepEqual(await approval.locator("dt").allInnerTexts(), ["roomId", "title", "start", "attendees"]);
    await approval.getByLabel("Do not ask again").check();
    await page.getByRole("button", { name: "Deny" }).click();
    await untilGone(approval);
    const { items } = await target.call(token, "GET", `/v1/collaboration/ai/grants?roomId=${room.id}`);
    assert.deepEqual(items.map(({ tool, effect }: Record<string, string>) => [tool, effect]), [[
      "event.create",
      "deny",
    ]]);
    await untilGone(page.locator(".run"));
  });
  await t.step("what is not to be asked again is listed, and revoked", async () => {
    await visit(page, `rooms/${room.id}?pane=members`);
    await page.getByRole("button", { name: "Menu of Gardener" }).click();
    await page.getByRole("menuitem", { name: "Decisions about it" }).click();
    await page.getByRole("button", { name: "Revoke the decision about event.create" }).click();
    await page.getByText("It asks before each call that needs an approval.").waitFor();
    await page.keyboard.press("Escape");
    await visit(page, `rooms/${room.id}`);
  });
  await t.step("asked in a thread, it responds there, and is stopped while it writes", async () => {
    await page.locator(".chat .message", { hasText: "The task is on your board." }).first().focus();
    await page.keyboard.press("Enter");
    await write(page, "@gardener talk forever", ".pane");
    await page.locator(".pane .run .text", { hasText: "I will" }).waitFor();
    assert.equal(await page.locator(".chat .run").count(), 0);
    // Its steps say so as well while they are open.
    await page.getByRole("button", { name: "steps" }).click();
    await page.getByRole("dialog").getByText(/^is working, /).waitFor();
    await page.locator(".pane .run button", { hasText: "Stop" }).dispatchEvent("click");
    await page.getByRole("dialog").getByText(/^cancelled, /).waitFor();
    await page.keyboard.press("Escape");
    await untilGone(page.locator(".run"));
  });
  await t.step("an administrator adds a provider of models and an MCP server, which are tested", async () => {
    await visit(page, "admin/connections");
    const dialog = page.getByRole("dialog");
    const add = async (button: string, fields: Record<string, string>): Promise<void> => {
      await page.getByRole("button", { name: button }).click();
      for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label).fill(value);
      await dialog.getByRole("button", { name: "Save" }).click();
      await untilGone(dialog);
    };
    const test = async (id: string, notice: RegExp): Promise<void> => {
      // It is there for some seconds only.
      const isShown = page.locator(".notices").getByText(notice).waitFor();
      const button = page.locator("li", { hasText: id }).getByRole("button", { name: "Test" });
      await allEnded([isShown, button.click()]);
    };
    const address = `http://127.0.0.1:${model.addr.port}/v1`;
    await add("New provider", { Id: "ours", Address: address, Key: "secret", "Models, the": "large" });
    await test("ours", /^large has responded/);
    await add("New server", { Id: "mirror", Address: `${target.baseUrl}/mcp`, Authorization: `Bearer ${token}` });
    await test("mirror", /^mirror has \d+ tools/);
  });
  await t.step("an administrator limits what an agent uses of models", async () => {
    await visit(page, "admin/agents");
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "New budget" }).click();
    await dialog.getByLabel("Limits").selectOption("an agent");
    await dialog.getByLabel(/^Agent/).selectOption("Gardener");
    await dialog.getByLabel("Tokens").fill("1000");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByText(/^\d+ of 1,000 tokens in this month$/).waitFor();
    const budgets = async () => (await target.call(token, "GET", "/v1/collaboration/ai/budgets")).items;
    const shown = (await budgets()).map((
      { scope, period, tokens }: Record<string, unknown>,
    ) => [scope, period, tokens]);
    assert.deepEqual(shown, [["agent", "month", 1000]]);
    await page.getByRole("button", { name: "Remove the budget of Gardener" }).click();
    await page.getByText("No budgets.").waitFor();
    assert.deepEqual(await budgets(), []);
  });
  await assertNoReports(page);
});
