// What a person reads where something could not be read, and how they go on from there.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded, eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, signIn, untilGone, visit } from "./web_page.ts";

browserTest("what could not be read says so, and can be read again", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: "Ada", role: "owner" });
  const post = (path: string, body: unknown) => target.call(ada, "POST", `/v1/${path}`, body);
  const { id: roomId } = await post("rooms", { name: "Plans" });
  const task = await post("collaboration/tasks", { roomId, title: "Water the plants", assigneeIds: ["ada"] });
  const document = await post("collaboration/documents", { roomId, title: "A page", text: "Words" });
  await post(`collaboration/documents/${document.id}/comments`, { text: "A comment" });
  const message = await post("messages", { roomId, text: "To be pinned" });
  await target.call(ada, "PUT", `/v1/messages/${message.id}/pin`);
  await post("collaboration/webhooks", { url: "https://example.com/hook" });
  const headers = { authorization: `Bearer ${ada}`, "content-type": "image/png" };
  // It begins like a picture, and what follows is not one.
  const body = Uint8Array.fromBase64(
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC",
  );
  const path = `${target.baseUrl}/v1/collaboration/files?roomId=${roomId}&name=broken.png`;
  const file = await (await fetch(path, { method: "POST", headers, body })).json();
  await post("messages", { roomId, text: "A picture", fileIds: [file.id] });
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, ada);
  await t.step("a page that is opened without a connection is loaded with the next one", async () => {
    await page.context().setOffline(true);
    await page.locator(".link-state:not(.connected)").waitFor();
    await visit(page, "search");
    // To load the whole page again now would lose it.
    await page.getByText("This page could not be loaded. It is loaded with the next connection.").waitFor();
    await page.getByRole("heading", { name: "Search" }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole("searchbox", { name: "Search" }).waitFor();
  });
  await t.step("what a browser does not load a second time is loaded with the whole page", async () => {
    await page.context().setOffline(true);
    await page.locator(".link-state:not(.connected)").waitFor();
    await visit(page, "people");
    await page.getByText("This page could not be loaded.").waitFor();
    // As in Firefox, which sends no such request.
    await page.route("**/people-page.ts", (route) => route.abort(), { times: 1 });
    await allEnded([page.waitForEvent("load"), page.context().setOffline(false)]);
    await page.getByRole("main").getByText("@ada").waitFor();
  });
  const again = page.getByRole("button", { name: "Try again" });
  const places: readonly (readonly [place: string, what: RegExp, within: string, text: string])[] = [
    ["tasks", /\/tasks\?/, "main", "Water the plants"],
    [`tasks/${task.id}`, new RegExp(`/tasks/${task.id}$`), "dialog", "Assignees"],
    ["documents", /\/documents\?/, "main", "A page"],
    [`documents/${document.id}`, new RegExp(`/documents/${document.id}$`), "main", "Comments"],
    ["calendar", /\/calendar\/events\?/, "main", "New event"],
    ["inbox", /\/notifications\?/, "main", "Nothing here"],
    [`rooms/${roomId}?pane=members`, /\/members\?/, ".pane", "owner"],
    [`rooms/${roomId}?pane=files`, /\/files\?/, ".pane", "broken.png"],
    [`rooms/${roomId}?pane=pins`, /\/pins\?/, ".pane", "To be pinned"],
    ["search?q=Water", /\/search\?/, "main", "Water the plants"],
    ["people", /\/principals\?.*limit=30/, "main", "@ada"],
    ["people/ada", /\/principals\/ada$/, "main", "Edit profile"],
    ["profile", /\/tokens\?/, "main", "None that the gateway has issued."],
    ["admin/people", /\/principals\?.*limit=100/, "main", "@ada"],
    ["admin/invitations", /\/invitations\?/, "main", "No invitation is open."],
    ["admin/agents", /\/agents\?/, "main", "No agents yet."],
    ["admin/jobs", /\/jobs\?/, "main", "Nothing has failed permanently."],
    ["admin/api", /\/openapi\.json$/, "main", "Choose an operation."],
    ["admin/webhooks", /\/webhooks/, "main", "example.com"],
  ];
  const status = { status: 500, contentType: "application/problem+json", body: `{"detail":"Out of order"}` };
  for (const [place, what, within, text] of places) {
    await t.step(`#/${place.replace(/_[0-9a-f]+/, "")}`, async () => {
      await page.route(what, (route) => route.fulfill(status));
      await visit(page, place);
      const part = page.locator(within);
      await part.getByText("This could not be read.").waitFor();
      await page.unroute(what);
      await again.click();
      await part.getByText(text).first().waitFor();
      await untilGone(again);
      if (within === "dialog") await part.getByRole("button", { name: "Close" }).click();
    });
  }
  await t.step("a choice that could not be saved is as it was before", async () => {
    await visit(page, "profile");
    const isMe = /\/collaboration\/me$/;
    await page.route(isMe, (route) => route.fulfill(status));
    const box = page.getByLabel("Mentions", { exact: true });
    await allEnded([page.waitForResponse(isMe), box.click()]);
    await eventually(async () => assert.ok(await box.isChecked()));
    await allEnded([page.waitForResponse(isMe), box.click()]);
    await eventually(async () => assert.ok(await box.isChecked()));
    // However often the same has failed.
    assert.equal(await page.locator(".notices").getByText("Out of order").count(), 1);
    await page.unroute(isMe);
  });
  await t.step("a picture that cannot be shown can be downloaded", async () => {
    await visit(page, `rooms/${roomId}`);
    await page.locator(".chat .file-card", { hasText: "broken.png" }).waitFor();
    assert.equal(await page.locator(".chat .picture").count(), 0);
  });
  await t.step("a dialog that could not be loaded says so in words, and is loaded the next time", async () => {
    const open = async (): Promise<void> => {
      await page.getByRole("button", { name: "Room menu" }).click();
      await page.getByRole("menuitem", { name: "Go to a date" }).click();
    };
    await page.route("**/message-date_jump.ts", (route) => route.abort());
    await open();
    await page.locator(".notices").getByText("This could not be loaded. Try again, or load the page again.")
      .waitFor();
    await page.unroute("**/message-date_jump.ts");
    await open();
    await page.getByRole("dialog", { name: "Go to a date" }).getByRole("button", { name: "Cancel" }).click();
  });
  await t.step("who does not exist is not asked for again", async () => {
    await visit(page, "people/carol");
    await page.getByText("This person is not available.").waitFor();
    assert.equal(await again.count(), 0);
    await visit(page, "rooms/room_none");
    await page.getByText("This room is not available.").waitFor();
    assert.equal(await page.locator(".notices").getByText("No such room").count(), 0);
  });
  await page.setViewportSize({ width: 390, height: 844 });
  await t.step("on a narrow screen, a page that does not exist has a way back", async () => {
    await visit(page, "nowhere");
    await page.getByText("This page does not exist.").waitFor();
    await page.getByRole("link", { name: "All rooms" }).click();
    await page.getByRole("main").getByRole("link", { name: "Plans" }).waitFor();
  });
  await t.step("on a narrow screen, the list of rooms says that there is no connection", async () => {
    const banner = page.getByText("Reconnecting…");
    await page.context().setOffline(true);
    await banner.waitFor();
    await page.context().setOffline(false);
    await untilGone(banner);
  });
  await t.step("on a narrow screen, each button of a document has a name", async () => {
    await visit(page, `documents/${document.id}`);
    await page.getByRole("button", { name: "Comments", exact: true }).click();
    await page.locator(".pane").getByText("A comment").waitFor();
    await page.getByRole("heading", { level: 1, name: document.title }).waitFor();
    await eventually(async () => assert.equal(await page.title(), document.title));
  });
  await assertNoReports(page);
});
