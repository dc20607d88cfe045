// Who may read a room and not write in it, or not change everything in it, is offered what is not refused.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { allEnded } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, signIn, untilGone, visit } from "./web_page.ts";

browserTest("those who may not change something are not offered to", async (t) => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.createPrincipal({ sub: "ada", name: "Ada", role: "owner" });
  const olga = await target.createPrincipal({ sub: "olga", name: "Olga" });
  const gus = await target.createPrincipal({ sub: "gus", name: "Gus" });
  const zoe = await target.createPrincipal({ sub: "zoe", name: "Zoe" });
  const post = (path: string, body: unknown) => target.call(ada, "POST", `/v1/${path}`, body);
  const { id: roomId } = await post("rooms", { name: "Plans", memberIds: ["olga", "gus"] });
  const { id } = await post("collaboration/documents", { roomId, title: "A page", text: "Words" });
  await post(`collaboration/documents/${id}/comments`, { text: "A comment" });
  const setRole = (role: string) => target.call(ada, "PUT", `/v1/rooms/${roomId}/members/olga`, { role });
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, olga);
  const documentMenu = async (): Promise<string[]> => {
    await page.getByRole("button", { name: "Document menu" }).click();
    const items = await page.getByRole("menuitem").allInnerTexts();
    await page.keyboard.press("Escape");
    return items;
  };
  const comment = page.getByRole("textbox", { name: "Comment", exact: true });
  await visit(page, `documents/${id}`);
  await page.getByRole("button", { name: "Comments", exact: true }).click();
  await page.locator(".pane").getByText("A comment").waitFor();
  await t.step("a member may add to the documents of others", async () => {
    assert.deepEqual(await documentMenu(), ["Outline", "Revisions", "Download as Markdown", "New page inside"]);
    await comment.waitFor();
  });
  await t.step("an observer may read a document and its comments", async () => {
    await setRole("observer");
    await untilGone(comment);
    assert.deepEqual(await documentMenu(), ["Outline", "Revisions", "Download as Markdown"]);
    const pane = page.locator(".pane");
    assert.equal(await pane.getByText("A comment").count(), 1);
    assert.deepEqual(await pane.getByRole("button").allInnerTexts(), [""], "closes it");
  });
  await t.step("a moderator may do everything with it", async () => {
    await setRole("moderator");
    await comment.waitFor();
    assert.deepEqual((await documentMenu()).slice(-2), ["Lock", "Delete"]);
  });
  await t.step("an observer cannot start a call", async () => {
    await visit(page, `rooms/${roomId}/call`);
    const start = page.getByRole("button", { name: "Start a call" });
    await start.waitFor();
    await setRole("observer");
    await untilGone(start);
  });
  await t.step("an event that an observer creates beside a room is its own", async () => {
    await visit(page, `rooms/${roomId}/calendar`);
    await page.getByRole("button", { name: "New event" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Title").fill("For me");
    const [response] = await allEnded([
      page.waitForResponse((one) => one.url().endsWith("/calendar/events") && one.request().method() === "POST"),
      dialog.getByRole("button", { name: "Create" }).click(),
    ]);
    assert.equal((await response.json()).roomId, null);
    await untilGone(dialog);
  });
  await t.step("a guest sees and chooses among the people of its rooms", async () => {
    const { id } = await target.call(gus, "POST", "/v1/collaboration/documents", { title: "Mine", text: "" });
    await target.call(ada, "PATCH", "/v1/collaboration/principals/gus", { role: "guest" });
    const guest = await signIn(browser, target, gus);
    const hint = guest.getByText("As a guest, you see the people of your rooms only.");
    await visit(guest, "people");
    await guest.reload();
    await hint.waitFor();
    const names = guest.locator("main .rows b");
    await names.nth(2).waitFor();
    assert.deepEqual((await names.allInnerTexts()).toSorted(), ["Ada", "Gus", "Olga"]);
    assert.equal(await guest.getByRole("button", { name: "Message" }).count(), 0);
    await guest.getByLabel("Find by name").fill("olg");
    await untilGone(names.nth(1));
    assert.equal(await names.innerText(), "Olga");
    await visit(guest, `documents/${id}`);
    await guest.getByRole("button", { name: "Document menu" }).click();
    await guest.getByRole("menuitem", { name: "Share" }).click();
    const dialog = guest.getByRole("dialog");
    await dialog.locator("li", { hasText: "Olga" }).getByRole("button", { name: "Add" }).click();
    await dialog.getByLabel("Access of Olga").waitFor();
    assert.equal(await hint.count(), 1);
    assert.equal(await guest.getByText("could not be read").count(), 0);
    await assertNoReports(guest);
  });
  await t.step("a moderator bans a member, and lifts the ban", async () => {
    await setRole("moderator");
    await visit(page, `rooms/${roomId}?pane=members`);
    await page.getByRole("button", { name: "Menu of Gus" }).click();
    await page.getByRole("menuitem", { name: "Ban from room" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Ban" }).click();
    const lift = page.locator(".pane").getByRole("button", { name: "Lift the ban of Gus" });
    await lift.waitFor();
    assert.equal((await target.call(ada, "GET", `/v1/rooms/${roomId}/bans`)).items[0].principalId, "gus");
    await lift.click();
    await untilGone(lift);
    assert.deepEqual((await target.call(ada, "GET", `/v1/rooms/${roomId}/bans`)).items, []);
  });
  await t.step("what was deleted is restored, and seen by its members", async () => {
    const dialog = page.getByRole("dialog");
    const restore = async (button: string, name: string): Promise<void> => {
      await page.getByRole("button", { name: button, exact: true }).click();
      await dialog.getByRole("button", { name: `Restore ${name}` }).click();
      await dialog.getByText("Nothing was deleted.").waitFor();
      await page.keyboard.press("Escape");
    };
    const task = await post("collaboration/tasks", { roomId, title: "A task" });
    await target.call(ada, "DELETE", `/v1/collaboration/tasks/${task.id}`);
    await visit(page, `rooms/${roomId}/tasks`);
    await restore("Deleted", "A task");
    await page.getByRole("button", { name: "A task" }).waitFor();
    await target.call(ada, "DELETE", `/v1/collaboration/documents/${id}`);
    await visit(page, `rooms/${roomId}/documents`);
    await restore("Deleted", "A page");
    await page.getByRole("link", { name: "A page" }).waitFor();
    await target.call(ada, "DELETE", `/v1/rooms/${roomId}`);
    const link = page.locator(".sidebar .room", { hasText: "Plans" });
    await untilGone(link);
    await target.call(ada, "POST", `/v1/rooms/${roomId}/restore`);
    await link.waitFor();
    const own = await target.call(olga, "POST", "/v1/rooms", { name: "Mine" });
    await target.call(olga, "DELETE", `/v1/rooms/${own.id}`);
    await page.getByRole("button", { name: "New", exact: true }).click();
    await page.getByRole("menuitem", { name: "Deleted rooms" }).click();
    await dialog.getByRole("button", { name: "Restore Mine" }).click();
    await page.keyboard.press("Escape");
    await page.locator(".sidebar .room", { hasText: "Mine" }).waitFor();
    await visit(page, `rooms/${roomId}?pane=members`);
  });
  await t.step("a person erases the own account, and is signed out", async () => {
    const own = await signIn(browser, target, zoe);
    await visit(own, "profile");
    await own.getByRole("button", { name: "Erase my account" }).click();
    await own.getByLabel("Repeat the id").fill("zoe");
    await own.getByRole("dialog").getByRole("button", { name: "Erase" }).click();
    await own.getByText("You are signed out.").waitFor();
    assert.ok((await target.call(ada, "GET", "/v1/collaboration/principals/zoe")).disabled);
  });
  await t.step("in a large room, each member is found by the name", async () => {
    await page.route(/\/members\?/, (route) => {
      const at = Number(new URL(route.request().url()).searchParams.get("cursor"));
      const items = Array.from({ length: 200 }, (_, index) => ({
        ...{ principalId: `p${at + index}`, kind: "human", displayName: `Person ${at + index}`, role: "member" },
        ...{ avatarFileId: null, status: null, lastReadSeq: null },
      }));
      return route.fulfill({ json: { items, nextCursor: at === 1200 ? null : String(at + 200) } });
    });
    await page.reload();
    const rows = page.locator(".pane .rows li");
    await rows.filter({ hasText: "1200 more. Find them by their name." }).waitFor();
    await page.getByLabel("Find members").fill("person 139");
    await untilGone(rows.nth(11));
    assert.equal(await rows.count(), 11, "Person 139 and those from 1390 to 1399");
  });
  await assertNoReports(page);
});
